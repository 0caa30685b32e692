/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads on the span API. It is called through pointers from dlsym, at the price of a call through the PLT. */
#define _GNU_SOURCE
#include "spans.h"

#include "workload.h"

#include <dlfcn.h>
#include <jespan/jespan.h>

static struct {
    jespan_span_t *(*open)(const struct jespan_site *, jespan_context_t, const struct jespan_label *, size_t);
    int (*enter)(jespan_span_t *);
    int (*exit)(jespan_span_t *);
    void (*close)(jespan_span_t *);
    void (*scope_enter)(struct jespan_scope *, const struct jespan_site *, const char *const *, size_t);
    void (*scope_exit)(struct jespan_scope *);
} api;

/* POSIX's own way to turn dlsym's result into a pointer to a function. */
#define FIND(member, name) (*(void **)&api.member = dlsym(RTLD_DEFAULT, name))

static jespan_span_t *inside_span;

static jespan_span_t *open_span(const struct jespan_site *site)
{
    jespan_span_t *span = api.open(site, JESPAN_CURRENT, NULL, 0);
    if (!span) {
        bench_fail("jespan_open failed");
    }
    return span;
}

void spans_find(bool needed, bool inside)
{
    if (!needed && !inside) {
        return;
    }
    if (!FIND(open, "jespan_open") || !FIND(enter, "jespan_enter") || !FIND(exit, "jespan_exit") ||
        !FIND(close, "jespan_close") || !FIND(scope_enter, "jespan_scope_enter") ||
        !FIND(scope_exit, "jespan_scope_exit")) {
        bench_fail("no span API in this process: preload jespan");
    }
    if (inside) {
        JESPAN_SITE(site, "bench");
        inside_span = open_span(&site);
    }
}

void spans_enter_if_wanted(void)
{
    if (inside_span && api.enter(inside_span)) {
        bench_fail("jespan_enter failed");
    }
}

struct span_state {
    jespan_span_t *span;
    size_t args;
};

void *span_start(const void *shape)
{
    JESPAN_SITE(site, "bench span");
    struct span_state *s = bench_array(sizeof *s);
    s->span = open_span(&site);
    s->args = ((const struct span_shape *)shape)->args;
    return s;
}

void span_stop(void *state)
{
    struct span_state *s = state;
    api.close(s->span);
    bench_array_free(s, sizeof *s);
}

void span_enter_exit_round(void *state, size_t operations)
{
    jespan_span_t *span = ((struct span_state *)state)->span;
    int failed = 0;
    for (size_t i = 0; i < operations; i++) {
        failed |= api.enter(span);
        failed |= api.exit(span);
    }
    if (failed) {
        bench_fail("jespan_enter or jespan_exit failed");
    }
}

/* What JESPAN("bench scope", "route", "/orders", "tenant", "acme") does, less the labels that the shape leaves out. */
void span_scope_round(void *state, size_t operations)
{
    JESPAN_SITE(site, "bench scope");
    static const char *const args[] = {"bench scope", "route", "/orders", "tenant", "acme"};
    size_t count = ((struct span_state *)state)->args;
    for (size_t i = 0; i < operations; i++) {
        struct jespan_scope scope;
        api.scope_enter(&scope, &site, args, count);
        api.scope_exit(&scope);
    }
}
