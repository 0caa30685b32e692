/* SPDX-License-Identifier: BSD-2-Clause */
/* An exception leaves a region while another thread frees an exception that lies there, at the worst moment: after it was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "malloc/track_slow.h"

static bool free_and_keep(const struct object_place *place, uint16_t arena);
#define track_keep free_and_keep
#include "malloc/region_exceptions.c"
#undef track_keep

#include "../../support/booted.h"
#include "../../support/family.h"

JESPAN_SITE_ARENA(site, "region", JESPAN_ARENA_REGION);

/* libstdc++'s, as far as jespan looks. */
static struct globals {
    const void *caught;
    unsigned uncaught;
} globals;
struct globals *__cxa_get_globals(void);
struct globals *__cxa_get_globals(void)
{
    return &globals;
}

static uint64_t *exception; /* of another thread */
static bool frees;

static bool free_and_keep(const struct object_place *place, uint16_t arena)
{
    if (frees)
        F(free)(exception);
    return track_keep(place, arena);
}

static uint64_t *make_exception(size_t bytes)
{
    uint64_t *p = F(calloc)(1, bytes);
    assert_non_null(p);
    p[0] = 1;               /* references */
    p[2] = (uintptr_t)p;    /* its type */
    p[EXCEPTION_CLASS_AT] = EXCEPTION_CLASS_GNU;
    p[EXCEPTION_CLASS_AT + 1] = (uintptr_t)p; /* cleanup */
    return p;
}

static void leave_by_exception(size_t bytes)
{
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    assert_non_null(span);
    assert_int_equal(jespan_enter(span), 0);
    assert_non_null(F(malloc)(100));
    exception = make_exception(bytes);
    globals.uncaught = 1;
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
    globals.uncaught = 0;
}

static void tidy(void)
{
    assert_int_equal(jespan_close(jespan_open(&site, JESPAN_ROOT, NULL, 0)), 0);
}

static void check(size_t bytes)
{
    frees = false;
    leave_by_exception(bytes);
    tidy();
    assert_int_equal(regions_stats().set_aside, 1);
    assert_true(track_is_survivor(exception));
    F(free)(exception);
    tidy();
    assert_int_equal(regions_stats().set_aside, 0);

    frees = true;
    leave_by_exception(bytes);
    assert_int_equal(track_context(exception), 0);
    tidy();
    assert_int_equal(regions_stats().set_aside, 0);
}

static void test_small(void **state)
{
    (void)state;
    check(EXCEPTION_BYTES_MIN + 16);
}

static void test_big(void **state)
{
    (void)state;
    check(20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_big),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
