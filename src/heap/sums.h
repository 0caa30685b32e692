/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of all threads' counters.
 *
 * There are three orders of reading, because they guarantee different things:
 *
 * - The functions sums_of…() read a thread's allocations and frees of a context as a *pair*, and read it again if the
 *   thread freed something meanwhile. So an object that a thread allocates and frees all the time never counts as in
 *   use. A thread publishes a free with a release store, so its pair is never negative. When one thread frees what
 *   another allocated, a sum may see the free and miss the allocation; a sum that is negative then is raised to 0. A
 *   sum that took long, because its thread had to wait for a processor, is made again. A thread's free buffer is read
 *   with its counters, and both are read again when the thread flushed it meanwhile.
 * - reading.h reads pairs too, but of all contexts at once, in an order that fetches each counter from memory once.
 * - sums_read(), for recycling, reads every thread's frees (and exits) first, then every thread's allocations (and
 *   enters). So a context that seems not to be in use is not in use.
 */
#ifndef JESPAN_SUMS_H
#define JESPAN_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/totals.h"
#include "heap/thread.h"

/* Writes the figures of contexts first … end − 1 to sums[0 … end − first − 1]. Times are right where no thread is
 * inside. */
void sums_read(struct totals *sums, uint32_t first, uint32_t end);

/* What tells whether a context is in use, in the order of sums_read(). All of it is 0 where it is not, but `opens`. */
struct inuse {
    uint64_t objects, bytes, inside; /* enters without an exit */
    uint64_t opens;                  /* of JESPAN() blocks, so far */
};
void sums_read_inuse(struct inuse *to, uint32_t first, uint32_t end);

/* The same as sums_read() of one thread block. */
void sums_read_block(struct totals *sums, struct thread *t, uint32_t first, uint32_t end);

/* The figures of one context, without times. */
struct totals sums_of(uint32_t context);

/* The figures of contexts 0 … n−1 together, without times. */
struct totals sums_of_all(uint32_t n);

/* The figures that a thread block has counted for contexts 0 … n−1, without its free buffer. Only the thread that has the block
 * may call it. Times are right where no time passes. */
struct thread_sums sums_of_thread(const struct thread *t, uint32_t n);

/* Bytes in free buffers and magazines. */
uint64_t sums_pending_bytes(void);

/* A free that its thread has not counted yet. */
struct freed {
    uint32_t context, bytes;
    uint16_t arena; /* 0: none */
};

/* Copies the frees in a thread's free buffer. Returns their number; 0 if the thread was flushing the buffer at each
 * try. */
int sums_read_buffer(struct thread *t, struct freed freed[FREE_BUFFER_MAX]);

/* Whether nothing moved from the thread's buffer to its counters since its free_buffer_sequence was read with
 * acquire. */
static inline bool sums_stood_still(struct thread *t, uint32_t sequence)
{
    atomic_thread_fence(memory_order_acquire);
    return !(sequence & 1) && load_relaxed(&t->free_buffer_sequence) == sequence;
}

/* Adds a thread's figures for a context, all of the same moment. Leaves out times. */
void sums_add_pair(struct totals *sum, struct counters *c);

/* A sum over all threads should take no longer; in ticks. */
uint64_t sums_patience(void);
#define SUMS_TRIES 4

#endif
