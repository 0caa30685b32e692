/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of one context, summed over all threads. All are cumulative: in use is a difference.
 *
 * Every member is a uint64_t, so that sums are made member by member. Times are in ticks of clock.h where counters are
 * summed, and in nanoseconds in a snapshot.
 */
#ifndef JESPAN_TOTALS_H
#define JESPAN_TOTALS_H

#include <stdint.h>

struct totals {
    /* Of memory and of enters: what counters say at any moment. */
    uint64_t alloc_objects;
    uint64_t alloc_bytes;           /* usable bytes */
    uint64_t alloc_requested_bytes; /* as asked for by the program */
    uint64_t free_objects;
    uint64_t free_bytes; /* usable bytes */
    uint64_t moved_in_objects, moved_in_bytes;   /* live objects that came from another context (jespan_retag) */
    uint64_t moved_out_objects, moved_out_bytes; /* and that went to another one */
    uint64_t enters, exits;
    /* What snapshots add. */
    uint64_t opens;      /* spans opened */
    uint64_t wall;       /* time that spans were open; of a row in a snapshot, less that of spans below */
    uint64_t busy;       /* time that the context was current, over all threads */
    uint64_t cpu;        /* CPU time meanwhile */
    uint64_t cpu_system; /* the part of it in the kernel, where the clock tells (cpu_clock) */
    uint64_t idle;       /* wall that was not busy, context by context, so that one's work does not hide another's rest */
    uint64_t outlived_objects, outlived_bytes; /* in snapshots: live, of spans that are closed; see tree.h */
};

static inline uint64_t totals_inuse_objects(const struct totals *t)
{
    return t->alloc_objects + t->moved_in_objects - t->free_objects - t->moved_out_objects;
}

static inline uint64_t totals_inuse_bytes(const struct totals *t)
{
    return t->alloc_bytes + t->moved_in_bytes - t->free_bytes - t->moved_out_bytes;
}

/* Open, and nobody at work. */
static inline uint64_t totals_idle(const struct totals *t)
{
    return t->wall > t->busy ? t->wall - t->busy : 0;
}

static inline void totals_add(struct totals *sum, const struct totals *more)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)more;
    for (unsigned i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static inline void totals_subtract(struct totals *sum, const struct totals *base)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)base;
    for (unsigned i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] -= from[i];
}

/* What `now` has beyond `told`, which then has it too. What went down counts as unchanged. */
static inline struct totals totals_grow(struct totals *told, const struct totals *now)
{
    struct totals difference = {0};
    uint64_t *was = (uint64_t *)told, *more = (uint64_t *)&difference;
    const uint64_t *is = (const uint64_t *)now;
    for (unsigned i = 0; i < sizeof *now / sizeof *is; i++)
        if ((int64_t)(is[i] - was[i]) > 0) {
            more[i] = is[i] - was[i];
            was[i] = is[i];
        }
    return difference;
}

#endif
