/* SPDX-License-Identifier: BSD-2-Clause */
/* The value of a time word: while time passes, afterwards, with several begins, and with a count that was read at
 * another moment. Then the words of a real thread's counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "heap/timing.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "span/span.h"

/* The time of a machine that has been on for years. */
#define NOW ((uint64_t)1 << 58)

static uint64_t begin(uint64_t word, uint64_t now)
{
    return word - (now + TIME_INSIDE);
}

static uint64_t end(uint64_t word, uint64_t now)
{
    return word + (now + TIME_INSIDE);
}

static uint64_t open_one(uint64_t word, uint64_t now)
{
    return word - (now + TIME_OPEN);
}

static uint64_t close_one(uint64_t word, uint64_t now)
{
    return word + (now + TIME_OPEN);
}

static const uint64_t times[] = {0, 1, 1000000, NOW / 2};
#define EACH_TIME(t) (const uint64_t *t = times; t < times + sizeof times / sizeof *times; t++)

static void outside(void **state)
{
    (void)state;
    for EACH_TIME (over) {
        assert_true(timing_is_over(*over));
        assert_int_equal(timing_resolve(*over, NOW), *over);
        assert_int_equal(timing_resolve_open(*over, 0, NOW), *over);
    }
}

static void inside(void **state)
{
    (void)state;
    for EACH_TIME (over)
        for EACH_TIME (since) {
            uint64_t word = begin(*over, NOW - *since);
            assert_false(timing_is_over(word));
            assert_int_equal(timing_resolve(word, NOW), *over + *since);
            assert_int_equal(end(word, NOW), *over + *since);
        }
}

/* Clocks of two processors may differ by some ticks. */
static void never_less_than_nothing(void **state)
{
    (void)state;
    assert_int_equal(timing_resolve(begin(0, NOW + 10), NOW), 0);
    assert_int_equal(timing_resolve(begin(7, NOW + 10), NOW), 0);
    assert_int_equal(timing_resolve(begin(12, NOW + 10), NOW), 2);
    assert_int_equal(timing_resolve((uint64_t)-5, NOW), 0);
    assert_int_equal(timing_resolve_open(open_one(0, NOW + 10), 1, NOW), 0);
    assert_int_equal(timing_resolve_open((uint64_t)-5, 0, NOW), 0);
}

static void several_are_open(void **state)
{
    (void)state;
    uint64_t word = 1000, passed = 1000, n;
    for (n = 0; n < 40; n++) {
        assert_int_equal(timing_resolve_open(word, n, NOW), passed);
        word = open_one(word, NOW - 100 * n);
        passed += 100 * n;
    }
    for (; n; n--) {
        assert_int_equal(timing_resolve_open(word, n, NOW), passed);
        word = close_one(word, NOW);
    }
    assert_int_equal(word, passed);
}

/* A reader may read the count before an enter or exit, and the word after it. */
static void count_of_another_moment(void **state)
{
    (void)state;
    uint64_t two = open_one(open_one(1000, NOW - 10), NOW - 20);
    for (uint64_t n = 1; n <= 3; n++)
        assert_int_equal(timing_resolve_open(two, n, NOW), 1030);
    assert_int_equal(timing_resolve_open(open_one(1000, NOW - 10), 0, NOW), 1010);
    assert_int_equal(timing_resolve_open(1000, 1, NOW), 1000);
    assert_int_equal(timing_resolve_open(close_one(open_one(1000, NOW - 10), NOW), 1, NOW), 1010);
}

/* ---- A thread's ---- */

static struct thread *self;

static int boot(void **state)
{
    (void)state;
    self = track_thread();
    return self && timing_is_on ? 0 : -1;
}

static uint64_t cpu_of(struct counters *c)
{
    return timing_resolve(load_relaxed(counters_cpu(c)), cpu_clock_of(&self->cpu));
}

