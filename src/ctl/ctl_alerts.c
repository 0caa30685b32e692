/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of rules of `alert`: spans.alerts.count, spans.alerts.<i>.*. They are as of the last look of this process or of
 * its sidecar. */
#include <errno.h>

#include "base/compiler.h"
#include "ctl/ctl.h"
#include "snapshot/alert_figures.h"

static bool is_rule(uint32_t id)
{
    return id && id <= load_acquire(&alerts_shown.n);
}

static int alerts_count(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return ctl_read_u64(call, load_relaxed(&alerts_shown.n));
}

static int alert_rule(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    return is_rule(id) ? ctl_read(call, &alerts_shown.rules[id - 1], sizeof alerts_shown.rules[0]) : ENOENT;
}

static int alert_number(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct alert_figures *figures = load_acquire(&alerts_shown.figures);
    return is_rule(id) && figures ? ctl_read_u64(call, alert_figure(&figures[id - 1], self->offset)) : ENOENT;
}

const struct ctl_name ctl_alerts_names[] = {{"count", alerts_count, 0}, {0}};
static const struct ctl_name alert_names[] = {
    {"rule", alert_rule, 0},
    {"holding", alert_number, ALERT_HOLDING},
    {"fired", alert_number, ALERT_FIRED},
    {"bytes", alert_number, ALERT_BYTES},
    {0},
};
const struct ctl_group ctl_alerts_groups[] = {{NULL, alert_names, NULL}, {0}};
