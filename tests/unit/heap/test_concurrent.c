/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums and snapshots while threads allocate, pass objects on and free each other's. No figure is negative, sums add
 * up, and nothing is missing at the end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/family.h"
#include "heap/sums.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "snapshot/snapshot.h"
#include "span/tree.h"

enum { THREADS = 3, READS = 1000, ROUNDS = 20000 };
static _Atomic(void *) passed[64];
static _Atomic uint64_t rounds;
static _Atomic bool stop;
static pthread_t threads[THREADS];
static struct totals before;

/* Puts a new object into a shared place, and frees the object that was there. Mostly another thread allocated it. */
static void pass_on(uint32_t random)
{
    F(free)(atomic_exchange(&passed[random >> 26], F(malloc)((random >> 8) % 6000)));
    atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
}

/* Mostly in a context that the thread enters without a lock. */
static void *work(void *seed)
{
    uint32_t at = (uint32_t)(uintptr_t)seed;
    while (!load_relaxed(&stop)) {
        for (int i = 0; i < 50; i++) {
            JESPAN("work");
            pass_on(at = at * 1664525u + 1013904223u);
        }
        char text[2] = {(char)('a' + (at >> 24) % 26), '\0'};
        JESPAN("work", "letter", text);
        pass_on(at);
    }
    return NULL;
}

static int start(void **state)
{
    (void)state;
    before = sums_of_all(tree_end());
    store_relaxed(&stop, false);
    store_relaxed(&rounds, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)))
            return -1;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    store_relaxed(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        F(free)(atomic_exchange(&passed[i], NULL));
    struct totals t = sums_of_all(tree_end());
    totals_subtract(&t, &before);
    assert_int_equal(t.alloc_objects, load_relaxed(&rounds));
    assert_int_equal(t.free_objects, t.alloc_objects);
    assert_int_equal(t.free_bytes, t.alloc_bytes);
    assert_int_equal(t.enters, t.exits);
    return 0;
}

static void assert_not_negative(const struct totals *t)
{
    assert_true(t->alloc_objects >= t->free_objects);
    assert_true(t->alloc_bytes >= t->free_bytes);
    assert_true(t->enters >= t->exits);
}

/* A context that is made after the bound was read does not count: neither its allocations nor its frees, buffered ones
 * included. */
static void test_sums_keep_their_bound(void **state)
{
    struct totals all;
    uint32_t bound = tree_end();
    (void)state;
    uint64_t had = sums_of_all(bound).free_objects;
    {
        JESPAN("new");
        assert_int_equal(jespan_current(), bound);
        F(free)(F(malloc)(64));
    }
    assert_int_equal(sums_of(bound).free_objects, 1);
    all = sums_of_all(bound);
    assert_int_equal(all.free_objects, had);
    assert_not_negative(&all);
}

static bool go_on(int n)
{
    return n < READS || load_relaxed(&rounds) < ROUNDS;
}

static void test_sums_are_never_negative(void **state)
{
    struct totals last = before;
    (void)state;
    for (int n = 0; go_on(n); n++) {
        uint32_t end = tree_end();
        struct totals all = sums_of_all(end), one = sums_of((uint32_t)n % end);
        assert_not_negative(&all);
        assert_not_negative(&one);
        assert_true(all.alloc_objects >= last.alloc_objects && all.alloc_bytes >= last.alloc_bytes);
        last = all;
    }
}

static struct totals rows_and_retired(const struct snapshot *s)
{
    struct totals sum = s->retired;
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(&sum, &s->rows[i].totals);
    return sum;
}

static void test_snapshots_add_up(void **state)
{
    uint64_t seen = 0;
    (void)state;
    for (int n = 0; go_on(n); n++) {
        struct snapshot *s = snapshot_take();
        assert_non_null(s);
        struct totals sum = rows_and_retired(s);
        assert_memory_equal(&sum, &s->all, sizeof sum);
        assert_true(s->all.alloc_objects >= seen);
        seen = s->all.alloc_objects;
        for (uint32_t i = 0; i < s->n_rows; i++)
            assert_not_negative(&s->rows[i].totals);
        snapshot_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_keep_their_bound),
        cmocka_unit_test_setup_teardown(test_sums_are_never_negative, start, finish),
        cmocka_unit_test_setup_teardown(test_snapshots_add_up, start, finish),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
