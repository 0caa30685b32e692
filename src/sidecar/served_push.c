/* SPDX-License-Identifier: BSD-2-Clause */
#include "sidecar/served_push.h"

#include "base/clock.h"
#include "base/number.h"
#include "conf/conf.h"

#define NS_PER_MS UINT64_C(1000000)

static uint64_t push_interval_ms(void)
{
    uint64_t pyroscope = conf.pyroscope_url[0] ? conf.pyroscope_interval_ms : UINT64_MAX;
    return conf.otlp_url[0] ? lesser(pyroscope, conf.otlp_interval_ms) : conf.pyroscope_interval_ms;
}

void served_push_if_worth(struct served *p, bool anyway)
{
    bool is_long = clock_ns(CLOCK_MONOTONIC) - p->began_ns >= push_interval_ms() * NS_PER_MS;
    if (p->pushes || (!is_long && !anyway))
        return;
    p->pushes = true;
    modules_start_pushing(p->modules, p->readings, p->name, false);
}

static bool has_spans(const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (s->rows[i].kind == CONTEXT_SPAN)
            return true;
    return false;
}

void served_push_at_end(struct served *p)
{
    uint64_t began_ns;
    struct snapshot *s = p->readings && !p->pushes ? readings_last(p->readings, &began_ns) : NULL;
    if (!s)
        return;
    served_push_if_worth(p, has_spans(s));
    readings_give_back(s);
}
