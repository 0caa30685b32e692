/* SPDX-License-Identifier: BSD-2-Clause */
/* Many contexts, and threads that have been in all of them: what snapshots are taken of. */
#ifndef BENCH_CONTEXTS_H
#define BENCH_CONTEXTS_H

#include "workload.h"

#include <jespan/jespan.h>
#include <pthread.h>

struct contexts {
    uint32_t count;
    uint64_t random;
    jespan_span_t **spans;
    void **objects; /* one in each context, so that none is empty */
};

/* A malloc(64) and free in one of them. */
void contexts_visit(struct contexts *c, uint32_t which);

/* Threads that have allocated in every context, and are still there. */
#define CROWD_MAX_THREADS 64
struct crowd {
    struct contexts *contexts;
    uint32_t threads;
    size_t n_ballast;
    void **ballast; /* the live memory besides */
    pthread_barrier_t arrived, leave;
    pthread_t ids[CROWD_MAX_THREADS];
};
void crowd_gather(struct crowd *crowd, const struct contexts_shape *shape);
void crowd_leave(struct crowd *crowd);

/* Takes one. */
void snapshot(void);

#endif
