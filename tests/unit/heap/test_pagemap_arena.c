/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of span arenas in the page map. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/pages.h"
#include "base/meta.h"

#define LEAF_MAP_BYTES (((size_t)1 << LEAF_BITS) * sizeof(page_entry_t) + sizeof(struct leaf_more))
#define BASE ((uintptr_t)0x200000000000) /* a test's addresses start at a leaf of its own */
#define END ((uintptr_t)1 << ADDRESS_BITS)

static void assert_claimed(uintptr_t p, uint16_t arena)
{
    assert_int_equal(pagemap_arena(p), arena);
    assert_int_equal(pagemap_arena(p + PAGE - 1), arena);
    assert_int_equal(entry_at(p), arena ? PAGE_ENTRY_ARENA : 0);
}

/* The range covers a leaf that exists and two that do not. */
static void test_a_claim_takes_its_range_only(void **state)
{
    const uintptr_t start = BASE + LEAF - PAGE, end = BASE + 2 * LEAF + PAGE;
    (void)state;
    assert_int_equal(pagemap_set_big(BASE, PAGE, 7), 0);
    assert_int_equal(pagemap_claim(start, end - start, 3), 0);
    for (uintptr_t p = start; p < end; p += PAGE)
        assert_claimed(p, 3);
    assert_claimed(start - PAGE, 0);
    assert_claimed(end, 0);
    pagemap_disown(start + PAGE, PAGE);
    assert_claimed(start, 3);
    assert_claimed(start + PAGE, 0);
    assert_claimed(start + 2 * PAGE, 3);
    pagemap_disown(start, end + 2 * LEAF - start);
    for (uintptr_t p = start; p < end; p += PAGE)
        assert_claimed(p, 0);
    assert_int_equal(page_entry_big_tag(entry_at(BASE)), 7);
}

static void test_any_address_has_an_answer(void **state)
{
    const uintptr_t none[] = {0, BASE + 3 * LEAF, END - 1, END, UINTPTR_MAX};
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(pagemap_arena(none[i]), 0);
    pagemap_disown(BASE + 3 * LEAF, LEAF);
}

static void test_a_claim_is_whole_or_absent(void **state)
{
    (void)state;
    assert_int_equal(pagemap_claim(END - 2 * PAGE, 3 * PAGE, 1), -ENOMEM);
    assert_claimed(END - 2 * PAGE, 0);
    assert_claimed(END - PAGE, 0);
}

/* The fast paths must not take such a page for theirs. The slow paths read the same values as in any other page. */
static void test_small_entries_are_for_the_slow_ways(void **state)
{
    const uintptr_t plain = BASE + 4 * LEAF, claimed = plain + PAGE;
    (void)state;
    assert_int_equal(pagemap_claim(claimed, PAGE, 9), 0);
    for (unsigned n = 1; class_bytes[n] && class_bytes[n] <= HEADER_PAGE_BYTES; n++) {
        uint16_t code = class_of(class_bytes[n]).code;
        uint64_t entry = pagemap_install(NULL, claimed, code), other = pagemap_install(NULL, plain, code);
        assert_int_equal(entry_at(claimed), entry);
        assert_int_equal(pagemap_install(NULL, claimed, code), entry);
        assert_true(!page_entry_is_small(entry) && !page_entry_is_big(entry));
        for (unsigned k = 1; class_bytes[k] && class_bytes[k] <= HEADER_PAGE_BYTES; k++)
            assert_int_not_equal(page_entry_code(entry), class_of(class_bytes[k]).code);
        assert_int_not_equal(page_entry_code(entry), CODE_BIG);
        assert_true(page_entry_is_small_any(entry) && !page_entry_is_big_any(entry));
        assert_true(page_entry_is_small_any(other) && !page_entry_is_big_any(other));
        assert_int_equal(page_entry_class(entry), n);
        assert_int_equal(page_entry_plain_code(entry), code);
        assert_int_equal(page_entry_plain_code(other), code);
        for (size_t at = 0; at < PAGE; at += 8) {
            assert_ptr_equal(page_entry_slot_any(other, plain + at), page_entry_slot(other, plain + at));
            assert_int_equal(page_entry_slot_any(entry, claimed + at) - page_entry_slot_any(entry, claimed),
                             page_entry_slot(other, plain + at) - page_entry_slot(other, plain));
        }
        assert_int_equal(pagemap_arena(claimed), 9);
    }
}

