/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a reporter add up to the snapshots, to the byte, in the promised order, while contexts are recycled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/told.h"
#include "base/meta.h"
#include "malloc/track.h"
#include "report/reporter_session.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "max_contexts:64";

static struct told told;
static struct jespan_reporter reporter;
static struct reporter_told *session;

static int boot(void **state)
{
    (void)state;
    snapshot_start_clock();
    return track_thread() ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    memset(&told, 0, sizeof told);
    reporter = told_reporter(&told, "test");
    session = reporter_told_make(TOLD_SPANS);
    told_init(&told);
    return session ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    reporter_told_free(session);
    return 0;
}

static void assert_promises(void)
{
    if (told.wrong)
        fail_msg("%s", told.wrong);
}

static void tell(const struct snapshot *s)
{
    assert_int_equal(reporter_tell(session, s, &reporter), 0);
    assert_promises();
}

/* Times are rounded in each row, and shrink by millionths when the clock is measured better: nanoseconds a span. */
static void assert_time_adds_up(uint64_t is, uint64_t all)
{
    assert_in_range(is, all, all + 4 * told.opened);
}

/* Without a system call, time that an interrupt or another virtual machine took counts until the kernel is asked next, and
 * what was told by then stays told. */
static void assert_cpu_adds_up(uint64_t is, uint64_t all)
{
    assert_in_range(is, all, all + all / 10 + 10000000);
}

static void assert_adds_up(const struct totals *all)
{
    const struct jespan_allocations *a = &told.allocations;
    assert_int_equal(a->alloc_objects, all->alloc_objects);
    assert_int_equal(a->alloc_bytes, all->alloc_bytes);
    assert_int_equal(a->alloc_requested_bytes, all->alloc_requested_bytes);
    assert_int_equal(a->free_objects, all->free_objects);
    assert_int_equal(a->free_bytes, all->free_bytes);
    assert_int_equal(a->credited_in_objects, all->credited_in_objects);
    assert_int_equal(a->credited_in_bytes, all->credited_in_bytes);
    assert_int_equal(a->credited_out_objects, all->credited_out_objects);
    assert_int_equal(a->credited_out_bytes, all->credited_out_bytes);
    assert_int_equal(told.heap_objects, totals_inuse_objects(all));
    assert_int_equal(told.heap_bytes, totals_inuse_bytes(all));
    assert_int_equal(told.wall.opens, all->opens);
    assert_int_equal(told.wall.enters, all->enters);
    assert_time_adds_up(told.wall.wall_ns, all->wall);
    assert_time_adds_up(told.wall.busy_ns, all->busy);
    assert_cpu_adds_up(told.cpu.cpu_ns, all->cpu);
    assert_cpu_adds_up(told.cpu.system_ns, all->cpu_system);
}

/* ---- With what the library makes ---- */

static void *held[97];

/* Spans in spans, some of which leave memory behind for a while. */
static void one_request(unsigned n)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    JESPAN("request", "number", text, "parity", n % 2 ? "odd" : "even");
    void **keep = &held[n % 97];
    F(free)(*keep);
    *keep = n % 5 ? NULL : F(malloc)(n % 3000);
    JESPAN("part");
    F(free)(F(malloc)(100 + n % 1000));
    for (unsigned i = 0; i < n % 4; i++) {
        JESPAN("detail", "number", i % 2 ? "1" : text);
        *keep = F(realloc)(*keep, 1 + n * 7 % 5000);
    }
}

static void test_sums_are_exact_while_contexts_are_recycled(void **state)
{
    struct snapshot *s = NULL;
    (void)state;
    for (unsigned n = 0; n < 3000; n++) {
        one_request(n);
        if (n % (1 + n % 13))
            continue;
        s = snapshot_retake(s);
        assert_non_null(s);
        tell(s);
        assert_adds_up(&s->all);
    }
    assert_true(told.closed > 500);
    assert_int_equal(told.opened - told.closed, s->n_rows + 1); /* and "(retired)" */
    assert_true(told.spans[0].allocations.alloc_objects > 100);
    assert_true(told.wall.opens > 3000 && told.wall.busy_ns > 1000000 && told.cpu.cpu_ns > 100000);
    snapshot_free(s);
    for (unsigned i = 0; i < 97; i++) {
        F(free)(held[i]);
        held[i] = NULL;
    }
}

/* A reporter that is registered late is told everything too. */
static void test_the_first_round_has_what_was_before(void **state)
{
    (void)state;
    one_request(5);
    struct snapshot *s = snapshot_take();
    tell(s);
    assert_adds_up(&s->all);
    assert_true(s->retired.alloc_objects > 0);
    assert_true(told.spans[0].allocations.alloc_objects == s->retired.alloc_objects);
    uint64_t opened = told.opened;
    tell(s); /* nothing new */
    assert_adds_up(&s->all);
    assert_int_equal(told.opened, opened);
    snapshot_free(s);
}

