/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of all threads' counters.
 *
 * Order: first every thread's frees (and exits), then every thread's allocations (and enters). A thread publishes a
 * free with a release store, so an allocation whose free was read is read too: in use is never negative. A thread's
 * buffered frees are read after its counters and only when its pending_sequence stood still meanwhile, so none is
 * counted twice; one that moved from buffer to counter just then is missed until next time.
 *
 * For all contexts at once, in a second order that reads memory once: reading.h.
 */
#ifndef JESPAN_SUMS_H
#define JESPAN_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler.h"
#include "thread.h"
#include "totals.h"

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

/* Whether nothing moved from the thread's buffer to its counters since its pending_sequence was read with acquire. */
static inline bool sums_stood_still(struct thread *t, uint32_t sequence)
{
    atomic_thread_fence(memory_order_acquire);
    return !(sequence & 1) && load_relaxed(&t->pending_sequence) == sequence;
}

/* Makes frees 0 that a subtraction left negative: the base contained buffered ones, which neither buffer nor counter
 * showed just now. */
void totals_floor_frees(struct totals *sum);

/* Likewise times: clocks of two processors may differ by some ticks, or a CPU clock was put right meanwhile. */
void totals_floor_times(struct totals *sum);

#endif
