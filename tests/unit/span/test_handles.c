/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles of open spans. Stale and invented handles, and those that are closed twice, are recognised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "base/lock.h"
#include "malloc/track.h"
#include "span/handles.h"

static jespan_span_t *open_handle(uint32_t context)
{
    lock(LOCK_TREE);
    jespan_span_t *span = handle_open(context, false, 0);
    unlock(LOCK_TREE);
    return span;
}

static uint32_t close_handle(jespan_span_t *span)
{
    lock(LOCK_TREE);
    uint32_t context = handle_close(span);
    unlock(LOCK_TREE);
    return context;
}

static void test_a_handle_leads_to_its_context_until_closed(void **state)
{
    (void)state;
    jespan_span_t *a = open_handle(7), *b = open_handle(7);
    assert_ptr_not_equal(a, b);
    assert_int_equal(handle_context(a), 7);
    assert_int_equal(close_handle(a), 7);
    assert_int_equal(handle_context(a), 0);
    assert_int_equal(close_handle(a), 0);
    assert_int_equal(handle_context(b), 7);
    assert_int_equal(close_handle(b), 7);
}

/* Many spans one after another in the same record. */
static void test_stale_handles_stay_stale(void **state)
{
    jespan_span_t *old[100];
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        old[i] = open_handle(100 + i);
        assert_int_equal((uint32_t)(uintptr_t)old[i], (uint32_t)(uintptr_t)old[0]);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_equal(handle_context(old[k]), 0);
            assert_int_equal(close_handle(old[k]), 0);
        }
        assert_int_equal(handle_context(old[i]), 100 + i);
        assert_int_equal(close_handle(old[i]), 100 + i);
    }
}

/* The right slot with a wrong generation, also with that of a closed slot, and wrong slots. */
static void test_invented_handles_are_none(void **state)
{
    (void)state;
    jespan_span_t *span = open_handle(9);
    uint64_t number = (uintptr_t)span, generation = (uint64_t)1 << 32;
    const uint64_t invented[] = {
        0, 1, generation, number + generation, number - generation, number + 2 * generation, number + 1, number - 1,
        (uint32_t)number, number | UINT32_MAX, UINT64_MAX,
        generation | 16384u * 1024u, generation | (16384u * 1024u + 1), /* the last possible slot, and one beyond */
    };
    for (int closed = 0; closed < 2; closed++) {
        for (size_t i = 0; i < sizeof invented / sizeof *invented; i++) {
            assert_int_equal(handle_context((jespan_span_t *)(uintptr_t)invented[i]), 0);
            assert_int_equal(close_handle((jespan_span_t *)(uintptr_t)invented[i]), 0);
        }
        assert_int_equal(close_handle(span), closed ? 0 : 9);
    }
}

/* Contexts get memory as they are made. There is memory for the first thousand at the start. */
static uint32_t context_of(uint32_t i)
{
    return 1 + i % 1000;
}

static void test_many_at_once(void **state)
{
    enum { COUNT = 5000 }; /* several chunks of slots */
    static jespan_span_t *spans[COUNT];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < COUNT; i++)
            spans[i] = open_handle(context_of(i));
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(handle_context(spans[i]), context_of(i));
        for (uint32_t i = 0; i < COUNT; i += 2)
            assert_int_equal(close_handle(spans[i]), context_of(i));
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(handle_context(spans[i]), i % 2 ? context_of(i) : 0);
        for (uint32_t i = 1; i < COUNT; i += 2)
            assert_int_equal(close_handle(spans[i]), context_of(i));
    }
    assert_in_range((uint32_t)(uintptr_t)open_handle(1), 1, COUNT + 2); /* the slots were reused */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_handle_leads_to_its_context_until_closed),
        cmocka_unit_test(test_stale_handles_stay_stale),
        cmocka_unit_test(test_invented_handles_are_none),
        cmocka_unit_test(test_many_at_once),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
