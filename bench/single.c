/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads on one thread: pair, random replacement, batches, aligned, calloc, realloc. */
#include "workload.h"

#include <stdbool.h>
#include <stdlib.h>

struct churn {
    const struct churn_shape *shape;
    uint64_t random;
    void **objects;
};

static struct churn *state_new(const struct churn_shape *shape)
{
    struct churn *s = bench_array(sizeof *s);
    s->shape = shape;
    s->random = BENCH_SEED;
    s->objects = bench_array(shape->live * sizeof *s->objects);
    return s;
}

void churn_stop(void *state)
{
    struct churn *s = state;
    for (uint32_t i = 0; i < s->shape->live; i++) {
        free(s->objects[i]);
    }
    bench_array_free(s->objects, s->shape->live * sizeof *s->objects);
    bench_array_free(s, sizeof *s);
}

void *pair_start(const void *shape)
{
    return state_new(shape);
}

void pair_round(void *state, size_t operations)
{
    size_t bytes = ((struct churn *)state)->shape->min_bytes;
    for (size_t i = 0; i < operations; i++) {
        free(bench_touch(malloc(bytes)));
    }
}

/* Sizes and places come from different steps of the generator, so that they are independent. */
static uint32_t random_bytes(struct churn *s)
{
    return s->shape->min_bytes + bench_below(bench_random(&s->random), s->shape->max_bytes - s->shape->min_bytes + 1);
}

static inline __attribute__((always_inline)) void *allocate(uint32_t bytes, bool zeroed)
{
    return bench_touch(zeroed ? calloc(1, bytes) : malloc(bytes));
}

static inline __attribute__((always_inline)) void replace(struct churn *s, size_t operations, bool zeroed)
{
    for (size_t i = 0; i < operations; i++) {
        void **object = &s->objects[bench_below(bench_random(&s->random), s->shape->live)];
        free(*object);
        *object = allocate(random_bytes(s), zeroed);
    }
}

static void *filled(const struct churn_shape *shape, bool zeroed)
{
    struct churn *s = state_new(shape);
    for (uint32_t i = 0; i < shape->live; i++) {
        s->objects[i] = allocate(random_bytes(s), zeroed);
    }
    return s;
}

void *churn_start(const void *shape)
{
    return filled(shape, false);
}

void churn_round(void *state, size_t operations)
{
    replace(state, operations, false);
}

void *calloc_start(const void *shape)
{
    return filled(shape, true);
}

void calloc_round(void *state, size_t operations)
{
    replace(state, operations, true);
}

/* All objects, then all of them are freed, in the same order. The last batch may be smaller. */
void batch_round(void *state, size_t operations)
{
    struct churn *s = state;
    while (operations) {
        uint32_t n = operations < s->shape->live ? (uint32_t)operations : s->shape->live;
        for (uint32_t i = 0; i < n; i++) {
            s->objects[i] = bench_touch(malloc(random_bytes(s)));
        }
        for (uint32_t i = 0; i < n; i++) {
            free(s->objects[i]);
            s->objects[i] = NULL;
        }
        operations -= n;
    }
}

/* Alignments of 64 to 4096 bytes in turns: from a cache line to a page. */
void aligned_round(void *state, size_t operations)
{
    struct churn *s = state;
    for (size_t i = 0; i < operations; i++) {
        uint64_t random = bench_random(&s->random);
        void **object = &s->objects[bench_below(random, s->shape->live)];
        free(*object);
        *object = bench_touch(aligned_alloc((size_t)64 << (random & 7) % 7, random_bytes(s)));
    }
}

/* One object that grows by a half each time, then starts again, like a string builder or a vector. */
void realloc_round(void *state, size_t operations)
{
    struct churn *s = state;
    size_t bytes = s->shape->min_bytes;
    for (size_t i = 0; i < operations; i++) {
        s->objects[0] = bench_touch(realloc(s->objects[0], bytes));
        bytes += bytes / 2;
        if (bytes > s->shape->max_bytes) {
            free(s->objects[0]);
            s->objects[0] = NULL;
            bytes = s->shape->min_bytes;
        }
    }
}
