/* SPDX-License-Identifier: BSD-2-Clause */
/* How the cost grows with the number of contexts: of a pair, of changing between them, and of a snapshot of all. */
#define _GNU_SOURCE
#include "spans.h"
#include "workload.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define SNAPSHOTS 20
#define MAX_THREADS 16

struct contexts {
    uint32_t count;
    uint64_t random;
    jespan_span_t **spans;
    void **objects; /* one in each context, so that none is empty */
};

static uint64_t stat(const char *name)
{
    uint64_t value;
    size_t bytes = sizeof value;
    if (span_api.mallctl(name, &value, &bytes, NULL, 0)) {
        bench_fail(name);
    }
    return value;
}

static void *allocate_in(jespan_span_t *span)
{
    span_api.enter(span);
    void *object = bench_touch(malloc(64));
    span_api.exit(span);
    return object;
}

/* Ends the program where max_contexts is too small: spans would then share contexts. */
static void open_all(struct contexts *c)
{
    JESPAN_SITE(site, "bench contexts");
    for (uint32_t i = 0; i < c->count; i++) {
        c->spans[i] = spans_open_numbered(&site, i);
        c->objects[i] = allocate_in(c->spans[i]);
    }
    if (stat("spans.stats.contexts") < c->count || stat("spans.stats.overflow")) {
        bench_fail("fewer contexts than asked for: raise max_contexts in JESPAN_CONF");
    }
}

void *contexts_start(const void *shape)
{
    struct contexts *c = bench_array(sizeof *c);
    c->count = ((const struct contexts_shape *)shape)->contexts;
    c->random = BENCH_SEED;
    c->spans = bench_array(c->count * sizeof *c->spans);
    c->objects = bench_array(c->count * sizeof *c->objects);
    open_all(c);
    return c;
}

void contexts_stop(void *state)
{
    struct contexts *c = state;
    for (uint32_t i = 0; i < c->count; i++) {
        free(c->objects[i]);
        span_api.close(c->spans[i]);
    }
    bench_array_free(c->objects, c->count * sizeof *c->objects);
    bench_array_free(c->spans, c->count * sizeof *c->spans);
    bench_array_free(c, sizeof *c);
}

void contexts_pair_round(void *state, size_t operations)
{
    struct contexts *c = state;
    span_api.enter(c->spans[c->count / 2]);
    for (size_t i = 0; i < operations; i++) {
        free(bench_touch(malloc(64)));
    }
    span_api.exit(c->spans[c->count / 2]);
}

void contexts_roam_round(void *state, size_t operations)
{
    struct contexts *c = state;
    for (size_t i = 0; i < operations; i++) {
        free(allocate_in(c->spans[bench_below(bench_random(&c->random), c->count)]));
    }
}

/* Threads that have allocated in every context, and are still there while the snapshots are taken. */
struct crowd {
    struct contexts *contexts;
    uint32_t threads;
    pthread_barrier_t arrived, leave;
    pthread_t ids[MAX_THREADS];
};

static void *visit_all(void *argument)
{
    struct crowd *crowd = argument;
    for (uint32_t i = 0; i < crowd->contexts->count; i++) {
        free(allocate_in(crowd->contexts->spans[i]));
    }
    pthread_barrier_wait(&crowd->arrived);
    pthread_barrier_wait(&crowd->leave);
    return NULL;
}

static void crowd_gather(struct crowd *crowd, const struct contexts_shape *shape)
{
    crowd->contexts = contexts_start(shape);
    crowd->threads = shape->threads;
    pthread_barrier_init(&crowd->arrived, NULL, crowd->threads + 1);
    pthread_barrier_init(&crowd->leave, NULL, crowd->threads + 1);
    for (uint32_t i = 0; i < crowd->threads; i++) {
        if (pthread_create(&crowd->ids[i], NULL, visit_all, crowd)) {
            bench_fail("cannot start a thread");
        }
    }
    pthread_barrier_wait(&crowd->arrived);
}

static void crowd_leave(struct crowd *crowd)
{
    pthread_barrier_wait(&crowd->leave);
    for (uint32_t i = 0; i < crowd->threads; i++) {
        pthread_join(crowd->ids[i], NULL);
    }
    contexts_stop(crowd->contexts);
}

static void snapshot(void)
{
    uint64_t any = 1;
    if (span_api.mallctl("spans.epoch", NULL, NULL, &any, sizeof any)) {
        bench_fail("spans.epoch failed");
    }
}

static double elapsed_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The best: the first has its memory to fetch as well. */
double snapshot_ms(const void *shape)
{
    struct crowd crowd;
    crowd_gather(&crowd, shape);
    double best = 1e9;
    for (int i = 0; i < SNAPSHOTS; i++) {
        double start = elapsed_ms();
        snapshot();
        double ms = elapsed_ms() - start;
        best = ms < best ? ms : best;
    }
    crowd_leave(&crowd);
    return best;
}

double snapshot_bytes_per_context(const void *shape)
{
    struct crowd crowd;
    crowd_gather(&crowd, shape);
    size_t before = bench_resident_bytes();
    snapshot();
    snapshot();
    double bytes = (double)(bench_resident_bytes() - before);
    crowd_leave(&crowd);
    return bytes / (double)((const struct contexts_shape *)shape)->contexts;
}