static void test_any_callback_may_be_missing(void **state)
{
    const struct jespan_reporter none = {.size = sizeof none, .name = "none"};
    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        one_request(n);
        struct snapshot *s = snapshot_take();
        assert_int_equal(reporter_tell(session, s, &none), 0);
        snapshot_free(s);
    }
}

/* The memory for many labels of all lengths is bounded. */
static void test_labels_need_bounded_memory(void **state)
{
    char text[256];
    uint64_t before = 0;
    (void)state;
    for (unsigned n = 0; n < 4000; n++) {
        memset(text, 'a' + (int)(n % 26), n % 255);
        snprintf(text + n % 200, 16, "%u", n);
        {
            JESPAN("long", "text", text, "and", text);
        }
        struct snapshot *s = snapshot_take();
        tell(s);
        snapshot_free(s);
        if (n == 1000)
            before = meta_map_bytes();
    }
    assert_true(meta_map_bytes() <= before);
}

/* ---- With snapshots made by hand ---- */

enum { ROWS = 5000 };
static struct snapshot_row rows[ROWS];

static struct snapshot_row row(uint32_t id, uint32_t generation, uint32_t parent_row, uint64_t allocs, uint64_t frees)
{
    return (struct snapshot_row){.id = id, .generation = generation, .parent_row = parent_row,
                                 .kind = id == 1 ? CONTEXT_ROOT : CONTEXT_SPAN, .name = "made", .target = "",
                                 .file = "", .totals = {.alloc_objects = allocs, .free_objects = frees,
                                                        .wall = allocs, .busy = frees}};
}

static void tell_rows(uint32_t n, uint64_t retired)
{
    tell(&(struct snapshot){.rows = rows, .n_rows = n, .retired = {.alloc_objects = retired, .free_objects = retired}});
}

/* Ids rise from the leaf to the root's child: nothing but links, and far too deep for recursion on a small stack. */
static void test_parents_with_higher_numbers(void **state)
{
    (void)state;
    rows[0] = row(1, 0, 0, 0, 0);
    for (uint32_t i = 1; i < ROWS; i++)
        rows[i] = row(i + 1, 0, i + 1 < ROWS ? i + 1 : 0, 1, 1);
    tell_rows(ROWS, 0);
    assert_int_equal(told.opened, ROWS + 1);
    assert_int_equal(told.allocations.alloc_objects, ROWS - 1);
    for (uint32_t i = 1; i < ROWS; i++) /* all are gone, and the numbers taken again at once */
        rows[i] = row(i + 1, 2, i - 1, 1, 0);
    tell_rows(ROWS, ROWS - 1);
    assert_int_equal(told.closed, ROWS - 1);
    assert_int_equal(told.opened, 2 * ROWS);
    assert_int_equal(told.allocations.alloc_objects, 2 * (ROWS - 1));
    assert_int_equal(told.heap_objects, ROWS - 1);
}

/* A free that was seen in a buffer, then on its way, then in a counter. */
static void test_a_figure_that_falls_is_told_once(void **state)
{
    static const uint64_t frees[] = {3, 5, 4, 4, 5, 6, 2, 7};
    (void)state;
    rows[0] = row(1, 0, 0, 0, 0);
    for (unsigned i = 0; i < sizeof frees / sizeof *frees; i++) {
        rows[1] = row(2, 0, 0, 10, frees[i]);
        tell_rows(2, 0);
    }
    assert_int_equal(told.allocations.free_objects, 7);
    assert_int_equal(told.allocations.alloc_objects, 10);
    assert_int_equal(told.heap_objects, 3);
    assert_int_equal(told.wall.wall_ns, 10);
    assert_int_equal(told.wall.busy_ns, 7);
}

/* 4 objects were told of it, 6 more were seen by nobody before it was recycled, beside 5 of another. */
static void test_what_a_gone_span_did_unseen_is_told_of_retired(void **state)
{
    (void)state;
    rows[0] = row(1, 0, 0, 0, 0);
    rows[1] = row(2, 0, 0, 4, 1);
    tell_rows(2, 0);
    assert_int_equal(told.heap_objects, 3);
    tell_rows(1, 10 + 5);
    assert_int_equal(told.closed, 1);
    assert_int_equal(told.spans[0].allocations.alloc_objects, 6 + 5);
    assert_int_equal(told.spans[0].allocations.free_objects, 9 + 5);
    assert_int_equal(told.allocations.alloc_objects, 15);
    assert_int_equal(told.allocations.free_objects, 15);
    assert_int_equal(told.heap_objects, 0);
}

#define LEDGER_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(test_sums_are_exact_while_contexts_are_recycled),
        LEDGER_TEST(test_the_first_round_has_what_was_before),
        LEDGER_TEST(test_any_callback_may_be_missing),
        LEDGER_TEST(test_labels_need_bounded_memory),
        LEDGER_TEST(test_parents_with_higher_numbers),
        LEDGER_TEST(test_a_figure_that_falls_is_told_once),
        LEDGER_TEST(test_what_a_gone_span_did_unseen_is_told_of_retired),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
