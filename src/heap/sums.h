/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of all threads' counters.
 *
 * What a thread allocated and freed is read as a pair, again where it freed something meanwhile: so what it allocates and
 * frees all the time never counts as in use. A thread publishes a free with a release store, so its pair is never below
 * nothing. Of objects that others free, a sum may miss the allocation and see the free: where that leads below nothing, it
 * is raised to that. A sum that took long, since its thread had to wait for a processor, is made again. A thread's buffered
 * frees are read with its counters, again where its free_buffer_sequence moved meanwhile.
 *
 * sums_read(), for recycling, has another order: first every thread's frees (and exits), then every thread's allocations
 * (and enters). So what seems not to be in use is not.
 *
 * For all contexts at once, in an order that reads memory once: reading.h.
 */
#ifndef JESPAN_SUMS_H
#define JESPAN_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/totals.h"
#include "heap/thread.h"

/* Adds the figures of contexts 0 … n−1 to sums[0 … n−1]; times are right where no thread is inside. Returns the bytes
 * that are freed, but still with their threads. */
uint64_t sums_read(struct totals *sums, uint32_t n);

/* The figures of one context, without times. */
struct totals sums_of(uint32_t context);

/* Those of all contexts together; n as in sums_read(). */
struct totals sums_of_all(uint32_t n);

/* What the counters of one block have, but for what is buffered. */
struct thread_bytes sums_of_thread(struct thread *t, uint32_t n);

/* Bytes of buffered frees and of magazines. */
uint64_t sums_pending_bytes(void);

/* A free that its thread has not counted yet. */
struct freed {
    uint32_t context, bytes;
    uint16_t arena; /* 0: none */
};

/* What a thread has buffered. Returns how many; 0 when its owner keeps processing them. */
int sums_read_buffer(struct thread *t, struct freed freed[PENDING_MAX]);

/* Whether nothing moved from the thread's buffer to its counters since its free_buffer_sequence was read with acquire. */
static inline bool sums_stood_still(struct thread *t, uint32_t sequence)
{
    atomic_thread_fence(memory_order_acquire);
    return !(sequence & 1) && load_relaxed(&t->free_buffer_sequence) == sequence;
}

/* Makes frees 0 that a subtraction left negative: the base contained buffered ones, which neither buffer nor counter
 * showed just now. */
void totals_floor_frees(struct totals *sum);

/* Makes allocations as much as frees where they are less. */
static inline void totals_floor_inuse(struct totals *sum)
{
    int64_t objects = (int64_t)totals_inuse_objects(sum), bytes = (int64_t)totals_inuse_bytes(sum);
    if (unlikely(objects < 0))
        sum->alloc_objects -= (uint64_t)objects;
    if (unlikely(bytes < 0))
        sum->alloc_bytes -= (uint64_t)bytes;
}

/* Adds what a thread counts for a context, as it was at one moment. Not times. */
void sums_add_pair(struct totals *sum, struct counters *c);

/* A sum over all threads should take no longer; in ticks. */
uint64_t sums_patience(void);
#define SUMS_TRIES 4

/* Likewise times: clocks of two processors may differ by some ticks, or a CPU clock was put right meanwhile. */
void totals_floor_times(struct totals *sum);

#endif
