/* SPDX-License-Identifier: BSD-2-Clause */
/* Ticks, compared with the system's clock, and the length of a tick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/times.h"
#include "base/clock.h"

static int boot(void **state)
{
    (void)state;
    clock_boot();
    return 0;
}

static void ticks_are_as_long_as_they_say(void **state)
{
    (void)state;
    uint64_t outer = times_ns(CLOCK_MONOTONIC), begin = clock_ticks(), inner = times_ns(CLOCK_MONOTONIC);
    times_sleep(30000000);
    uint64_t inner_end = times_ns(CLOCK_MONOTONIC), end = clock_ticks(), outer_end = times_ns(CLOCK_MONOTONIC);
    uint64_t ns = clock_ticks_to_ns(end - begin, clock_scale());
    assert_true(times_between(ns, inner_end - inner, outer_end - outer, TIMES_TICK_PER_MILLE));
}

static void ticks_go_on(void **state)
{
    (void)state;
    uint64_t last = clock_ticks();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_ticks();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last < (uint64_t)1 << 60);
}

/* A day is converted to ticks and back. The loss is less than one part in four billion. */
static void conversion_goes_both_ways(void **state)
{
    (void)state;
    const uint64_t day = 86400u * (uint64_t)1000000000, scale = clock_scale();
    uint64_t back = clock_ticks_to_ns(clock_ns_to_ticks(day, scale), scale);
    assert_true(back <= day && day - back < 100);
    assert_int_equal(clock_ticks_to_ns(0, scale), 0);
    assert_int_equal(clock_ticks_to_ns(1000, (uint64_t)1 << 32), 1000);
    assert_int_equal(clock_ticks_to_ns(1000, (uint64_t)1 << 31), 500);
}

/* The length of a tick becomes fixed, so that no time is ever shown lower than before. */
static void length_stays_in_the_end(void **state)
{
    (void)state;
    clock_scale();
    times_sleep(1200000000);
    uint64_t scale = clock_scale();
    times_sleep(10000000);
    assert_int_equal(clock_scale(), scale);
}

static void without_a_counter_ticks_are_nanoseconds(void **state)
{
    (void)state;
    bool raw = clock_is_raw;
    clock_is_raw = false;
    uint64_t before = times_ns(CLOCK_MONOTONIC), now = clock_ticks(), after = times_ns(CLOCK_MONOTONIC);
    clock_is_raw = raw;
    assert_true(before <= now && now <= after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_as_long_as_they_say), cmocka_unit_test(ticks_go_on),
        cmocka_unit_test(conversion_goes_both_ways), cmocka_unit_test(length_stays_in_the_end),
        cmocka_unit_test(without_a_counter_ticks_are_nanoseconds),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
