/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of several contexts on one thread, in any order of enters and exits. At each moment, time passes for exactly
 * one of them. */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/spans.h"
#include "../support/times.h"

#define MS 1000000u

static jespan_span_t *open_span(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, NULL, 0);
    CHECK(span != NULL);
    return span;
}

JESPAN_SITE(site_a, "a");
JESPAN_SITE(site_b, "b");
JESPAN_SITE(site_c, "c");

#define PARTS 3
struct parts {
    jespan_span_t *span[PARTS];
    jespan_context_t id[PARTS];
    struct bracket b[PARTS];
    uint64_t begin; /* before this thread entered each of them to learn its context */
};

static struct parts open_parts(void)
{
    const struct jespan_site *sites[PARTS] = {&site_a, &site_b, &site_c};
    struct parts p = {.begin = times_ns(CLOCK_MONOTONIC)};
    for (int i = 0; i < PARTS; i++) {
        p.span[i] = jespan_open(sites[i], JESPAN_ROOT, NULL, 0);
        p.id[i] = spans_context(p.span[i]);
    }
    return p;
}

static void close_parts(struct parts *p)
{
    for (int i = 0; i < PARTS; i++)
        CHECK_EQ(jespan_close(p->span[i]), 0);
}

/* Works in the current context, which must be p->id[i]. A clock that is read before and after gives the least time. */
static void work_in(struct parts *p, int i, uint64_t *least, unsigned ms)
{
    CHECK_EQ(jespan_current(), p->id[i]);
    uint64_t begin = times_ns(CLOCK_MONOTONIC);
    times_sleep((uint64_t)ms * MS);
    least[i] += times_ns(CLOCK_MONOTONIC) - begin;
}

/* Each part has at least the time of its work. The time between two pieces of work belongs to some part, so all parts
 * together have all time. */
static void check_parts(const struct parts *p, const uint64_t *least, uint64_t all)
{
    uint64_t sum = 0, known = 0;
    for (int i = 0; i < PARTS; i++) {
        uint64_t busy = ctl_span(p->id[i], "busy_ns");
        sum += busy;
        known += least[i];
        CHECK_BETWEEN(busy, least[i], all);
    }
    CHECK_BETWEEN(sum, known, all);
}

static void depth_three(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0};
    for (int i = 0; i < PARTS; i++) {
        CHECK_EQ(jespan_enter(p.span[i]), 0);
        work_in(&p, i, least, 4u << i);
    }
    for (int i = PARTS; i-- > 0;) {
        work_in(&p, i, least, 3);
        CHECK_EQ(jespan_exit(p.span[i]), 0);
    }
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - p.begin);
    close_parts(&p);
}

static void out_of_order_and_again(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0};
    for (int i = 0; i < PARTS; i++)
        CHECK_EQ(jespan_enter(p.span[i]), 0);
    CHECK_EQ(jespan_enter(p.span[0]), 0); /* a b c a */
    work_in(&p, 0, least, 4);
    CHECK_EQ(jespan_exit(p.span[0]), 0); /* a b c */
    work_in(&p, 2, least, 8);
    CHECK_EQ(jespan_exit(p.span[1]), 0); /* a c */
    work_in(&p, 2, least, 2);
    CHECK_EQ(jespan_exit(p.span[2]), 0); /* a */
    work_in(&p, 0, least, 16);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - p.begin);
    close_parts(&p);
}

static void attached(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0};
    CHECK_EQ(jespan_enter(p.span[0]), 0);
    jespan_context_t previous = jespan_attach(p.id[1]);
    work_in(&p, 1, least, 8);
    CHECK_EQ(jespan_enter(p.span[2]), 0);
    work_in(&p, 2, least, 4);
    CHECK_EQ(jespan_exit(p.span[2]), 0);
    jespan_attach(previous);
    work_in(&p, 0, least, 16);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - p.begin);
    close_parts(&p);
}

/* In a block for another owner, objects belong to the owner, and time does not. That holds while other spans are
 * entered, and when the span below the block is left. */
static void for_another(void)
{
    struct parts p = open_parts();
    uint64_t before = ctl_span(p.id[1], "busy_ns"), least[PARTS] = {0};
    CHECK_EQ(jespan_enter(p.span[0]), 0);
    CHECK_EQ(jespan_enter(p.span[2]), 0);
    {
        JESPAN_CREDIT(p.id[1]);
        CHECK_EQ(jespan_current(), p.id[1]);
        {
            JESPAN("inside");
        }
        uint64_t start = times_ns(CLOCK_MONOTONIC);
        times_sleep(8 * MS);
        uint64_t middle = times_ns(CLOCK_MONOTONIC);
        CHECK_EQ(jespan_exit(p.span[2]), 0);
        uint64_t second = times_ns(CLOCK_MONOTONIC);
        times_sleep(8 * MS);
        least[2] += middle - start;
        least[0] += times_ns(CLOCK_MONOTONIC) - second;
    }
    work_in(&p, 0, least, 4);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    uint64_t all = times_ns(CLOCK_MONOTONIC) - p.begin;
    CHECK_BETWEEN(ctl_span(p.id[1], "busy_ns"), 0, before); /* the clock's rate may have been measured again */
    CHECK_BETWEEN(ctl_span(p.id[2], "busy_ns"), least[2], all - least[0]);
    CHECK_BETWEEN(ctl_span(p.id[0], "busy_ns"), least[0], all - least[2]);
    close_parts(&p);
}

