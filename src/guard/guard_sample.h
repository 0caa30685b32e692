/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocations are guarded: about one in guard_sample.
 *
 * malloc's fast path does not count for this. A thread counts when it does something rare: when it empties its full free
 * buffer, and when it fills a new page. Once it has allocated enough, a sample is *due*: its thread_fast.alloc is NULL, so
 * its allocations take the slow side. There a random one of the next few is guarded, and the thread goes back to the fast path.
 * With a small guard_sample, a sample is always due.
 *
 * A thread that only frees what others allocate hands its sample over: all threads take the slow side once, and the first
 * that allocates gets it. */
#ifndef JESPAN_GUARD_SAMPLE_H
#define JESPAN_GUARD_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/thread.h"
#include "stacks/unwind.h"

struct guard_thread {
    uint64_t random;
    int64_t countdown;               /* allocations until a sample is due */
    uint32_t wait, wait_seen;        /* while it is due: allocations until the sample; the same at the last tick */
    const struct counters *counters; /* the context of the last tick, and its allocations then */
    uint64_t allocations;
    bool walks; /* `walk` is in use */
    struct unwind walk;
};

/* A thread begins to use the block, which span_review() follows. Does nothing where nothing is guarded. */
void guard_sample_start(struct thread *t);

/* The thread did something rare. */
void guard_sample_tick(struct thread *t);

/* Whether the thread gets a sample that another thread has handed over. Then it is due. */
bool guard_sample_takes_over(struct thread *t);

/* The thread is about to allocate, on the slow side. Returns whether that object should be guarded. */
static inline bool guard_sample_wants(struct thread *t)
{
    struct guard_thread *g = t->guard;
    if (!g || (!t->guard_due && !guard_sample_takes_over(t)))
        return false;
    g->wait -= g->wait != 0;
    return !g->wait;
}

/* Whether it should lie at the beginning of its slot: one in four. */
bool guard_sample_is_left(struct thread *t);

/* The object was guarded, or could not be. span_review() follows. */
void guard_sample_done(struct thread *t);

/* In a forked child: its threads sample other objects than the parent's. */
void guard_sample_after_fork(struct thread *t);

#endif
