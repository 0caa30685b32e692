/* SPDX-License-Identifier: BSD-2-Clause */
/* Large objects that were freed: which are kept, and which go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "heap/depot.h"
#include "heap/large.h"

#define KIB ((size_t)1024)
#define BYTES_MAX (4096 * KIB)
#define OFTEN 20

static void *new_one(size_t usable)
{
    void *p = jespan_je_malloc(usable);
    assert_non_null(p);
    return p;
}

/* The class is allocated again and again, so that its objects are kept. */
static void want(size_t usable)
{
    for (int i = 0; i < OFTEN; i++)
        large_give(new_one(usable), usable); /* none is taken */
    for (int i = 0; i < OFTEN; i++) {
        void *p = large_take(usable);
        if (p)
            jespan_je_sdallocx(p, usable, 0);
    }
}

static int begin(void **state)
{
    (void)state;
    F(free)(F(malloc)(16)); /* jespan starts */
    large_give_back();
    return 0;
}

static void test_which_classes(void **state)
{
    (void)state;
    assert_false(large_is_kept(0));
    assert_false(large_is_kept(14 * KIB));
    assert_false(large_is_kept(32 * KIB));
    assert_true(large_is_kept(40 * KIB));
    assert_true(large_is_kept(1024 * KIB));
    assert_false(large_is_kept(1280 * KIB));
    assert_false(large_is_kept(SIZE_MAX));
}

/* Twenty classes, of which none is taken for another one. */
static void test_of_the_class(void **state)
{
    (void)state;
    size_t sizes[20], n = 0;
    for (size_t least = 32 * KIB; least < 1024 * KIB; least *= 2)
        for (size_t quarter = 1; quarter <= 4; quarter++)
            sizes[n++] = least + quarter * least / 4;
    assert_int_equal(n, 20);
    for (size_t i = 0; i < n; i++) {
        assert_true(large_is_kept(sizes[i]));
        want(sizes[i]);
        large_give_back();
        void *p = new_one(sizes[i]);
        large_give(p, sizes[i]);
        assert_int_equal(depot_bytes(), sizes[i]);
        for (size_t other = 0; other < n; other++)
            if (other != i)
                assert_null(large_take(sizes[other]));
        assert_ptr_equal(large_take(sizes[i]), p);
        assert_int_equal(depot_bytes(), 0);
        jespan_je_sdallocx(p, sizes[i], 0);
    }
}

/* A table that doubles, and whose former place is freed: nothing would be used again. */
static void test_what_only_grows_goes(void **state)
{
    (void)state;
    for (size_t bytes = 2 * LARGE_LEAST; bytes <= LARGE_MOST; bytes *= 2) {
        void *p = large_take(bytes);
        large_give(p ? p : new_one(bytes), bytes);
    }
    assert_int_equal(depot_bytes(), 0);
}

static void test_what_was_freed_last_comes_first(void **state)
{
    (void)state;
    want(64 * KIB);
    large_give_back();
    void *first = new_one(64 * KIB), *second = new_one(64 * KIB);
    large_give(first, 64 * KIB);
    large_give(second, 64 * KIB);
    assert_ptr_equal(large_take(64 * KIB), second);
    assert_ptr_equal(large_take(64 * KIB), first);
    assert_null(large_take(64 * KIB));
    jespan_je_sdallocx(first, 64 * KIB, 0);
    jespan_je_sdallocx(second, 64 * KIB, 0);
}

/* 4 MiB in all, and what was kept longest goes first. */
static void test_all_are_bounded(void **state)
{
    (void)state;
    want(1024 * KIB);
    want(320 * KIB);
    large_give_back();
    void *objects[5];
    for (int i = 0; i < 5; i++)
        large_give(objects[i] = new_one(1024 * KIB), 1024 * KIB);
    assert_int_equal(depot_bytes(), BYTES_MAX);
    large_give(new_one(320 * KIB), 320 * KIB);
    assert_int_equal(depot_bytes(), 3 * 1024 * KIB + 320 * KIB);
    for (int i = 4; i >= 2; i--)
        assert_ptr_equal(large_take(1024 * KIB), objects[i]);
    assert_null(large_take(1024 * KIB));
    for (int i = 2; i < 5; i++)
        jespan_je_sdallocx(objects[i], 1024 * KIB, 0);
}