static void test_big_entries_keep_the_mark(void **state)
{
    const uintptr_t p = BASE + 5 * LEAF;
    (void)state;
    assert_int_equal(pagemap_claim(p, PAGE, 9), 0);
    assert_false(page_entry_is_big_any(entry_at(p)) || page_entry_is_small_any(entry_at(p)));
    assert_int_equal(page_entry_big_tag(entry_at(p)), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pagemap_set_big(p, 20480, 1234), HEADERS_IN_ARENA);
        uint64_t entry = entry_at(p);
        assert_true(page_entry_is_big_any(entry) && !page_entry_is_small_any(entry));
        assert_true(!page_entry_is_big(entry) && !page_entry_is_small(entry));
        assert_int_equal(page_entry_big_tag(entry), 1234);
        assert_int_equal(page_entry_big_bytes(entry), 20480);
        for (unsigned k = 1; class_bytes[k] && class_bytes[k] <= HEADER_PAGE_BYTES; k++)
            assert_int_not_equal(page_entry_plain_code(entry), class_of(class_bytes[k]).code);
    }
}

/* A page changes from class to class, to a big object, and back. Then all is released, and claimed again over pages
 * with old entries. */
static void test_no_table_is_lost(void **state)
{
    const uintptr_t p = BASE + 6 * LEAF;
    const uint64_t before = tables_used_bytes();
    (void)state;
    assert_int_equal(pagemap_claim(p, 2 * PAGE, 9), 0);
    pagemap_install(NULL, p, class_of(16).code);
    pagemap_install(NULL, p, class_of(1024).code);
    assert_int_equal(tables_used_bytes() - before, PAGE / 1024 * sizeof(header_t));
    assert_int_equal(pagemap_set_big(p, 2 * PAGE, 77), HEADERS_IN_ARENA);
    assert_int_equal(tables_used_bytes(), before);
    pagemap_install(NULL, p, class_of(16).code);
    pagemap_install(NULL, p + PAGE, class_of(16).code);
    pagemap_release(p, PAGE);
    assert_int_equal(tables_used_bytes() - before, PAGE / 16 * sizeof(header_t));
    assert_claimed(p, 9);
    pagemap_disown(p, 2 * PAGE);
    assert_int_equal(tables_used_bytes(), before);
    assert_claimed(p + PAGE, 0);
    pagemap_install(NULL, p, class_of(16).code);
    assert_int_equal(pagemap_claim(p, PAGE, 8), 0);
    assert_int_equal(tables_used_bytes(), before);
    assert_claimed(p, 8);
}

enum { THREADS = 4, ROUNDS = 200 };
static pthread_barrier_t together;

/* Each thread has a page of its own, in leaves that all threads need at once. */
static void *claim_and_disown(void *number)
{
    const uintptr_t mine = (uintptr_t)number;
    for (uintptr_t round = 0; round < ROUNDS; round++) {
        uintptr_t p = BASE + (16 + round) * LEAF + mine * PAGE;
        pthread_barrier_wait(&together);
        if (pagemap_claim(p, PAGE, (uint16_t)(mine + 1)) || !pagemap_install(NULL, p, class_of(128).code))
            return number;
        pthread_barrier_wait(&together);
        if (pagemap_arena(p) != mine + 1 || !(entry_at(p) & PAGE_ENTRY_ARENA))
            return number;
        pagemap_disown(p, PAGE);
        if (pagemap_arena(p) || entry_at(p))
            return number;
    }
    return NULL;
}

static void test_threads_bring_each_leaf_once(void **state)
{
    pthread_t threads[THREADS];
    uint64_t used = tables_used_bytes(), map_bytes = meta_map_bytes();
    (void)state;
    pthread_barrier_init(&together, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_disown, (void *)i), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(tables_used_bytes(), used);
    assert_in_range(meta_map_bytes() - map_bytes, ROUNDS * LEAF_MAP_BYTES, (ROUNDS + 1) * LEAF_MAP_BYTES - 1);
    pthread_barrier_destroy(&together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claim_takes_its_range_only),
        cmocka_unit_test(test_any_address_has_an_answer),
        cmocka_unit_test(test_a_claim_is_whole_or_absent),
        cmocka_unit_test(test_small_entries_are_for_the_slow_ways),
        cmocka_unit_test(test_big_entries_keep_the_mark),
        cmocka_unit_test(test_no_table_is_lost),
        cmocka_unit_test(test_threads_bring_each_leaf_once),
    };
    return cmocka_run_group_tests(tests, pages_boot, NULL);
}
