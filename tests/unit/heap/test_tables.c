/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables: each table is empty and has one owner. Freed memory is used again, or returned to the
 * system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "heap/classes.h"
#include "heap/pagemap.h"
#include "malloc/track.h"

#define MANY 20000
#define BLOCK ((uint64_t)64 * 1024)

static header_t *tables[MANY];

static size_t slots(uint32_t shift)
{
    return HEADER_PAGE_BYTES >> shift;
}

static void take_many(uint32_t shift, int n)
{
    for (int i = 0; i < n; i++)
        tables[i] = tables_take(NULL, shift);
}

static void give_back_many(uint32_t shift, int n)
{
    for (int i = 0; i < n; i++)
        tables_give_back(tables[i], shift);
    tables_tidy();
}

/* Marks each table with its number, then checks that it still has that mark, and clears it. */
static void check_apart_and_empty(uint32_t shift, int n)
{
    for (int i = 0; i < n; i++) {
        assert_non_null(tables[i]);
        for (size_t s = 0; s < slots(shift); s++) {
            assert_int_equal(load_relaxed(&tables[i][s]), 0);
            store_relaxed(&tables[i][s], (uint32_t)i + 1);
        }
    }
    for (int i = 0; i < n; i++) {
        for (size_t s = 0; s < slots(shift); s++) {
            assert_int_equal(load_relaxed(&tables[i][s]), i + 1);
            store_relaxed(&tables[i][s], 0);
        }
    }
}

/* A table that is not in use holds a pointer. */
static size_t bytes_of(uint32_t shift)
{
    size_t bytes = slots(shift) * sizeof(header_t);
    return bytes < sizeof(void *) ? sizeof(void *) : bytes;
}

static void test_every_shift(void **state)
{
    (void)state;
    for (uint32_t shift = 3; shift < HEADER_PAGE_BITS; shift++) {
        uint64_t used = tables_used_bytes();
        for (int round = 0; round < 2; round++) {
            take_many(shift, 3000);
            assert_int_equal(tables_used_bytes() - used, 3000 * bytes_of(shift));
            check_apart_and_empty(shift, 3000);
            give_back_many(shift, 3000);
            assert_int_equal(tables_used_bytes(), used);
        }
    }
}

/* At most one block of each shift stays, and free memory that is too little to tidy up. */
static void test_memory_goes_back(void **state)
{
    uint64_t before = tables_held_bytes();
    (void)state;
    for (int round = 0; round < 3; round++) {
        take_many(5, MANY);
        assert_true(tables_held_bytes() >= MANY * slots(5) * sizeof(header_t));
        check_apart_and_empty(5, MANY);
        give_back_many(5, MANY);
        assert_in_range(tables_held_bytes(), 0, before + BLOCK);
    }
}

static void test_a_block_in_use_stays(void **state)
{
    (void)state;
    take_many(4, MANY);
    header_t *kept = tables[MANY / 2];
    store_relaxed(kept, 77);
    tables[MANY / 2] = tables[MANY - 1];
    give_back_many(4, MANY - 1);
    assert_int_equal(load_relaxed(kept), 77);
    store_relaxed(kept, 0);
    tables_give_back(kept, 4);
}

/* A hook of jemalloc must not wait for a lock that its own thread may hold. */
static void test_tidying_does_not_wait(void **state)
{
    (void)state;
    take_many(3, 1000);
    lock(LOCK_HEADERS);
    give_back_many(3, 1000);
    unlock(LOCK_HEADERS);
    tables_tidy();
}

