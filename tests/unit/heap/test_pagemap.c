/* SPDX-License-Identifier: BSD-2-Clause */
/* Page map and header tables. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/pages.h"
#include "base/meta.h"
#include "jemalloc/binding.h"

#define BASE ((uintptr_t)0x100000000000) /* a test's addresses start at a leaf of its own */

static void test_unknown_addresses_have_no_page(void **state)
{
    (void)state;
    assert_null(pagemap_page(0));
    assert_null(pagemap_page(BASE));
    assert_null(pagemap_page(((uintptr_t)1 << ADDRESS_BITS) - 1));
    assert_null(pagemap_page((uintptr_t)1 << ADDRESS_BITS));
    assert_null(pagemap_page(UINTPTR_MAX));
    assert_int_equal(pagemap_install(NULL, (uintptr_t)1 << ADDRESS_BITS, class_of(64).code), 0);
    assert_int_not_equal(pagemap_set_big(UINTPTR_MAX, PAGE, 1), 0);
}

static void test_each_class_has_its_table(void **state)
{
    uintptr_t p = BASE + LEAF;
    (void)state;
    for (unsigned n = 1; class_bytes[n] && class_bytes[n] <= HEADER_PAGE_BYTES; n++, p += PAGE) {
        uint16_t code = class_of(class_bytes[n]).code;
        uint64_t entry = pagemap_install(NULL, p + 17, code);
        assert_int_equal(entry_at(p), entry);
        assert_true(page_entry_is_small(entry) && !page_entry_is_big(entry));
        assert_int_equal(page_entry_class(entry), n);
        assert_int_equal(pagemap_install(NULL, p, code), entry);
        assert_int_equal(entry_at(p + PAGE), 0);
    }
}

/* Writes each slot of two neighbouring pages once, and checks that no slot is written twice. */
static void test_slots_are_distinct(void **state)
{
    uintptr_t p = BASE + 2 * LEAF;
    uint32_t tag = 0;
    (void)state;
    uint64_t entries[2] = {pagemap_install(NULL, p, class_of(48).code), pagemap_install(NULL, p + PAGE, class_of(48).code)};
    for (int page = 0; page < 2; page++)
        for (size_t at = 0; at < PAGE; at += 32) {
            header_t *slot = page_entry_slot(entries[page], p + (size_t)page * PAGE + at);
            assert_int_equal(load_relaxed(slot), 0);
            assert_ptr_equal(slot, page_entry_slot(entries[page], p + at + 31));
            store_relaxed(slot, ++tag);
        }
    assert_int_equal(tag, 2 * PAGE / 32);
    assert_int_equal(load_relaxed(page_entry_slot(entries[0], p)), 1);
    assert_int_equal(load_relaxed(page_entry_slot(entries[1], p)), PAGE / 32 + 1);
}

static void assert_table_is_empty(uint64_t entry)
{
    for (size_t at = 0; at < PAGE; at += 8)
        assert_int_equal(load_relaxed(page_entry_slot(entry, at)), 0);
}

/* All headers are 0 when a table is returned, since all objects were freed. */
static void test_tables_come_back_empty(void **state)
{
    uintptr_t p = BASE + 3 * LEAF;
    (void)state;
    uint64_t before = tables_used_bytes();
    for (int i = 0; i < 4; i++)
        pagemap_install(NULL, p + (size_t)i * PAGE, class_of(16).code);
    assert_int_equal(tables_used_bytes() - before, 4 * PAGE / 16 * sizeof(header_t));
    pagemap_release(p, 4 * PAGE);
    assert_int_equal(tables_used_bytes(), before);
    uint64_t own_memory = tables_held_bytes() + meta_map_bytes(), entries[4];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            assert_int_equal(entry_at(p + (size_t)i * PAGE), 0);
            entries[i] = pagemap_install(NULL, p + (size_t)i * PAGE, class_of(16).code);
            assert_table_is_empty(entries[i]);
            for (int k = 0; k < i; k++)
                assert_int_not_equal(entries[i], entries[k]);
        }
        pagemap_release(p, 4 * PAGE);
    }
    assert_int_equal(tables_held_bytes() + meta_map_bytes(), own_memory); /* the same four tables are used again */
}

