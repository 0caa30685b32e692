/* SPDX-License-Identifier: BSD-2-Clause */
/* Forecasts when used memory reaches its bound, and says when to look again. Depends only on the arguments. */
#ifndef JESPAN_OOM_FORECAST_H
#define JESPAN_OOM_FORECAST_H

#include <stdint.h>

#define PACE_SLOW_NS 100000000u
#define PACE_FAST_NS 5000000u
#define PACE_FASTEST_NS 1000000u /* while the used memory grows by more than 100 MB/s */

/* SOON: half of the bound is used, and at the present rate it is reached within 200 ms. NOW: the threshold is
 * reached. */
enum pace_level { PACE_CALM, PACE_SOON, PACE_NOW };

/* Zeroed: no look yet. */
struct pace {
    uint64_t used, at_ns, rate; /* at the last look; rate in bytes/s */
    uint64_t calm_below;        /* with less used memory, `level` goes back to PACE_CALM */
    enum pace_level level;      /* on which the caller has acted */
};

/* Adds a look. Returns the level. If it is above p->level, the caller writes a dump and then calls pace_acted(). */
enum pace_level pace_look(struct pace *p, uint64_t used, uint64_t bound, uint64_t threshold, uint64_t now_ns);
void pace_acted(struct pace *p, enum pace_level level, uint64_t threshold);

/* The time until the next look. It is at most the time in which the fastest machine fills the rest, and a quarter of
 * the time to the threshold at the present rate. */
uint64_t pace_next_ns(const struct pace *p, uint64_t bound, uint64_t threshold);

#endif
