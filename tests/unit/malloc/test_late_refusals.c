/* SPDX-License-Identifier: BSD-2-Clause */
/* An allocation that a limit refuses late: the limit was set after the thread had looked for one. The refusal is
 * counted once, and leaves nothing behind. The test calls the functions that follow that moment. */
#include "malloc/alloc_policy.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "jespan/limit.h"

#include "../../support/booted.h"
#include "../../support/family.h"

enum { OBJECTS = 100, BYTES = 64 };

JESPAN_SITE(tenant_site, "tenant");
JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);

static jespan_span_t *span;
static uint32_t context;
static struct thread *self;

/* Some objects are live, others wait in the thread's magazine, and nothing more fits. */
static void begin(const struct jespan_site *site)
{
    void *objects[OBJECTS];
    span = jespan_open(site, JESPAN_ROOT, NULL, 0);
    assert_non_null(span);
    assert_int_equal(jespan_enter(span), 0);
    context = jespan_current();
    self = track_thread();
    for (int i = 0; i < OBJECTS; i++)
        assert_non_null(objects[i] = F(malloc)(BYTES));
    for (int i = 0; i < OBJECTS; i++)
        F(free)(objects[i]);
    track_flush_any(self);
    assert_int_equal(jespan_set_limit(context, 0, BYTES - 1), 0);
}

static uint64_t inuse(void)
{
    struct totals t = tree_totals(context);
    return totals_inuse_bytes(&t);
}

static void check_refused(void *p, uint64_t refusals)
{
    struct limit_figures figures;
    assert_null(p);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(limits_get(context, &figures), 0);
    assert_int_equal(figures.refusals, refusals);
    assert_int_equal(figures.inuse_bytes, 0);
    assert_int_equal(inuse(), 0);
    assert_int_equal(self->n_held, 0);
    errno = 0;
}

static void end(void)
{
    assert_int_equal(jespan_set_limit(context, 0, 0), 0);
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
}

static void test_after_reuse(void **state)
{
    (void)state;
    begin(&tenant_site);
    for (uint64_t i = 1; i <= 5; i++)
        check_refused(alloc_without_arena(self, BYTES, 0), i);
    end();
}

static void test_after_jemalloc(void **state)
{
    (void)state;
    begin(&tenant_site);
    for (uint64_t i = 1; i <= 5; i++)
        check_refused(alloc_without_arena(self, (size_t)1 << (6 + 2 * i), 0), i);
    end();
}

static void test_in_an_arena(void **state)
{
    (void)state;
    begin(&cache_site);
    uint16_t arena = load_relaxed(&context_heads[context].arena);
    for (uint64_t i = 1; i <= 5; i++)
        check_refused(alloc_in_arena(self, arena, i % 2 ? BYTES : BYTES << i, 0), i);
    check_refused(alloc_without_cache(self, arena, BYTES, 0), 6);
    struct arena_sums sums = arena_cache_sums(arena);
    assert_int_equal(sums.alloc_objects, sums.free_objects);
    assert_int_equal(sums.alloc_bytes, sums.free_bytes);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_reuse),
        cmocka_unit_test(test_after_jemalloc),
        cmocka_unit_test(test_in_an_arena),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