static void test_a_page_changes_its_class(void **state)
{
    uintptr_t p = BASE + 4 * LEAF;
    (void)state;
    pagemap_install(NULL, p, class_of(16).code);
    uint64_t before = tables_used_bytes(), entry = pagemap_install(NULL, p, class_of(1024).code);
    assert_int_equal(page_entry_class(entry), CODE_CLASS(class_of(1024).code));
    assert_int_equal(before - tables_used_bytes(), (PAGE / 16 - PAGE / 1024) * sizeof(header_t));
    assert_int_equal(pagemap_set_big(p, 2 * PAGE, 77), 0);
    assert_int_equal(before - tables_used_bytes(), PAGE / 16 * sizeof(header_t));
    entry = pagemap_install(NULL, p, class_of(16).code);
    assert_true(page_entry_is_small(entry));
    assert_int_equal(tables_used_bytes(), before);
}

/* The range covers leaves that exist and leaves that do not. */
static void test_release_takes_its_range_only(void **state)
{
    uintptr_t start = BASE + 8 * LEAF - PAGE, end = BASE + 12 * LEAF + PAGE;
    const uintptr_t inside[] = {start, BASE + 8 * LEAF, BASE + 10 * LEAF, BASE + 11 * LEAF - PAGE, end - PAGE};
    const uintptr_t outside[] = {start - PAGE, end};
    (void)state;
    for (int i = 0; i < 5; i++)
        pagemap_install(NULL, inside[i], class_of(256).code);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pagemap_set_big(outside[i], PAGE, 5), 0);
    assert_null(pagemap_page(BASE + 9 * LEAF));
    pagemap_release(start, end - start);
    for (int i = 0; i < 5; i++)
        assert_int_equal(entry_at(inside[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(page_entry_big_tag(entry_at(outside[i])), 5);
    assert_null(pagemap_page(BASE + 9 * LEAF));
}

/* Tries every class of jemalloc up to a tebibyte. malloc compares codes, so no code may equal CODE_BIG. */
static void test_big_entries(void **state)
{
    uintptr_t p = BASE + 13 * LEAF;
    (void)state;
    for (size_t usable = PAGE; usable <= (size_t)1 << 40; usable = jespan_je_nallocx(usable + 1, 0)) {
        assert_int_equal(pagemap_set_big(p, usable, (TAGS_MAX - 1) | TAG_SURVIVOR), 0);
        uint64_t entry = entry_at(p);
        assert_true(page_entry_is_big(entry) && !page_entry_is_small(entry));
        assert_int_equal(page_entry_big_tag(entry), (TAGS_MAX - 1) | TAG_SURVIVOR);
        assert_int_equal(page_entry_big_bytes(entry), usable);
        assert_int_not_equal(page_entry_code(entry), CODE_BIG);
    }
    assert_int_equal(pagemap_set_big(p, PAGE * 1024 + 512, 3), 0); /* no size class of jemalloc, which is then asked */
    assert_int_equal(page_entry_big_bytes(entry_at(p)), 0);
    pagemap_release(p, PAGE);
    assert_int_equal(entry_at(p), 0);
}

/* A large object of jemalloc may start anywhere in its first page. */
static void test_where_big_objects_start(void **state)
{
    uintptr_t page = BASE + 13 * LEAF;
    (void)state;
    for (uintptr_t start = 0; start < PAGE; start += 64) {
        assert_int_equal(pagemap_set_big(page + start, 5 * PAGE, 3), 0);
        for (uintptr_t p = page; p < page + PAGE; p++)
            assert_int_equal(page_entry_big_starts_at(entry_at(page), p), p == page + start);
    }
    pagemap_release(page, PAGE);
}

static bool is_known_start(uintptr_t p)
{
    return page_entry_starts_at(entry_at(p), p);
}

static bool is_start(uintptr_t p)
{
    return is_known_start(p) || pagemap_find_start(p);
}

static uintptr_t first_start_in(uintptr_t page, uintptr_t slab)
{
    return slab + (page - slab + 47) / 48 * 48;
}

/* A slab of three pages with objects of 48 bytes. The pages' places in the slab become known when their tables are
 * installed. The bounds of a slab tell when another slab is on the same pages later. */
static void test_where_small_objects_start(void **state)
{
    uintptr_t area = BASE + 14 * LEAF, slab = area + 64 * PAGE;
    (void)state;
    if (binding_page_bytes() != PAGE)
        skip(); /* slabs have more pages then */
    assert_int_equal(class_slab_pages[CODE_CLASS(class_of(48).code)], 3);
    for (uintptr_t page = slab; page < slab + 4 * PAGE; page += PAGE)
        pagemap_install(NULL, first_start_in(page, slab), class_of(48).code);
    for (uintptr_t p = slab; p < slab + 3 * PAGE; p++)
        assert_int_equal(is_known_start(p), (p - slab) % 48 == 0);
    slab += PAGE;
    for (uintptr_t page = slab; page < slab + 3 * PAGE; page += PAGE) {
        uintptr_t p = first_start_in(page, slab);
        assert_false(is_known_start(p));
        assert_true(pagemap_find_start(p)); /* without bounds the caller's class is taken as right */
        assert_false(pagemap_find_start(p + 1));
    }
    pagemap_bound(slab);
    pagemap_bound(slab + 3 * PAGE);
    for (uintptr_t page = slab; page < slab + 3 * PAGE; page += PAGE)
        assert_true(is_start(first_start_in(page, slab)));
    for (uintptr_t p = slab; p < slab + 3 * PAGE; p++)
        assert_int_equal(is_start(p), (p - slab) % 48 == 0);
    pagemap_bound(slab + PAGE); /* a slab that starts here is not of this class */
    assert_true(pagemap_find_start(slab + 16));
    pagemap_unbound_all(slab + PAGE, slab + 2 * PAGE);
    assert_false(pagemap_find_start(slab + 16));
    pagemap_unbound_all(area, area + 128 * PAGE);
    assert_true(pagemap_find_start(slab + 16));
    pagemap_release(area, 128 * PAGE);
}

static pthread_barrier_t together;

/* Threads have neighbouring leaves. */
static uint16_t value_of(uintptr_t p, uint32_t i)
{
    return (uint16_t)(p / LEAF << 14 | i);
}

static void *install_and_release(void *page)
{
    uintptr_t p = (uintptr_t)page;
    pthread_barrier_wait(&together);
    for (uint32_t i = 1; i <= 5000; i++) {
        uint64_t entry = pagemap_install(NULL, p, class_of(128).code);
        for (size_t at = 0; at < PAGE; at += 128)
            store_relaxed(page_entry_slot(entry, at), value_of(p, i));
        for (size_t at = 0; at < PAGE; at += 128)
            if (atomic_exchange(page_entry_slot(entry, at), 0) != value_of(p, i))
                return page;
        pagemap_release(p, PAGE);
    }
    return NULL;
}

/* No table belongs to two pages at once, and none is lost. */
static void test_threads_share_the_free_tables(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint64_t before = tables_used_bytes();
    (void)state;
    pthread_barrier_init(&together, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, install_and_release, (void *)(BASE + (20 + i) * LEAF)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(tables_used_bytes(), before);
    pthread_barrier_destroy(&together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_addresses_have_no_page),
        cmocka_unit_test(test_each_class_has_its_table),
        cmocka_unit_test(test_slots_are_distinct),
        cmocka_unit_test(test_tables_come_back_empty),
        cmocka_unit_test(test_a_page_changes_its_class),
        cmocka_unit_test(test_release_takes_its_range_only),
        cmocka_unit_test(test_big_entries),
        cmocka_unit_test(test_where_big_objects_start),
        cmocka_unit_test(test_where_small_objects_start),
        cmocka_unit_test(test_threads_share_the_free_tables),
    };
    return cmocka_run_group_tests(tests, pages_boot, NULL);
}