/* A JESPAN() block has wall and busy time. Its parent has both too, with the block and without it. */
static void scopes(void)
{
    uint64_t least[2] = {0};
    jespan_context_t outer, inner;
    uint64_t begin = times_ns(CLOCK_MONOTONIC);
    {
        JESPAN("outer");
        outer = jespan_current();
        uint64_t start = times_ns(CLOCK_MONOTONIC);
        times_sleep(5 * MS);
        {
            JESPAN("inner");
            inner = jespan_current();
            uint64_t second = times_ns(CLOCK_MONOTONIC);
            times_sleep(10 * MS);
            least[1] = times_ns(CLOCK_MONOTONIC) - second;
        }
        least[0] = times_ns(CLOCK_MONOTONIC) - start;
    }
    uint64_t all = times_ns(CLOCK_MONOTONIC) - begin, inner_wall = ctl_span(inner, "wall_ns");
    CHECK_BETWEEN(inner_wall, least[1], all);
    CHECK_BETWEEN(ctl_span(inner, "busy_ns"), least[1], all);
    CHECK_BETWEEN(ctl_span(outer, "wall_ns"), least[0] - inner_wall, all - inner_wall);
    CHECK_BETWEEN(ctl_span(outer, "busy_ns"), least[0] - inner_wall, all - inner_wall);
    CHECK_BETWEEN(ctl_span(outer, "total.wall_ns"), least[0], all);
    CHECK_BETWEEN(ctl_span(outer, "total.busy_ns"), least[0], all);
    CHECK_EQ(ctl_span(outer, "opens"), 1);
    CHECK_EQ(ctl_span(inner, "total.opens"), 1);
}

/* A span that is open and not entered has wall and idle time. A child that is open longer than its parent takes no more
 * time from it than the parent has. */
static void child_outlives_parent(void)
{
    struct bracket b;
    b.outer_begin = times_now();
    jespan_span_t *parent = open_span(&site_a);
    jespan_context_t id = spans_context(parent);
    jespan_span_t *child = jespan_open(&site_b, id, NULL, 0);
    jespan_context_t below = spans_context(child);
    b.inner_begin = times_now(); /* both are open */
    times_sleep(5 * MS);
    b.inner_end = times_now();
    CHECK_EQ(jespan_close(parent), 0);
    b.outer_end = times_now();
    times_sleep(10 * MS);
    CHECK_EQ(jespan_close(child), 0);
    uint64_t all = times_ns(CLOCK_MONOTONIC) - b.outer_begin.ns[WALL];
    uint64_t with_child = ctl_span(id, "total.wall_ns"), of_child = ctl_span(below, "wall_ns");
    CHECK_EQ(ctl_span(id, "wall_ns"), with_child > of_child ? with_child - of_child : 0);
    CHECK_BETWEEN(with_child, times_inner(&b, WALL), times_outer(&b, WALL));
    CHECK_BETWEEN(of_child, times_inner(&b, WALL) + 10 * MS, all);
    CHECK_BETWEEN(ctl_span(below, "idle_ns"), 10 * MS, all);
}

/* All time that passes on a thread passes for some context. */
static void sum_is_all(void)
{
    struct bracket b;
    b.outer_begin = times_now();
    uint64_t busy = ctl_u64("spans.all.busy_ns");
    b.inner_begin = times_now();
    struct parts p = open_parts();
    for (int i = 0; i < 20000; i++) {
        JESPAN("outer");
        CHECK_EQ(jespan_enter(p.span[i % PARTS]), 0);
        JESPAN_CREDIT(p.id[(i + 1) % PARTS]);
        JESPAN("inner");
        if (i % 1000 == 0)
            times_sleep(MS / 2);
        CHECK_EQ(jespan_exit(p.span[i % PARTS]), 0);
    }
    close_parts(&p);
    b.inner_end = times_now();
    busy = ctl_u64("spans.all.busy_ns") - busy;
    b.outer_end = times_now();
    CHECK_BETWEEN(busy, times_inner(&b, WALL), times_outer(&b, WALL));
}

static const struct test_case cases[] = {
    {"depth three", depth_three, NULL, NULL},
    {"out of order", out_of_order_and_again, NULL, NULL},
    {"attached", attached, NULL, NULL},
    {"for another", for_another, NULL, NULL},
    {"scopes", scopes, NULL, NULL},
    {"scopes, wall", scopes, NULL, "track_time:wall"},
    {"child outlives parent", child_outlives_parent, NULL, NULL},
    {"sum", sum_is_all, NULL, NULL},
    {"sum, thread", sum_is_all, NULL, "cpu_clock:thread"},
    {"sum, wall", sum_is_all, NULL, "track_time:wall"},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
