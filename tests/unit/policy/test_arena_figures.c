/* SPDX-License-Identifier: BSD-2-Clause */
/* An arena's figures start at 0 when it serves another site, also while a thread is counting the last free in it.
 *
 * The moment is within the thread's flush: the free has left the buffer for readers, and no counter has it yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <jespan/jespan.h>

#include "base/compiler.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"

#include "../../support/booted.h"
#include "../../support/family.h"

enum { BYTES = 1024 };

JESPAN_SITE_ARENA(first_site, "first", JESPAN_ARENA);
JESPAN_SITE_ARENA(second_site, "second", JESPAN_ARENA);

static uint64_t figure(uint16_t arena, const char *leaf)
{
    char name[64];
    uint64_t value = UINT64_MAX;
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "spans.arenas.%u.%s", (unsigned)arena, leaf);
    assert_int_equal(F(mallctl)(name, &value, &bytes, NULL, 0), 0);
    return value;
}

static void expect_nothing(uint16_t arena)
{
    static const char *const leaves[] = {"inuse_objects", "inuse_bytes", "alloc_objects", "alloc_bytes", "free_objects", "free_bytes"};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        assert_int_equal(figure(arena, leaves[i]), 0);
}

/* Allocates two objects in an arena of the site's, which must have none. The object allocated last would be freed at
 * once, so it is freed first. */
static uint16_t allocate_in(const struct jespan_site *site, void **object)
{
    jespan_span_t *span = jespan_open(site, JESPAN_ROOT, NULL, 0);
    assert_int_equal(jespan_enter(span), 0);
    *object = F(malloc)(BYTES);
    F(free)(F(malloc)(BYTES));
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
    return arenas_find(*object);
}

static void test_a_free_that_is_being_counted(void **state)
{
    void *in_first, *in_second;
    struct thread *t = track_thread();
    (void)state;
    uint16_t first = allocate_in(&first_site, &in_first), second = allocate_in(&second_site, &in_second);
    assert_true(first && second && first != second);
    thread_cache_flush(t);
    F(free)(in_first);
    assert_int_equal(load_relaxed(&t->free_buffer_count), 1);
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    lock(LOCK_TREE);
    store_relaxed(&t->free_buffer_sequence, sequence + 1);
    arenas_rename(first, arenas[second].site);
    unlock(LOCK_TREE);
    assert_int_equal(figure(first, "free_objects"), 0);
    assert_int_equal(figure(first, "free_bytes"), 0);
    store_relaxed(&t->free_buffer_sequence, sequence);
    expect_nothing(first);
    thread_cache_flush(t);
    expect_nothing(first);
    F(free)(in_second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_that_is_being_counted),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
