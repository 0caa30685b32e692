/* SPDX-License-Identifier: BSD-2-Clause */
/* spans.find and spans.sum.*: contexts by their path, and sums over them. The path is the new value, the answer the old one. */
#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "ctl/ctl.h"
#include "snapshot/row_find.h"

static int take_path(const struct ctl_call *call, const char **path)
{
    int error = ctl_write(call, path, sizeof *path);
    return !error && (!*path || row_path_wrong(*path)) ? EINVAL : error;
}

static void answer_ids(const struct snapshot *s, const char *path, const struct ctl_call *call)
{
    size_t n = 0, room = ctl_room(call, sizeof(uint32_t));
    for (const struct snapshot_row *row = NULL; (row = snapshot_next(s, row));) {
        if (!row_fits(s, (uint32_t)(row - s->rows), path))
            continue;
        if (n < room)
            ((uint32_t *)call->old)[n] = row->id;
        n++;
    }
    ctl_end_array(call, n, sizeof(uint32_t));
}

int ctl_find(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const char *path;
    (void)self;
    (void)id;
    int error = take_path(call, &path);
    if (error || !call->old_bytes)
        return EINVAL;
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    if (s)
        answer_ids(s, path, call);
    unlock(LOCK_CTL);
    return s ? 0 : EAGAIN;
}

/* Each context counts once, also below several that fit. */
static uint64_t sum_within(const struct snapshot *s, const char *path, size_t offset)
{
    struct totals sum = {0};
    for (uint32_t row = 0; row < s->n_rows; row++)
        if (row_is_within(s, row, path))
            totals_add(&sum, &s->rows[row].totals);
    return totals_figure(&sum, offset);
}

int ctl_sum(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    const char *path;
    (void)id;
    if (!ctl_figure_is_known(self->offset))
        return ENOENT;
    if (take_path(call, &path))
        return EINVAL;
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    uint64_t sum = s ? sum_within(s, path, self->offset) : 0;
    unlock(LOCK_CTL);
    return s ? ctl_read_u64(&read_only, sum) : EAGAIN;
}
