/* SPDX-License-Identifier: BSD-2-Clause */
/* The forecast of when a dump is due and when to look again: growth at many rates, from any state, against a bound
 * of 256 MiB. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory_bounds.h"

#define MB ((uint64_t)1 << 20)
#define MS ((uint64_t)1000000)
#define BOUND (256 * MB)
#define THRESHOLD (230 * MB)

static void test_far_and_still(void **state)
{
    struct pace p = {0};
    (void)state;
    assert_int_equal(pace_look(&p, 10 * MB, BOUND, THRESHOLD, 1 * MS), PACE_CALM);
    uint64_t next = pace_next_ns(&p, BOUND, THRESHOLD);
    assert_true(next > 40 * MS && next <= PACE_SLOW_NS);
    assert_int_equal(pace_look(&p, 225 * MB, BOUND, THRESHOLD, 100000 * MS), PACE_CALM);
    next = pace_next_ns(&p, BOUND, THRESHOLD);
    assert_true(next >= PACE_FAST_NS && next < 12 * MS);
    struct pace large = {0};
    assert_int_equal(pace_look(&large, MB, 100000 * MB, 90000 * MB, 1 * MS), PACE_CALM);
    assert_int_equal(pace_next_ns(&large, 100000 * MB, 90000 * MB), PACE_SLOW_NS);
}

/* Whatever the rate, up to 2 GB/s, and whenever it begins: there is a dump from half the bound on, with room left, or time. */
static void test_growth(void **state)
{
    (void)state;
    for (uint64_t rate = 1; rate <= 2048; rate *= 2)
        for (uint64_t from = 0; from < THRESHOLD; from += 5 * MB) {
            struct pace p = {0};
            uint64_t now = MS, used = from;
            while (pace_look(&p, used, BOUND, THRESHOLD, now) == PACE_CALM) {
                uint64_t wait = pace_next_ns(&p, BOUND, THRESHOLD);
                assert_true(wait >= MS && wait <= PACE_SLOW_NS);
                now += wait;
                used += (uint64_t)((double)wait * (double)rate * (double)MB / 1e9);
            }
            assert_true(used >= BOUND / 2);
            assert_true((double)used + 0.001 * (double)rate * (double)MB < (double)BOUND);
        }
}

static void test_acted_on_once(void **state)
{
    struct pace p = {0};
    (void)state;
    assert_int_equal(pace_look(&p, 235 * MB, BOUND, THRESHOLD, 1 * MS), PACE_NOW);
    pace_acted(&p, PACE_NOW, THRESHOLD);
    assert_int_equal(pace_next_ns(&p, BOUND, THRESHOLD), PACE_SLOW_NS);
    pace_look(&p, 205 * MB, BOUND, THRESHOLD, 200 * MS); /* 7/8 are 201 */
    assert_int_equal(p.level, PACE_NOW);
    pace_look(&p, 200 * MB, BOUND, THRESHOLD, 300 * MS);
    assert_int_equal(p.level, PACE_CALM);
}

/* PACE_SOON does not keep PACE_NOW from coming later. */
static void test_soon_then_now(void **state)
{
    struct pace p = {0};
    (void)state;
    assert_int_equal(pace_look(&p, 100 * MB, BOUND, THRESHOLD, 1 * MS), PACE_CALM);
    assert_int_equal(pace_look(&p, 140 * MB, BOUND, THRESHOLD, 41 * MS), PACE_SOON);
    pace_acted(&p, PACE_SOON, THRESHOLD);
    assert_int_equal(pace_look(&p, 160 * MB, BOUND, THRESHOLD, 61 * MS), PACE_SOON);
    assert_int_equal(p.level, PACE_SOON);
    assert_true(pace_look(&p, 240 * MB, BOUND, THRESHOLD, 141 * MS) > p.level);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_and_still),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_acted_on_once),
        cmocka_unit_test(test_soon_then_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
