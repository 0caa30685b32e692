/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of growth, with readings at given times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/alerts.h"

#define MB UINT64_C(1000000)
#define S UINT64_C(1000000000)

static struct alert_state states[1];

static struct alert_news look(uint64_t bytes, uint64_t at_ns)
{
    const struct snapshot_row row = {.id = 1, .name = "cache", .totals.alloc_bytes = bytes};
    const struct snapshot s = {.n_rows = 1, .rows = &row};
    struct alert_news news[1];
    alerts_look(states, NULL, &s, 100 * S + at_ns, news);
    return news[0];
}

static void begin(const char *rule)
{
    states[0] = (struct alert_state){0};
    assert_int_equal(alerts_read(rule, NULL, "alert"), 1);
}

/* 20 MB in each reading, which come a little later than a window after each other, as those of reading_interval_ms:1000 do. */
static void test_readings_as_far_apart_as_the_window(void **state)
{
    static const struct {
        const char *rule;
        uint64_t window_ns;
    } cases[] = {{"growth(cache)>10M/s", S}, {"growth(cache)>10M/min", 60 * S}, {"growth(cache)>10M/h", 3600 * S}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].rule);
        uint64_t apart_ns = cases[i].window_ns + cases[i].window_ns / 3000;
        assert_false(look(20 * MB, 0).holds);
        for (unsigned n = 1; n < 40; n++) {
            struct alert_news news = look((n + 1) * 20 * MB, n * apart_ns);
            assert_int_equal(news.bytes, 20 * MB * 3000 / 3001);
            assert_int_equal(news.is_new, n == 1);
        }
        assert_int_equal(look(0, 40 * apart_ns).bytes, 0); /* it shrank */
    }
}

/* The same growth over ten windows is a tenth in one. */
static void test_readings_further_apart(void **state)
{
    (void)state;
    begin("growth(cache)>10M/s");
    look(0, 0);
    assert_int_equal(look(50 * MB, 10 * S).bytes, 5 * MB);
    assert_int_equal(look(50 * MB + 200 * MB, 20 * S).bytes, 20 * MB);
    assert_int_equal(look(UINT64_C(1) << 62, 86420 * S).bytes, ((UINT64_C(1) << 62) - 250 * MB) / 86400);
}

/* Ten readings in the window: the growth since the oldest of them. Two readings at the same time are no growth. */
static void test_readings_within_the_window(void **state)
{
    (void)state;
    begin("growth(cache)>10M/s");
    for (unsigned n = 0; n < 100; n++)
        assert_int_equal(look(n * MB, n * S / 10).bytes, (n < 10 ? n : 10) * MB);
    assert_int_equal(look(99 * MB, 99 * S / 10).bytes, 10 * MB);
    begin("growth(cache)>10M/s");
    look(MB, 0);
    assert_int_equal(look(MB, 0).bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings_as_far_apart_as_the_window),
        cmocka_unit_test(test_readings_further_apart),
        cmocka_unit_test(test_readings_within_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
