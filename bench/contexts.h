/* SPDX-License-Identifier: BSD-2-Clause */
/* Many contexts, and threads that have allocated in all of them, for snapshots. */
#ifndef BENCH_CONTEXTS_H
#define BENCH_CONTEXTS_H

#include "workload.h"

#include <jespan/jespan.h>
#include <pthread.h>

struct contexts {
    uint32_t count;
    bool closed; /* a span is open only while a thread is in it */
    uint64_t random;
    jespan_span_t **spans;
    void **objects; /* one in each context */
};

/* A malloc(64) and free in one of them. */
void contexts_visit(struct contexts *c, uint32_t which);

/* Opens a span with a label in one of them, enters, exits, closes. */
void contexts_open(struct contexts *c, uint32_t which);

/* Live threads that have allocated in every context. */
#define CROWD_MAX_THREADS 64
struct crowd {
    struct contexts *contexts;
    uint32_t threads;
    size_t n_ballast;
    void **ballast; /* other live memory */
    pthread_barrier_t arrived, leave;
    pthread_t ids[CROWD_MAX_THREADS];
};
void crowd_gather(struct crowd *crowd, const struct contexts_shape *shape);
void crowd_leave(struct crowd *crowd);

/* Takes a snapshot. */
void snapshot(void);

#endif
