/* SPDX-License-Identifier: BSD-2-Clause */
/* How near something is to its bound, and when to look again. A pure function of what was seen. */
#ifndef JESPAN_DUMP_PACE_H
#define JESPAN_DUMP_PACE_H

#include <stdint.h>

#define PACE_SLOW_NS 100000000u
#define PACE_FAST_NS 5000000u
#define PACE_FASTEST_NS 1000000u /* while it grows by more than 100 MB/s */

/* SOON: at this rate the bound is reached within 200 ms, and half of it is. NOW: the threshold is reached. */
enum pace_level { PACE_CALM, PACE_SOON, PACE_NOW };

/* Zero: nothing seen yet. */
struct pace {
    uint64_t used, at_ns, rate; /* of the last look; bytes/s */
    uint64_t calm_below;        /* used, from which on `level` is forgotten */
    enum pace_level level;      /* what was acted on */
};

/* Takes in a look. Returns the level; one above p->level asks for a dump, after which the caller calls pace_acted(). */
enum pace_level pace_look(struct pace *p, uint64_t used, uint64_t bound, uint64_t threshold, uint64_t now_ns);
void pace_acted(struct pace *p, enum pace_level level, uint64_t threshold);

/* How long until the next look: not longer than it takes to fill the rest as fast as machines can, and much less where it
 * grows. */
uint64_t pace_next_ns(const struct pace *p, uint64_t bound, uint64_t threshold);

#endif
