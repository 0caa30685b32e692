/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the cost of a snapshot by the number of contexts, threads and live objects. */
#define _GNU_SOURCE
#include "contexts.h"
#include "spans.h"
#include "workload.h"

#include <stdlib.h>

#define SNAPSHOTS 20
#define BALLAST_BYTES 512
#define MIB ((size_t)1 << 20)

static void *visit_all(void *argument)
{
    struct crowd *crowd = argument;
    for (uint32_t i = 0; i < crowd->contexts->count; i++) {
        contexts_visit(crowd->contexts, i);
    }
    pthread_barrier_wait(&crowd->arrived);
    pthread_barrier_wait(&crowd->leave);
    return NULL;
}

static void take_ballast(struct crowd *crowd, size_t mib)
{
    crowd->n_ballast = mib * MIB / BALLAST_BYTES;
    crowd->ballast = bench_array(crowd->n_ballast * sizeof *crowd->ballast + 1);
    for (size_t i = 0; i < crowd->n_ballast; i++) {
        crowd->ballast[i] = bench_touch(malloc(BALLAST_BYTES));
    }
}

static void drop_ballast(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->n_ballast; i++) {
        free(crowd->ballast[i]);
    }
    bench_array_free(crowd->ballast, crowd->n_ballast * sizeof *crowd->ballast + 1);
}

void crowd_gather(struct crowd *crowd, const struct contexts_shape *shape)
{
    crowd->contexts = contexts_start(shape);
    crowd->threads = shape->threads;
    take_ballast(crowd, shape->heap_mib);
    pthread_barrier_init(&crowd->arrived, NULL, crowd->threads + 1);
    pthread_barrier_init(&crowd->leave, NULL, crowd->threads + 1);
    for (uint32_t i = 0; i < crowd->threads; i++) {
        if (pthread_create(&crowd->ids[i], NULL, visit_all, crowd)) {
            bench_fail("cannot start a thread");
        }
    }
    pthread_barrier_wait(&crowd->arrived);
}

void crowd_leave(struct crowd *crowd)
{
    pthread_barrier_wait(&crowd->leave);
    for (uint32_t i = 0; i < crowd->threads; i++) {
        pthread_join(crowd->ids[i], NULL);
    }
    pthread_barrier_destroy(&crowd->arrived);
    pthread_barrier_destroy(&crowd->leave);
    drop_ballast(crowd);
    contexts_stop(crowd->contexts);
}

void snapshot(void)
{
    uint64_t any = 1;
    if (span_api.mallctl("spans.epoch", NULL, NULL, &any, sizeof any)) {
        bench_fail("spans.epoch failed");
    }
}

static void move_some(struct crowd *crowd, uint32_t n, uint32_t apart)
{
    for (uint32_t i = 0; i < n; i++) {
        contexts_visit(crowd->contexts, i * apart % crowd->contexts->count);
    }
}

/* Takes the best one. The first snapshot also allocates its memory. Before each, the calling thread allocates and frees in some of
 * the contexts. */
struct bench_result snapshot_ms(const void *shape)
{
    struct crowd crowd;
    const struct contexts_shape *s = shape;
    crowd_gather(&crowd, shape);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < SNAPSHOTS; i++) {
        move_some(&crowd, s->moved, s->apart);
        uint64_t start = bench_now_ns(CLOCK_MONOTONIC);
        snapshot();
        uint64_t ns = bench_now_ns(CLOCK_MONOTONIC) - start;
        best = ns < best ? ns : best;
    }
    crowd_leave(&crowd);
    return bench_value((double)best / 1e6);
}

struct bench_result snapshot_bytes_per_context(const void *shape)
{
    struct crowd crowd;
    crowd_gather(&crowd, shape);
    size_t before = bench_resident_bytes();
    snapshot();
    snapshot();
    double bytes = (double)(bench_resident_bytes() - before);
    crowd_leave(&crowd);
    return bench_value(bytes / (double)((const struct contexts_shape *)shape)->contexts);
}