/* Tables that a thread keeps come back to it, are empty, and are not more than a few. */
static void test_a_thread_keeps_some(void **state)
{
    (void)state;
    for (uint32_t shift = 3; shift < HEADER_PAGE_BITS; shift++) {
        struct table_cache cache = {0};
        uint64_t used = tables_used_bytes();
        for (int i = 0; i < 200; i++)
            tables[i] = tables_take(&cache, shift);
        check_apart_and_empty(shift, 200);
        for (int i = 0; i < 200; i++)
            tables_keep(&cache, tables[i], shift);
        assert_in_range(tables_used_bytes() - used, bytes_of(shift), 4096);
        uint64_t kept = tables_used_bytes();
        header_t *again = tables_take(&cache, shift);
        assert_int_equal(tables_used_bytes(), kept);
        tables[200] = again;
        for (int i = 0; i < 200; i++)
            tables[i] = tables_take(NULL, shift);
        check_apart_and_empty(shift, 201);
        tables_keep(&cache, again, shift);
        give_back_many(shift, 200);
        tables_empty_cache(&cache);
        assert_int_equal(tables_used_bytes(), used);
    }
}

/* So that threads do not write headers in the same pair of cache lines. */
static void test_a_thread_takes_a_pair_of_lines(void **state)
{
    (void)state;
    for (uint32_t shift = 3; shift < HEADER_PAGE_BITS; shift++) {
        struct table_cache caches[2] = {{{0}}};
        for (int i = 0; i < 64; i++)
            tables[i] = tables_take(&caches[i % 2], shift);
        for (int i = 0; i < 64; i++)
            for (int j = 0; j < i; j++)
                assert_true(i % 2 == j % 2 || (uintptr_t)tables[i] / 128 != (uintptr_t)tables[j] / 128);
        for (int i = 0; i < 64; i++)
            tables_keep(&caches[i % 2], tables[i], shift);
        tables_empty_cache(&caches[0]);
        tables_empty_cache(&caches[1]);
    }
}

/* A thread that takes more tables takes more at a time. */
static void test_groups_grow(void **state)
{
    static const uint32_t expected[] = {128, 256, 512, 1024, 1024};
    (void)state;
    for (uint32_t shift = 3; shift < HEADER_PAGE_BITS; shift++) {
        struct table_cache cache = {0};
        uint64_t begin = tables_used_bytes();
        int n = 0;
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
            uint64_t before = tables_used_bytes();
            do
                tables[n++] = tables_take(&cache, shift);
            while (cache.first[shift]);
            assert_int_equal(tables_used_bytes() - before, expected[i] > bytes_of(shift) ? expected[i] : bytes_of(shift));
        }
        check_apart_and_empty(shift, n);
        give_back_many(shift, n);
        tables_empty_cache(&cache); /* the thread ends, and the next one begins */
        assert_int_equal(tables_used_bytes(), begin);
        tables[0] = tables_take(&cache, shift);
        assert_int_equal(tables_used_bytes() - begin, bytes_of(shift) < 128 ? 128 : bytes_of(shift));
        give_back_many(shift, 1);
        tables_empty_cache(&cache);
    }
}

/* A signal handler that comes while its thread takes a table, and a number that a fork left wrong. */
static void test_a_busy_cache_is_left_alone(void **state)
{
    struct table_cache cache = {0};
    uint64_t used = tables_used_bytes();
    (void)state;
    tables_keep(&cache, tables_take(NULL, 6), 6);
    cache.busy = true;
    header_t *other = tables_take(&cache, 6);
    assert_int_equal(tables_used_bytes() - used, 2 * bytes_of(6));
    tables_keep(&cache, other, 6);
    assert_int_equal(tables_used_bytes() - used, bytes_of(6));
    cache.n[6] = 3;
    tables_empty_cache(&cache);
    assert_int_equal(tables_used_bytes(), used);
    assert_false(cache.busy);
    assert_int_equal(cache.n[6], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shift),
        cmocka_unit_test(test_memory_goes_back),
        cmocka_unit_test(test_a_block_in_use_stays),
        cmocka_unit_test(test_tidying_does_not_wait),
        cmocka_unit_test(test_a_thread_takes_a_pair_of_lines),
        cmocka_unit_test(test_groups_grow),
        cmocka_unit_test(test_a_thread_keeps_some),
        cmocka_unit_test(test_a_busy_cache_is_left_alone),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
