/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods of a program that is made up: contexts that come, go and are recycled. Whatever happens, periods add up to
 * what the snapshots say, and nothing is told twice. Without memory: test_digest_memory.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/made_snapshot.h"
#include "exporters/period.h"

#define MAX_ROWS 300u

/* The program: what is there now, and what was recycled. */
static struct snapshot_row rows[MAX_ROWS];
static bool there[MAX_ROWS];
static struct totals retired;
static uint64_t epoch;

/* The figures that periods told: the sum of all periods, and those of the last period by row. */
static struct totals told, told_of_row[MAX_ROWS], told_retired;
static uint32_t n_told;

static struct period *period;

static int begin(void **state)
{
    (void)state;
    memset(there, 0, sizeof there);
    memset(&retired, 0, sizeof retired);
    memset(&told, 0, sizeof told);
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        rows[i] = (struct snapshot_row){.id = i + 1, .generation = 1, .kind = i == 0 ? CONTEXT_ROOT : CONTEXT_SPAN,
                                        .name = "x", .target = "", .file = ""};
    there[0] = true;
    period = period_make();
    assert_non_null(period);
    return 0;
}

static int end(void **state)
{
    (void)state;
    period_free(period);
    return 0;
}

static void collect(void *user, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    assert_ptr_equal(user, &told);
    totals_add(&told, totals);
    n_told++;
    if (row == PERIOD_RETIRED)
        told_retired = *totals;
    else
        told_of_row[s->rows[row].id - 1] = *totals;
}

