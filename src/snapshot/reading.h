/* SPDX-License-Identifier: BSD-2-Clause */
/* A reading: the sums of all threads' counters, a block of contexts at a time, so that each counter is fetched from
 * memory once.
 *
 * Order: all buffered frees; then of each block what every thread freed and allocated (exits and enters), as pairs: see
 * sums.h; at the end, whether a buffer was processed since it was read. What was processed meanwhile is not taken from the
 * buffer, so no free is counted twice; where its counter had been read before that, it is missed until next time.
 */
#ifndef JESPAN_READING_H
#define JESPAN_READING_H

#include <stddef.h>
#include <stdint.h>

#include "base/totals.h"
#include "heap/thread.h"

/* What one chunk of each thread counts. */
#define READING_BLOCK COUNTERS_PER_CHUNK

/* When it began, by clock_ticks(). Times include those that are passing, up to when they are read: whatever began
 * meanwhile, none is less than in a reading before. */
struct reading;
uint64_t reading_time(const struct reading *r);

/* Memory that a reading needs for the threads there are now. Later ones are read too, but for their buffers. */
size_t reading_bytes(void);

/* Reads the buffers. The reading, of contexts below `end`, lies in `memory`, aligned to 8, which remains the
 * caller's. */
struct reading *reading_begin(void *memory, size_t bytes, uint32_t end);

/* Writes the figures of contexts first … first + READING_BLOCK − 1; `first` is a multiple of that, below `end`. */
void reading_block(const struct reading *r, uint32_t first, struct totals sums[READING_BLOCK]);

/* After the last block: calls `add` for each free that was buffered all the time. Returns the bytes that are freed, but
 * still with their threads. */
uint64_t reading_end(const struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);

#endif
