/* SPDX-License-Identifier: BSD-2-Clause */
/* The limit of a context: spans.<id>.limit_*. */
#include <errno.h>
#include <stdint.h>

#include "ctl/ctl.h"
#include "policy/limits.h"
#include "report/limit_events.h"

static uint64_t limit_figure(const struct limit_figures *figures, size_t which)
{
    switch (which) {
    case CTL_LIMIT_SOFT:
        return figures->bounds.soft;
    case CTL_LIMIT_HARD:
        return figures->bounds.hard;
    case CTL_LIMIT_INUSE:
        return figures->inuse_bytes;
    default:
        return figures->refusals;
    }
}

int ctl_context_limit_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    struct limit_figures figures;
    if (limits_get(id, &figures) || (!figures.exists && self->offset >= CTL_LIMIT_INUSE))
        return ENOENT;
    return ctl_read_u64(call, limit_figure(&figures, self->offset));
}

int ctl_context_limit(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    uint64_t bytes;
    int error = ctl_context_limit_figure(self, id, &read_only);
    if (error || (!call->new_value && !call->new_bytes))
        return error;
    error = ctl_write(call, &bytes, sizeof bytes);
    if (error)
        return error;
    error = limits_set(id, self->offset == CTL_LIMIT_SOFT ? &bytes : NULL, self->offset == CTL_LIMIT_HARD ? &bytes : NULL);
    if (!error)
        limit_events_start();
    return -error;
}