/* A period of what is there now. Returns how many contexts were told. */
static uint32_t next(void)
{
    struct snapshot_row now[MAX_ROWS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        if (there[i])
            now[n++] = rows[i];
    struct snapshot *s = made_snapshot_of(now, n);
    s->epoch = ++epoch;
    s->retired = retired;
    memset(told_of_row, 0, sizeof told_of_row);
    memset(&told_retired, 0, sizeof told_retired);
    n_told = 0;
    assert_int_equal(period_next(period, s, collect, &told), 0);
    made_snapshot_free(s);
    return n_told;
}

static void allocate(uint32_t row, uint64_t objects, uint64_t bytes)
{
    rows[row].totals.alloc_objects += objects;
    rows[row].totals.alloc_bytes += bytes;
    rows[row].totals.alloc_requested_bytes += bytes;
}

static void release(uint32_t row, uint64_t objects, uint64_t bytes)
{
    rows[row].totals.free_objects += objects;
    rows[row].totals.free_bytes += bytes;
}

/* It holds nothing any more, and its totals go to the retired ones; its number may be another's. */
static void recycle(uint32_t row)
{
    struct totals *t = &rows[row].totals;
    release(row, totals_inuse_objects(t), totals_inuse_bytes(t));
    t->outlived_objects = t->outlived_bytes = 0;
    totals_add(&retired, t);
    rows[row].totals = (struct totals){0};
    rows[row].generation++;
    there[row] = false;
}

static void check_inuse(const struct totals *t, uint64_t objects, uint64_t bytes)
{
    assert_int_equal(totals_inuse_objects(t), objects);
    assert_int_equal(totals_inuse_bytes(t), bytes);
}

static void test_the_first_has_all(void **state)
{
    (void)state;
    there[5] = there[6] = true;
    allocate(5, 3, 300);
    release(5, 1, 100);
    rows[5].totals.cpu = 7;
    rows[5].totals.outlived_bytes = 11;
    assert_int_equal(next(), 1);
    assert_memory_equal(&told_of_row[5], &rows[5].totals, sizeof(struct totals));
}

/* Allocations are the period's; in use is that of its end, also where nothing happened. */
static void test_differences_and_what_is_held(void **state)
{
    (void)state;
    there[5] = there[6] = true;
    allocate(5, 3, 300);
    rows[6].totals.enters = 1;
    next();
    allocate(5, 2, 50);
    release(5, 1, 100);
    assert_int_equal(next(), 1);
    assert_int_equal(told_of_row[5].alloc_objects, 2);
    assert_int_equal(told_of_row[5].alloc_bytes, 50);
    assert_int_equal(told_of_row[5].free_bytes, 100);
    assert_int_equal(told_of_row[5].credited_in_bytes, 300);
    check_inuse(&told_of_row[5], 4, 250);
    assert_int_equal(next(), 1);
    assert_int_equal(told_of_row[5].alloc_bytes, 0);
    check_inuse(&told_of_row[5], 4, 250);
    release(5, 4, 250);
    assert_int_equal(next(), 1);
    check_inuse(&told_of_row[5], 0, 0);
    assert_int_equal(next(), 0);
}

/* Objects that were credited to another context are not in use; those that were credited from one are. */
static void test_moved(void **state)
{
    (void)state;
    there[5] = there[6] = true;
    allocate(5, 3, 300);
    next();
    rows[5].totals.credited_out_objects = rows[6].totals.credited_in_objects = 1;
    rows[5].totals.credited_out_bytes = rows[6].totals.credited_in_bytes = 100;
    next();
    check_inuse(&told_of_row[5], 2, 200);
    check_inuse(&told_of_row[6], 1, 100);
    assert_int_equal(told_of_row[5].credited_out_bytes, 100);
}

/* Levels, not sums. */
static void test_outlived_is_of_the_end(void **state)
{
    (void)state;
    there[5] = true;
    allocate(5, 3, 300);
    rows[5].totals.outlived_objects = 3;
    rows[5].totals.outlived_bytes = 300;
    next();
    rows[5].totals.outlived_bytes = 200;
    next();
    assert_int_equal(told_of_row[5].outlived_bytes, 200);
    next();
    assert_int_equal(told_of_row[5].outlived_bytes, 200);
    assert_int_equal(told_of_row[5].outlived_objects, 3);
}

/* The figures of a context's last period are told as those of "(retired)", with nothing in use. */
static void test_gone(void **state)
{
    (void)state;
    there[5] = true;
    allocate(5, 3, 300);
    next();
    allocate(5, 1, 77);
    recycle(5);
    assert_int_equal(next(), 1);
    assert_int_equal(told_retired.alloc_bytes, 77);
    assert_int_equal(told_retired.free_bytes, 377);
    check_inuse(&told_retired, 0, 0);
    assert_int_equal(next(), 0);
}

static void test_a_number_that_is_used_again(void **state)
{
    (void)state;
    there[5] = true;
    allocate(5, 3, 300);
    next();
    recycle(5);
    there[5] = true;
    allocate(5, 1, 400);
    assert_int_equal(next(), 2);
    assert_int_equal(told_of_row[5].alloc_bytes, 400);
    check_inuse(&told_of_row[5], 1, 400);
    assert_int_equal(told_retired.alloc_bytes, 0);
    assert_int_equal(told_retired.free_bytes, 300);
}

/* Came and went between two snapshots. */
static void test_one_that_was_never_seen(void **state)
{
    (void)state;
    next();
    allocate(5, 3, 300);
    recycle(5);
    assert_int_equal(next(), 1);
    assert_int_equal(told_retired.alloc_bytes, 300);
    check_inuse(&told_retired, 0, 0);
}

/* Counts as unchanged until it has caught up; in use is what the snapshot says. */
static void test_totals_that_go_down(void **state)
{
    (void)state;
    there[5] = true;
    allocate(5, 10, 1000);
    rows[5].totals.cpu = 50;
    next();
    rows[5].totals.cpu = 30;
    rows[5].totals.alloc_bytes = 900;
    next();
    assert_int_equal(told_of_row[5].cpu, 0);
    assert_int_equal(told_of_row[5].alloc_bytes, 0);
    check_inuse(&told_of_row[5], 10, 900);
    rows[5].totals.cpu = 50;
    rows[5].totals.alloc_bytes = 1100;
    next();
    assert_int_equal(told_of_row[5].cpu, 0);
    assert_int_equal(told_of_row[5].alloc_bytes, 100);
    check_inuse(&told_of_row[5], 10, 1100);
    rows[5].totals.cpu = 51;
    next();
    assert_int_equal(told_of_row[5].cpu, 1);
    assert_int_equal(told.cpu, 51);
}

static uint32_t next_random(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void happen(uint32_t *seed)
{
    uint32_t row = next_random(seed, MAX_ROWS), what = next_random(seed, 6);
    struct totals *t = &rows[row].totals;
    there[row] = true;
    if (what < 3) {
        allocate(row, 1 + what, 16 * (1 + next_random(seed, 1000)));
        t->cpu += next_random(seed, 5);
        t->enters++;
    } else if (what == 3 && totals_inuse_objects(t) > 1) {
        release(row, 1, totals_inuse_bytes(t) / 2);
    } else if (what == 4) {
        t->wall++;
    } else if (row > 0) {
        recycle(row);
    }
}

/* In use is that of the moment, so it is left out of the sums. */
static void forget_held(struct totals *t)
{
    t->credited_in_objects = t->credited_in_bytes = t->outlived_objects = t->outlived_bytes = 0;
}

static void check_sums(void)
{
    struct totals all = retired, sum = told;
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        if (there[i]) {
            totals_add(&all, &rows[i].totals);
            check_inuse(&told_of_row[i], totals_inuse_objects(&rows[i].totals), totals_inuse_bytes(&rows[i].totals));
        }
    forget_held(&all);
    forget_held(&sum);
    assert_memory_equal(&all, &sum, sizeof all);
    check_inuse(&told_retired, 0, 0);
}

static void test_periods_add_up(void **state)
{
    uint32_t seed = 1;
    (void)state;
    for (int round = 0; round < 500; round++) {
        for (uint32_t i = next_random(&seed, 400); i > 0; i--)
            happen(&seed);
        next();
        check_sums();
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_has_all),
        TEST(test_differences_and_what_is_held),
        TEST(test_moved),
        TEST(test_outlived_is_of_the_end),
        TEST(test_gone),
        TEST(test_a_number_that_is_used_again),
        TEST(test_one_that_was_never_seen),
        TEST(test_totals_that_go_down),
        TEST(test_periods_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
