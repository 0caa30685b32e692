/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of size classes, compared with jemalloc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap/classes.h"
#include "jemalloc/binding.h"

static int boot(void **state)
{
    (void)state;
    classes_boot();
    return 0;
}

static void test_every_size_is_of_jemallocs_class(void **state)
{
    (void)state;
    for (size_t size = 1; size <= HEADER_PAGE_BYTES; size++) {
        size_t usable = jespan_je_nallocx(size, 0);
        struct class_info info = class_of(size);
        if (usable > HEADER_PAGE_BYTES) {
            assert_int_equal(info.code, CODE_BIG);
            continue;
        }
        assert_int_equal(info.bytes, usable);
        assert_int_equal(class_bytes[CODE_CLASS(info.code)], usable);
    }
}

static void test_no_bytes_are_as_many_as_malloc_gives(void **state)
{
    (void)state;
    void *p = jespan_je_malloc(0);
    assert_int_equal(class_of(0).bytes, jespan_je_sallocx(p, 0));
    assert_int_equal(class_of(0).code, class_of(1).code);
    jespan_je_dallocx(p, 0);
}

/* An aligned request has the class that jemalloc takes, or none. */
static void test_an_aligned_request_is_of_jemallocs_class(void **state)
{
    (void)state;
    unsigned classed = 0;
    for (int lg = 0; lg <= HEADER_PAGE_BITS + 1; lg++) {
        for (size_t size = 1; size <= HEADER_PAGE_BYTES + 8; size++) {
            size_t usable = jespan_je_nallocx(size, MALLOCX_LG_ALIGN(lg));
            struct class_info info = class_of_aligned_request((size_t)1 << lg, size);
            if (usable > HEADER_PAGE_BYTES)
                assert_int_equal(info.code, CODE_BIG);
            else
                assert_int_equal(info.bytes, usable);
            classed += info.code != CODE_BIG;
        }
    }
    assert_in_range(classed, 10 * (HEADER_PAGE_BYTES / 2), UINT32_MAX);
}

static void test_an_odd_alignment_has_no_class(void **state)
{
    static const size_t odd[] = {0, 3, 24, 96, 4095, HEADER_PAGE_BYTES * 2, SIZE_MAX, SIZE_MAX / 2 + 1};
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (size_t size = 0; size <= HEADER_PAGE_BYTES; size++)
            assert_int_equal(class_of_aligned_request(odd[i], size).code, CODE_BIG);
    for (size_t alignment = 1; alignment <= HEADER_PAGE_BYTES; alignment *= 2)
        for (size_t below = 0; below < 2 * alignment; below++)
            assert_int_equal(class_of_aligned_request(alignment, SIZE_MAX - below).code, CODE_BIG);
    assert_int_equal(class_of_aligned_request(64, 0).code, CODE_BIG);
}

/* Usable sizes are looked up like requests. */
static void test_a_usable_size_is_of_its_own_class(void **state)
{
    (void)state;
    unsigned n = 1;
    for (; class_bytes[n] && class_bytes[n] <= HEADER_PAGE_BYTES; n++) {
        assert_int_equal(CODE_CLASS(class_of(class_bytes[n]).code), n);
        assert_true(class_bytes[n] > class_bytes[n - 1]);
    }
    assert_in_range(n, 10, CLASSES_MAX - 1);
    assert_int_equal(class_bytes[0], 0);
    assert_int_equal(class_bytes[n - 1], HEADER_PAGE_BYTES);
}

