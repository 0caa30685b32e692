/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of one context, summed over all threads. All of them only grow; what is in use is a difference.
 *
 * Every member is a uint64_t, so that sums can be computed member by member. Times are in ticks of clock.h where
 * counters are summed, and in nanoseconds in a snapshot.
 */
#ifndef JESPAN_TOTALS_H
#define JESPAN_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct totals {
    /* Memory and enters: counters have them at any moment. */
    uint64_t alloc_objects;
    uint64_t alloc_bytes;           /* usable bytes */
    uint64_t alloc_requested_bytes; /* as the program asked for them */
    uint64_t free_objects;
    uint64_t free_bytes; /* usable bytes */
    uint64_t credited_in_objects, credited_in_bytes;   /* live objects that came from another context (jespan_credit) */
    uint64_t credited_out_objects, credited_out_bytes; /* live objects that went to another one */
    uint64_t enters, exits;
    uint64_t temporary_objects; /* of those freed: see malloc/temporary.h */
    uint64_t lifetimes; /* of all objects, so far: heap/lifetimes.h; in snapshots in µs */
    /* Snapshots add these. */
    uint64_t opens;      /* spans opened */
    uint64_t outlived_objects, outlived_bytes; /* live objects of closed spans; see tree.h */
    uint64_t busy;       /* time that the context was current, summed over all threads */
    uint64_t cpu;        /* CPU time in that time */
    uint64_t cpu_user, cpu_system; /* its parts up to the last enter or exit, where the clock knows them (cpu_clock) */
    /* These pass while nothing is counted. They are the last ones, so that they lie close to others of a row of a snapshot. */
    uint64_t wall;       /* time that spans were open; in rows of snapshots, without that of spans below */
    uint64_t idle;       /* wall without busy time, for each context alone: one that works does not hide another that rests */
};

static inline uint64_t totals_inuse_objects(const struct totals *t)
{
    return t->alloc_objects + t->credited_in_objects - t->free_objects - t->credited_out_objects;
}

static inline uint64_t totals_inuse_bytes(const struct totals *t)
{
    return t->alloc_bytes + t->credited_in_bytes - t->free_bytes - t->credited_out_bytes;
}

/* Time in which spans were open and no thread worked for them. */
static inline uint64_t totals_idle(const struct totals *t)
{
    return t->wall > t->busy ? t->wall - t->busy : 0;
}

/* Two members at a time, since compilers do not find that by themselves. */
typedef uint64_t totals_pair __attribute__((vector_size(16), aligned(8), may_alias));
#define TOTALS_PAIRS (sizeof(struct totals) / sizeof(totals_pair))
_Static_assert(sizeof(struct totals) % sizeof(totals_pair) == 0, "an even number of members");

static inline void totals_add(struct totals *sum, const struct totals *more)
{
    totals_pair *to = (totals_pair *)sum;
    const totals_pair *from = (const totals_pair *)more;
    for (unsigned i = 0; i < TOTALS_PAIRS; i++)
        to[i] += from[i];
}

static inline void totals_subtract(struct totals *sum, const struct totals *base)
{
    totals_pair *to = (totals_pair *)sum;
    const totals_pair *from = (const totals_pair *)base;
    for (unsigned i = 0; i < TOTALS_PAIRS; i++)
        to[i] -= from[i];
}

static inline void totals_difference(struct totals *difference, const struct totals *sum, const struct totals *base)
{
    totals_pair *to = (totals_pair *)difference;
    const totals_pair *from = (const totals_pair *)sum, *less = (const totals_pair *)base;
    for (unsigned i = 0; i < TOTALS_PAIRS; i++)
        to[i] = from[i] - less[i];
}

/* Whether any member is not 0. */
static inline bool totals_any(const struct totals *t)
{
    totals_pair any = {0};
    const totals_pair *of = (const totals_pair *)t;
    for (unsigned i = 0; i < TOTALS_PAIRS; i++)
        any |= of[i];
    return any[0] | any[1];
}

/* Returns the difference between `now` and `told`, and adds it to `told`. A member that went down counts as
 * unchanged. */
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

static inline uint64_t at_least_0(uint64_t n)
{
    return (int64_t)n < 0 ? 0 : n;
}

/* Raises allocations to frees where they are less. */
static inline void totals_floor_inuse(struct totals *sum)
{
    sum->alloc_objects += at_least_0(-totals_inuse_objects(sum));
    sum->alloc_bytes += at_least_0(-totals_inuse_bytes(sum));
}

/* Whether a subtraction left negative frees: the base contained buffered frees, which the buffer or the counter has now, or,
 * just now, neither of them. */
static inline bool totals_owe_frees(const struct totals *sum)
{
    return (int64_t)sum->free_objects < 0 || (int64_t)sum->free_bytes < 0;
}

/* Raises negative frees to 0. */
static inline void totals_floor_frees(struct totals *sum)
{
    sum->free_objects = at_least_0(sum->free_objects);
    sum->free_bytes = at_least_0(sum->free_bytes);
}

/* Raises times to 0: clocks of two processors may differ by some ticks, or a CPU clock was corrected meanwhile. */
static inline void totals_floor_times(struct totals *sum)
{
    sum->wall = at_least_0(sum->wall);
    sum->busy = at_least_0(sum->busy);
    sum->cpu = at_least_0(sum->cpu);
    sum->cpu_user = at_least_0(sum->cpu_user);
    sum->cpu_system = at_least_0(sum->cpu_system);
    sum->lifetimes = at_least_0(sum->lifetimes);
}

/* ---- A figure by its offset ---- */

/* Figures that are computed from others. These numbers are no offsets. */
enum { TOTALS_INUSE_OBJECTS = sizeof(struct totals), TOTALS_INUSE_BYTES };

static inline uint64_t totals_figure(const struct totals *t, size_t offset)
{
    switch (offset) {
    case TOTALS_INUSE_OBJECTS:
        return totals_inuse_objects(t);
    case TOTALS_INUSE_BYTES:
        return totals_inuse_bytes(t);
    default:
        return *(const uint64_t *)((const char *)t + offset);
    }
}

/* ---- What made a context ---- */

enum context_kind {
    CONTEXT_ROOT,   /* "(root)", id 1 */
    CONTEXT_SELF,   /* "(jespan)": jespan's own threads, reporters and exporters, id 2 */
    CONTEXT_THREAD, /* "thread:NAME": allocations of a thread outside any span */
    CONTEXT_SPAN,
    CONTEXT_UNSAMPLED, /* "(unsampled)": spans that a sampler declined, id 3 */
    CONTEXT_PERIOD, /* a child of any other context, for memory allocated in one period: age.h */
    CONTEXT_STACK,  /* a child of any other context, for memory allocated from one stack of calls: stack_context.h */
};

static inline const char *kind_text(enum context_kind kind)
{
    static const char *const texts[] = {"root", "jespan", "thread", "span", "unsampled", "period", "stack"};
    return texts[kind];
}

#endif