/* 64 objects, also of the smallest class. */
static void test_as_many_as_there_may_be(void **state)
{
    (void)state;
    want(40 * KIB);
    large_give_back();
    for (int i = 0; i < 70; i++)
        large_give(new_one(40 * KIB), 40 * KIB);
    assert_int_equal(depot_bytes(), 64 * 40 * KIB);
}

/* Many small ones that nobody takes make room for larger ones. */
static void test_small_ones_make_room(void **state)
{
    (void)state;
    want(64 * KIB);
    want(1024 * KIB);
    large_give_back();
    for (int i = 0; i < 64; i++)
        large_give(new_one(64 * KIB), 64 * KIB);
    assert_int_equal(depot_bytes(), BYTES_MAX);
    void *p = NULL;
    for (int i = 0; i < 4; i++)
        large_give(p = new_one(1024 * KIB), 1024 * KIB);
    assert_ptr_equal(large_take(1024 * KIB), p);
    jespan_je_sdallocx(p, 1024 * KIB, 0);
}

/* What is freed and not allocated again is not kept for long. */
static void test_what_nobody_takes_is_not_kept_again(void **state)
{
    (void)state;
    want(512 * KIB);
    for (int i = 0; i < 4 * OFTEN; i++)
        large_give(new_one(512 * KIB), 512 * KIB);
    large_give_back();
    large_give(new_one(512 * KIB), 512 * KIB);
    assert_int_equal(depot_bytes(), 0);
}

static void test_given_back(void **state)
{
    (void)state;
    want(40 * KIB);
    for (int i = 0; i < 30; i++)
        large_give(new_one(40 * KIB), 40 * KIB);
    assert_true(large_give_back());
    assert_int_equal(depot_bytes(), 0);
    assert_false(large_give_back());
}

/* The call fails at first, and succeeds when something was given back. */
static int calls, fails;
static void *call(void)
{
    return ++calls > fails ? &calls : NULL;
}

static void test_again_without_memory(void **state)
{
    (void)state;
    want(40 * KIB);
    large_give(new_one(40 * KIB), 40 * KIB);
    calls = 0;
    fails = 1;
    assert_ptr_equal(LARGE_OR_AGAIN(call()), &calls);
    assert_int_equal(calls, 2);
    assert_int_equal(depot_bytes(), 0);
    calls = 0;
    assert_null(LARGE_OR_AGAIN(call())); /* nothing is kept */
    assert_int_equal(calls, 1);
}

static void test_closed(void **state)
{
    (void)state;
    want(40 * KIB);
    large_give(new_one(40 * KIB), 40 * KIB);
    assert_true(depot_bytes() > 0);
    depot_close();
    assert_int_equal(depot_bytes(), 0);
    large_give(new_one(40 * KIB), 40 * KIB);
    assert_int_equal(depot_bytes(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_which_classes, begin),
        cmocka_unit_test_setup(test_what_only_grows_goes, begin),
        cmocka_unit_test_setup(test_of_the_class, begin),
        cmocka_unit_test_setup(test_what_was_freed_last_comes_first, begin),
        cmocka_unit_test_setup(test_all_are_bounded, begin),
        cmocka_unit_test_setup(test_as_many_as_there_may_be, begin),
        cmocka_unit_test_setup(test_small_ones_make_room, begin),
        cmocka_unit_test_setup(test_what_nobody_takes_is_not_kept_again, begin),
        cmocka_unit_test_setup(test_given_back, begin),
        cmocka_unit_test_setup(test_again_without_memory, begin),
        cmocka_unit_test_setup(test_closed, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