/* For a whole page it is one less. */
static void test_the_shift_is_the_logarithm(void **state)
{
    (void)state;
    for (size_t size = 1; class_of(size).code != CODE_BIG; size++) {
        struct class_info info = class_of(size);
        unsigned shift = CODE_SLOT_SHIFT(info.code);
        assert_int_equal((uint8_t)info.code & ~CODE_SHIFT_MASK, 0);
        assert_in_range(info.bytes, 1u << shift, info.bytes < HEADER_PAGE_BYTES ? (2u << shift) - 1 : HEADER_PAGE_BYTES);
        assert_in_range(shift, 3, HEADER_PAGE_BITS - 1);
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* Headers rely on this: two objects never start in the same slot. */
static void test_objects_start_at_least_a_slot_apart(void **state)
{
    enum { COUNT = 1500 };
    static uintptr_t objects[COUNT];
    (void)state;
    for (unsigned n = 1; class_bytes[n] && class_bytes[n] <= HEADER_PAGE_BYTES; n++) {
        size_t slot_bytes = (size_t)1 << CODE_SLOT_SHIFT(class_of(class_bytes[n]).code);
        for (int i = 0; i < COUNT; i++)
            objects[i] = (uintptr_t)jespan_je_malloc(class_bytes[n]);
        qsort(objects, COUNT, sizeof *objects, by_address);
        for (int i = 1; i < COUNT; i++)
            assert_true(objects[i] / slot_bytes > objects[i - 1] / slot_bytes);
        for (int i = 0; i < COUNT; i++)
            jespan_je_dallocx((void *)objects[i], 0);
    }
}

/* In a slab of eight pages, at every address. The place that a page has by any of its objects is that of all of them. */
static void test_where_objects_start(void **state)
{
    (void)state;
    for (unsigned n = 1; class_bytes[n] && class_bytes[n] <= HEADER_PAGE_BYTES; n++) {
        for (size_t at = 0; at < 8 * HEADER_PAGE_BYTES; at++) {
            size_t page = at & ~(HEADER_PAGE_BYTES - 1), before = page / class_bytes[n] * class_bytes[n];
            uint32_t place = class_place(n, (int32_t)before - (int32_t)page);
            assert_in_range(place, 0, CLASS_PLACE_UNKNOWN - 1);
            if (at % class_bytes[n] == 0)
                assert_int_equal(class_place(n, (int32_t)(at - page)), place);
            assert_int_equal(class_starts_at(place << CLASS_BITS | n, (uint32_t)(at - page)), at % class_bytes[n] == 0);
            assert_false(class_starts_at(CLASS_PLACE_UNKNOWN << CLASS_BITS | n, (uint32_t)(at - page)));
        }
    }
}

/* Their objects stay what they are until they are freed, and at most one starts in a page. */
static void test_middle_classes_are_slabs(void **state)
{
    unsigned n = class_of_big(HEADER_PAGE_BYTES + 1);
    (void)state;
    assert_int_equal(class_bytes[n - 1], HEADER_PAGE_BYTES);
    for (; class_bytes[n]; n++) {
        void *p = jespan_je_malloc(class_bytes[n]);
        assert_int_equal(jespan_je_xallocx(p, class_bytes[n] + 1, 0, 0), class_bytes[n]);
        assert_int_equal(jespan_je_xallocx(p, 1, 0, 0), class_bytes[n]);
        jespan_je_dallocx(p, 0);
    }
    assert_int_equal(class_bytes[n - 1], 14336);
}

/* As jemalloc says. */
static void test_big_sizes(void **state)
{
    (void)state;
    for (size_t size = HEADER_PAGE_BYTES + 1; size <= 70000; size++) {
        size_t usable = jespan_je_nallocx(size, 0), class = class_of_big(size);
        assert_int_equal(class_big_bytes(size), usable);
        if (usable <= 14336)
            assert_int_equal(class_bytes[class], usable);
        else
            assert_int_equal(class, 0);
    }
    for (size_t size = 70000; size < (size_t)1 << 32; size += size / 17)
        assert_true(class_big_bytes(size) == jespan_je_nallocx(size, 0) || (size > class_known_bytes && !class_big_bytes(size)));
    for (size_t size = 0; size <= HEADER_PAGE_BYTES; size++)
        assert_int_equal(class_of_big(size), 0);
    assert_int_equal(class_of_big(SIZE_MAX), 0);
    assert_int_equal(class_big_bytes(SIZE_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_is_of_jemallocs_class),
        cmocka_unit_test(test_no_bytes_are_as_many_as_malloc_gives),
        cmocka_unit_test(test_an_aligned_request_is_of_jemallocs_class),
        cmocka_unit_test(test_an_odd_alignment_has_no_class),
        cmocka_unit_test(test_a_usable_size_is_of_its_own_class),
        cmocka_unit_test(test_the_shift_is_the_logarithm),
        cmocka_unit_test(test_objects_start_at_least_a_slot_apart),
        cmocka_unit_test(test_where_objects_start),
        cmocka_unit_test(test_middle_classes_are_slabs),
        cmocka_unit_test(test_big_sizes),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
