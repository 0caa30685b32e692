/* SPDX-License-Identifier: BSD-2-Clause */
/* Forecasts when used memory reaches its bound. */
#include "report/oom_forecast.h"

#define NS_PER_S 1000000000u
#define SOON_PER_S 5u                       /* 200 ms */
#define FASTEST_FILL ((uint64_t)3 << 30)    /* bytes/s: twice the rate of one processor */
#define FAST_GROWTH ((uint64_t)100 << 20)

static uint64_t growth(const struct pace *p, uint64_t used, uint64_t now_ns)
{
    if (!p->at_ns || used <= p->used || now_ns <= p->at_ns)
        return 0;
    return (uint64_t)((double)(used - p->used) * NS_PER_S / (double)(now_ns - p->at_ns));
}

enum pace_level pace_look(struct pace *p, uint64_t used, uint64_t bound, uint64_t threshold, uint64_t now_ns)
{
    p->rate = growth(p, used, now_ns);
    p->used = used;
    p->at_ns = now_ns;
    if (used < p->calm_below) {
        p->level = PACE_CALM;
        p->calm_below = 0;
    }
    if (used >= threshold)
        return PACE_NOW;
    return used >= bound / 2 && p->rate / SOON_PER_S >= bound - used ? PACE_SOON : PACE_CALM;
}

void pace_acted(struct pace *p, enum pace_level level, uint64_t threshold)
{
    p->level = level;
    p->calm_below = (p->used < threshold ? p->used : threshold) / 8 * 7;
}

uint64_t pace_next_ns(const struct pace *p, uint64_t bound, uint64_t threshold)
{
    if (p->used >= threshold)
        return PACE_SLOW_NS; /* the caller has acted on this level */
    uint64_t ns = (uint64_t)((double)(bound - p->used) * NS_PER_S / (double)FASTEST_FILL);
    if (p->rate) {
        uint64_t there = (uint64_t)((double)(threshold - p->used) * NS_PER_S / (double)p->rate / 4);
        ns = there < ns ? there : ns;
    }
    uint64_t least = p->rate > FAST_GROWTH ? PACE_FASTEST_NS : PACE_FAST_NS;
    return ns < least ? least : ns < PACE_SLOW_NS ? ns : PACE_SLOW_NS;
}