static void exactly_one_context_is_inside(void **state)
{
    JESPAN_SITE(site, "span");
    jespan_span_t *span = jespan_open(&site, JESPAN_CURRENT, NULL, 0);
    (void)state;
    struct counters *base = self->timed;
    assert_int_equal(jespan_enter(span), 0);
    struct counters *c = self->timed;
    assert_ptr_not_equal(c, base);
    assert_true(timing_is_over(load_relaxed(&base->busy)));
    assert_true(timing_is_over(load_relaxed(counters_cpu(base))));
    assert_false(timing_is_over(load_relaxed(&c->busy)));
    assert_false(timing_is_over(load_relaxed(counters_cpu(c))));
    uint64_t before = load_relaxed(&base->busy);
    assert_int_equal(jespan_exit(span), 0);
    assert_true(timing_is_over(load_relaxed(&c->busy)));
    assert_true(timing_is_over(load_relaxed(counters_cpu(c))));
    assert_false(timing_is_over(load_relaxed(&base->busy)));
    assert_true(timing_resolve(load_relaxed(&base->busy), clock_ticks()) > before);
    assert_true(cpu_of(base) > 0);
    assert_int_equal(load_relaxed(&counters_more(c)->wall), 0); /* the tree has the time of spans from jespan_open() */
    jespan_close(span);
}

/* A block whose entry stays while entries around it are undone out of order. */
static void scope_is_open_until_it_is_closed(void **state)
{
    struct counters_more *more;
    (void)state;
    {
        JESPAN("scope");
        more = counters_more(self->timed);
        assert_int_equal(load_relaxed(&more->opens), (1u << OPENS_SHIFT) + 1);
        assert_false(timing_is_over(load_relaxed(&more->wall)));
    }
    assert_int_equal(load_relaxed(&more->opens), 1u << OPENS_SHIFT);
    assert_true(timing_is_over(load_relaxed(&more->wall)) && load_relaxed(&more->wall) > 0);
}

/* As in a forked child: in all counters, time that was passing has ended, and finished times stay. */
static void what_was_left_behind_ends(void **state)
{
    static struct counters_chunk chunk;
    static struct thread gone;
    struct counters *inside = &chunk.counters[0], *outside = &chunk.counters[1], *unused = &chunk.counters[2];
    uint64_t now = clock_ticks();
    (void)state;
    cpu_clock_set_last(&gone.cpu, 5000);
    inside->busy = begin(1000, now - 10);
    chunk.more_used = 3;
    chunk.cpu[0] = begin(300, 4000);
    chunk.more[0] = (struct counters_more){.opens = (7 << OPENS_SHIFT) + 2,
                                           .wall = open_one(open_one(1000, now - 10), now - 10)};
    outside->busy = 1000;
    chunk.cpu[1] = 300;
    chunk.more[1] = (struct counters_more){.opens = 7 << OPENS_SHIFT, .wall = 1000};
    chunk.cpu[2] = begin(300, 4000);
    timing_abandon(&gone, inside);
    timing_abandon(&gone, outside);
    timing_abandon(&gone, unused);
    uint64_t passed = clock_ticks() - now;
    assert_in_range(inside->busy, 1010, 1010 + passed);
    assert_in_range(chunk.more[0].wall, 1020, 1020 + 2 * passed);
    assert_int_equal(chunk.cpu[0], 1300);
    assert_int_equal(chunk.more[0].opens, 7 << OPENS_SHIFT);
    assert_int_equal(outside->busy, 1000);
    assert_int_equal(chunk.more[1].wall, 1000);
    assert_int_equal(chunk.cpu[1], 300);
    assert_int_equal(chunk.cpu[2], 1300);
    assert_int_equal(chunk.more[1].opens, 7 << OPENS_SHIFT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside), cmocka_unit_test(inside), cmocka_unit_test(never_less_than_nothing),
        cmocka_unit_test(several_are_open), cmocka_unit_test(count_of_another_moment),
        cmocka_unit_test_setup(exactly_one_context_is_inside, boot),
        cmocka_unit_test_setup(scope_is_open_until_it_is_closed, boot),
        cmocka_unit_test_setup(what_was_left_behind_ends, boot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
