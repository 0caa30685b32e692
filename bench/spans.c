/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads on the span API. It is called through pointers from dlsym, which costs as much as a call through the
 * PLT. */
#define _GNU_SOURCE
#include "spans.h"

#include "workload.h"

#include <dlfcn.h>
#include <stdlib.h>

struct span_api span_api;

/* Converts the result of dlsym to a function pointer, as POSIX does. */
#define FIND(member, name) (*(void **)&span_api.member = dlsym(RTLD_DEFAULT, name))

static jespan_span_t *inside_span;

static jespan_span_t *open_span(const struct jespan_site *site, const struct jespan_label *labels, size_t count)
{
    jespan_span_t *span = span_api.open(site, JESPAN_CURRENT, labels, count);
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
        !FIND(close, "jespan_close") || !FIND(block_enter, "jespan_enter_block") ||
        !FIND(block_exit, "jespan_exit_block") || !FIND(current, "jespan_current") ||
        !FIND(set_limit, "jespan_set_limit") || !FIND(mallctl, "mallctl")) {
        bench_fail("no span API in this process: preload jespan");
    }
    if (inside) {
        JESPAN_SITE(site, "bench");
        inside_span = open_span(&site, NULL, 0);
    }
}

void spans_enter_if_wanted(void)
{
    if (inside_span && span_api.enter(inside_span)) {
        bench_fail("jespan_enter failed");
    }
}

#define DIGITS 11

/* Without printf, which would cost more than the measured code. */
static void write_number(char digits[DIGITS], uint32_t number)
{
    for (char *d = digits + DIGITS - 1; d-- > digits; number /= 10) {
        *d = (char)('0' + number % 10);
    }
    digits[DIGITS - 1] = '\0';
}

/* The next number below 10 to the power of DISTINCT_DIGITS, then 0 again. To write a number takes longer, as much as a tenth of what is
 * measured. */
#define DISTINCT_DIGITS 6
static void count_up(char digits[DIGITS])
{
    char *d = digits + DIGITS - 2;
    for (int i = 0; i < DISTINCT_DIGITS && ++*d > '9'; i++) {
        *d-- = '0';
    }
}

static jespan_span_t *open_labelled(const struct jespan_site *site, const char *digits)
{
    return open_span(site, &(struct jespan_label)JESPAN_LABEL("number", digits), 1);
}

jespan_span_t *spans_open_numbered(const struct jespan_site *site, uint32_t number)
{
    char digits[DIGITS];
    write_number(digits, number);
    return open_labelled(site, digits);
}

struct span_state {
    jespan_span_t *span;
    size_t args;
    uint32_t number;
    char digits[DIGITS];
};

static const struct jespan_label two_labels[] = {JESPAN_LABEL("route", "/orders"), JESPAN_LABEL("tenant", "acme")};

void *span_start(const void *shape)
{
    JESPAN_SITE(site, "bench span");
    struct span_state *s = bench_array(sizeof *s);
    s->args = ((const struct span_shape *)shape)->args;
    s->span = open_span(&site, two_labels, (s->args - 1) / 2);
    write_number(s->digits, 0);
    return s;
}

void span_stop(void *state)
{
    struct span_state *s = state;
    span_api.close(s->span);
    bench_array_free(s, sizeof *s);
}

void span_enter_exit_round(void *state, size_t operations)
{
    jespan_span_t *span = ((struct span_state *)state)->span;
    int failed = 0;
    for (size_t i = 0; i < operations; i++) {
        failed |= span_api.enter(span);
        failed |= span_api.exit(span);
    }
    if (failed) {
        bench_fail("jespan_enter or jespan_exit failed");
    }
}

void span_pair_round(void *state, size_t operations)
{
    jespan_span_t *span = ((struct span_state *)state)->span;
    for (size_t i = 0; i < operations; i++) {
        span_api.enter(span);
        free(bench_touch(malloc(64)));
        span_api.exit(span);
    }
}

/* Like a service that labels each request with its id: a name is repeated only after 1,000,000 others. */
void span_distinct_round(void *state, size_t operations)
{
    JESPAN_SITE(site, "bench distinct");
    struct span_state *s = state;
    for (size_t i = 0; i < operations; i++) {
        span_api.close(open_labelled(&site, s->digits));
        count_up(s->digits);
    }
}

/* Like a service that labels each request with its user. */
#define USERS 1000
void span_users_round(void *state, size_t operations)
{
    JESPAN_SITE(site, "bench users");
    struct span_state *s = state;
    char digits[DIGITS];
    const char *const args[] = {"bench users", "user", digits};
    for (size_t i = 0; i < operations; i++) {
        struct jespan_block scope;
        write_number(digits, s->number);
        span_api.block_enter(&scope, &site, args, 3);
        span_api.block_exit(&scope);
        s->number = (s->number + 7) % USERS;
    }
}

/* The counter that jespan's clock reads, if the processor has one. */
static inline uint64_t read_raw_clock(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return bench_now_ns(CLOCK_MONOTONIC);
#endif
}

void span_clock_round(void *state, size_t operations)
{
    (void)state;
    for (size_t i = 0; i < operations; i++) {
        uint64_t ticks = read_raw_clock();
        __asm__ volatile("" : : "r"(ticks));
    }
}

/* A region as of a request: what it allocates goes with it. */
struct region_state {
    size_t objects;
    uint64_t random;
};

void *region_start(const void *shape)
{
    struct region_state *s = bench_array(sizeof *s);
    s->objects = *(const size_t *)shape;
    s->random = BENCH_SEED;
    return s;
}

void region_stop(void *state)
{
    bench_array_free(state, sizeof(struct region_state));
}

void region_round(void *state, size_t operations)
{
    JESPAN_SITE(site, "bench region", .arena = {.flags = JESPAN_ARENA_REGION});
    struct region_state *s = state;
    for (size_t i = 0; i < operations; i++) {
        jespan_span_t *region = open_span(&site, NULL, 0);
        if (span_api.enter(region)) {
            bench_fail("jespan_enter failed");
        }
        for (size_t n = 0; n < s->objects; n++) {
            bench_touch(malloc(16 + bench_below(bench_random(&s->random), 241)));
        }
        span_api.exit(region);
        span_api.close(region);
    }
}

/* Does the same as JESPAN("bench scope", "route", "/orders", "tenant", "acme"), with the labels of the shape. */
void span_block_round(void *state, size_t operations)
{
    JESPAN_SITE(site, "bench scope");
    static const char *const args[] = {"bench scope", "route", "/orders", "tenant", "acme"};
    size_t count = ((struct span_state *)state)->args;
    for (size_t i = 0; i < operations; i++) {
        struct jespan_block scope;
        span_api.block_enter(&scope, &site, args, count);
        span_api.block_exit(&scope);
    }
}
