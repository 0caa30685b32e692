/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow without moving: each byte is zero at first and stays, wherever the array lies. No huge pages for any of jespan's
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/meta.h"

#define PAGE ((size_t)4096)

/* Begins an array of `most` bytes, grows it step by step, and looks at each byte. */
static struct meta_array grow_and_check(size_t most)
{
    struct meta_array a;
    assert_int_equal(meta_array_begin(&a, most), 0);
    char *start = a.start;
    for (size_t have = 0, want = 1; have < most; want = 3 * want + 1) {
        want = want < most ? want : most;
        assert_true(meta_array_grow(&a, want));
        assert_ptr_equal(a.start, start);
        for (; have < want; have++) {
            assert_int_equal(start[have], 0);
            start[have] = (char)(have * 7 + 1);
        }
    }
    for (size_t i = 0; i < most; i++)
        assert_int_equal((unsigned char)start[i], (unsigned char)(i * 7 + 1));
    return a;
}

static void test_arrays_of_odd_sizes(void **state)
{
    (void)state;
    const size_t sizes[] = {1, PAGE - 1, PAGE, PAGE + 1, 10000, (size_t)3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        grow_and_check(sizes[i]);
}

static void test_hot_bytes_begin_a_range(void **state)
{
    (void)state;
    const size_t sizes[] = {PAGE, 17 * PAGE, 3 * META_RANGE_BYTES / 2, 2 * META_RANGE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t hot = 0; hot < sizes[i]; hot += 16 * PAGE) {
            uint64_t before = meta_map_bytes();
            char *p = meta_map_hot(sizes[i], hot);
            assert_non_null(p);
            assert_int_equal((uintptr_t)(p + hot) % META_RANGE_BYTES, 0);
            assert_int_equal(meta_map_bytes() - before, sizes[i]);
            assert_int_equal(p[0] | p[hot] | p[sizes[i] - 1], 0);
            memset(p, 1, sizes[i]);
            meta_unmap(p, sizes[i]);
            assert_int_equal(meta_map_bytes(), before);
        }
    }
}

/* Arrays lie at addresses that follow from those before. Something else is there first. The very first array may lie right behind
 * the loader. */
static void test_arrays_whose_addresses_are_taken(void **state)
{
    (void)state;
    grow_and_check(PAGE);
    const struct meta_array a = grow_and_check(PAGE), b = grow_and_check(PAGE);
    char *next = b.start + (b.start - a.start);
    assert_ptr_equal(mmap(next, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), next);
    const size_t sizes[] = {1, PAGE + 1, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_ptr_not_equal(grow_and_check(sizes[i]).start, next);
    munmap(next, PAGE);
    assert_ptr_equal(grow_and_check(PAGE).start, next);
}

/* Growth ends where something else is, and what there is stays. */
static void test_an_array_stops_at_another_mapping(void **state)
{
    (void)state;
    struct meta_array a;
    assert_int_equal(meta_array_begin(&a, 16 * PAGE), 0);
    char *there = a.start + 4 * PAGE;
    assert_ptr_equal(mmap(there, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), there);
    assert_true(meta_array_grow(&a, 4 * PAGE));
    a.start[4 * PAGE - 1] = 1;
    assert_false(meta_array_grow(&a, 5 * PAGE));
    assert_int_equal(a.start[4 * PAGE - 1], 1);
    munmap(there, PAGE);
    assert_true(meta_array_grow(&a, 16 * PAGE));
}

/* Whether the kernel may back the address with a huge page: "nh" in the flags of its mapping says that it may not. */
static bool may_be_huge(const void *address)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    char line[4096];
    bool is_here = false, may = true;
    while (fgets(line, sizeof line, smaps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            is_here = start <= (uintptr_t)address && (uintptr_t)address < end;
        if (is_here && !strncmp(line, "VmFlags:", 8))
            may = !strstr(line, " nh");
    }
    fclose(smaps);
    return may;
}

/* Else a program takes megabytes more where the system gives huge pages to all. */
static void test_no_huge_pages(void **state)
{
    (void)state;
    struct meta_array a;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
        skip(); /* a kernel without huge pages */
    assert_int_equal(meta_array_begin(&a, 4096 * PAGE), 0);
    assert_true(meta_array_grow(&a, 2048 * PAGE));
    assert_false(may_be_huge(a.start));
    assert_false(may_be_huge(a.start + 2047 * PAGE));
    char *map = meta_map(2048 * PAGE), *small = meta_alloc(100), *other = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(may_be_huge(map));
    assert_false(may_be_huge(small));
    assert_true(may_be_huge(other));
    munmap(other, PAGE);
    meta_unmap(map, 2048 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_of_odd_sizes),
        cmocka_unit_test(test_hot_bytes_begin_a_range),
        cmocka_unit_test(test_arrays_whose_addresses_are_taken),
        cmocka_unit_test(test_an_array_stops_at_another_mapping),
        cmocka_unit_test(test_no_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
