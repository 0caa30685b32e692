/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads with a growing number of contexts: malloc with free, changing the context, and refused requests. */
#include "contexts.h"

#include "spans.h"
#include "workload.h"

#include <stdlib.h>

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

static jespan_span_t *open_one(uint32_t number)
{
    JESPAN_SITE(site, "bench contexts");
    return spans_open_numbered(&site, number);
}

static void *allocate_in_one(struct contexts *c, uint32_t number)
{
    if (c->spans[number]) {
        return allocate_in(c->spans[number]);
    }
    jespan_span_t *span = open_one(number);
    void *object = allocate_in(span);
    if (c->closed) {
        span_api.close(span);
    } else {
        c->spans[number] = span;
    }
    return object;
}

/* Ends the program if max_contexts is too small, because spans would share contexts then. */
static void open_all(struct contexts *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        c->objects[i] = allocate_in_one(c, i);
    }
    if (stat("spans.stats.contexts") < c->count || stat("spans.stats.overflow")) {
        bench_fail("fewer contexts than asked for: raise max_contexts in JESPAN_CONF");
    }
}

void *contexts_start(const void *shape)
{
    struct contexts *c = bench_array(sizeof *c);
    c->count = ((const struct contexts_shape *)shape)->contexts;
    c->closed = ((const struct contexts_shape *)shape)->closed;
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
        if (c->spans[i]) {
            span_api.close(c->spans[i]);
        }
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

void contexts_visit(struct contexts *c, uint32_t which)
{
    free(allocate_in_one(c, which));
}

void contexts_open(struct contexts *c, uint32_t which)
{
    (void)c;
    jespan_span_t *span = open_one(which);
    span_api.enter(span);
    span_api.exit(span);
    span_api.close(span);
}

void contexts_roam_round(void *state, size_t operations)
{
    struct contexts *c = state;
    for (size_t i = 0; i < operations; i++) {
        contexts_visit(c, bench_below(bench_random(&c->random), c->count));
    }
}

/* A tenant with a limit, all contexts below it, and an object that leaves too little of the limit for another one like
 * it. A request would fit into the empty limit, so jespan has to search unused charges before it refuses. */
#define REFUSED_BYTES ((size_t)512 * 1024)
struct refused {
    jespan_span_t *tenant;
    struct contexts *below;
    void *object;
};

void *refused_start(const void *shape)
{
    JESPAN_SITE(site, "bench tenant");
    struct refused *r = bench_array(sizeof *r);
    uint64_t count = ((const struct contexts_shape *)shape)->contexts;
    r->tenant = spans_open_numbered(&site, 0);
    span_api.enter(r->tenant);
    r->below = contexts_start(shape);
    r->object = bench_touch(malloc(REFUSED_BYTES));
    if (span_api.set_limit(span_api.current(), 0, count * 64 + REFUSED_BYTES * 3 / 2)) {
        bench_fail("jespan_set_limit failed");
    }
    return r;
}

void refused_round(void *state, size_t operations)
{
    (void)state;
    for (size_t i = 0; i < operations; i++) {
        void *volatile object = malloc(REFUSED_BYTES);
        if (object) {
            bench_fail("malloc beyond a limit was not refused");
        }
    }
}

void refused_stop(void *state)
{
    struct refused *r = state;
    free(r->object);
    contexts_stop(r->below);
    span_api.exit(r->tenant);
    span_api.close(r->tenant);
    bench_array_free(r, sizeof *r);
}
