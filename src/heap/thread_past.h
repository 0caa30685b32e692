/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that have ended, for readers from outside.
 *
 * A thread block outlives its thread, and the next thread takes it over. Then what the block has counted until then is
 * added to this list, which keeps the newest THREAD_PASTS. Readers take no lock: they copy `n`, then records, then `n`
 * again, and drop the records that were overwritten meanwhile.
 */
#ifndef JESPAN_THREAD_PAST_H
#define JESPAN_THREAD_PAST_H

#include "heap/thread.h"

struct thread_past {
    struct thread *block;
    struct thread_sums sums;
    uint32_t lives; /* threads in it; more than one: what each did is unknown */
    int thread_id;  /* these are of the last one */
    char name[16];
};

#define THREAD_PASTS_AT_ONCE 512u
#define THREAD_PASTS (32 * THREAD_PASTS_AT_ONCE)

struct thread_pasts {
    _Atomic uint64_t n; /* records ever added; record i is at i % THREAD_PASTS */
    _Atomic(struct thread_past *) chunks[THREAD_PASTS / THREAD_PASTS_AT_ONCE];
};

extern struct thread_pasts thread_pasts;

/* Called by a thread that takes over a block, before it counts anything. `now` is what the block has counted. */
void thread_past_add(struct thread *t, const struct thread_sums *now);

#endif
