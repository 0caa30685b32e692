/* SPDX-License-Identifier: BSD-2-Clause */
/* A reading: the sums of all threads' counters for all contexts, a chunk of contexts at a time, so that each counter is
 * fetched from memory once.
 *
 * Order: first all free buffers; then, chunk by chunk, what every thread freed and allocated (exits and enters), as
 * pairs (sums.h); at the end, whether a buffer was flushed since it was read. Frees of a buffer that was flushed are
 * left to the counters, so no free is counted twice. Where the counter had been read before the flush, the next reading
 * has the free.
 */
#ifndef JESPAN_READING_H
#define JESPAN_READING_H

#include <stddef.h>
#include <stdint.h>

#include "base/totals.h"
#include "heap/counters.h"
#include "heap/thread.h"

#define READING_CHUNK COUNTERS_PER_CHUNK /* contexts */

/* When the reading began, by clock_ticks(). Times that are passing count until they are read, so no time is less than
 * in an earlier reading. */
struct reading;
uint64_t reading_time(const struct reading *r);

/* Memory that a reading needs for the threads that exist now. The counters of later threads are read too, but not their
 * buffers. */
size_t reading_bytes(void);

/* Reads the buffers. The reading is of contexts below `end`. It lies in `memory`, aligned to 8, which remains the
 * caller's. */
struct reading *reading_begin(void *memory, size_t bytes, uint32_t end);

/* Writes the figures of contexts first … first + READING_CHUNK − 1. `first` is a multiple of that, below `end`. */
void reading_chunk(const struct reading *r, uint32_t first, struct totals sums[READING_CHUNK]);

/* The sum of what all threads say of a chunk by counters_moved(). */
uint64_t reading_moved(const struct reading *r, uint32_t chunk);

/* After the last chunk: calls `add` for each free that was buffered all the time. Returns the bytes in free buffers and
 * magazines. */
uint64_t reading_end(const struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);

/* ---- reading_add.c ---- */

/* Adds up one chunk of several threads: where they are, in this process, or copies of another's. Copies stand still and
 * no time passes in them, so none of the functions below is called for them. */

typedef void reading_pair_function(struct totals *pair, struct counters *c);
typedef uint64_t reading_clock_function(struct thread *t);

struct reading_source {
    reading_pair_function *read_pair; /* the thread freed something while the pair was read: reads it again */
    reading_clock_function *cpu_now;  /* the CPU time of a thread, in ticks */
    bool times;                       /* they are tracked */
};

/* The same chunk of several threads. */
#define READING_BATCH 8
struct reading_batch {
    const struct reading_source *of;
    uint32_t n;
    struct thread *threads[READING_BATCH];
    struct counters *chunks[READING_BATCH];
    const struct counters *next[READING_BATCH]; /* the next chunk of each of these threads, which is fetched meanwhile */
};

void reading_add(struct totals sums[READING_CHUNK], const struct reading_batch *b);

#endif
