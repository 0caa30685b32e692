/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up one chunk of several threads: where they are, in this process, or copies of another's. Copies stand still and
 * no time passes in them, so none of the functions below is called for them. */
#ifndef JESPAN_READING_ADD_H
#define JESPAN_READING_ADD_H

#include "heap/counters.h"
#include "snapshot/reading.h"

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
