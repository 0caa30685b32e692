/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls in the figures that are pushed: what stacks have in a period stands below their span, the rest stays with the span, and the sum is
 * what the span has. test_push_calls_memory.c has missing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/check.h"
#include "../../support/made_snapshot.h"
#include "exporters/push_calls.h"

/* Frames by number: main, which calls load and serve, which calls load too. */
enum { NONE, MAIN, LOAD, SERVE, SERVE_LOAD, N_FRAMES };

static const struct stack_frame frames[N_FRAMES] = {
    [MAIN] = {0x1001, NONE, 0}, [LOAD] = {0x1101, MAIN, 0}, [SERVE] = {0x1201, MAIN, 0}, [SERVE_LOAD] = {0x1101, SERVE, 0}};

static const struct snapshot_label labels[] = {{"route", "/a", false}};
static const struct digest_shape shape = {.labels = "route"};
static const struct service_host no_names;
static uint64_t epoch;

static struct totals figures(uint64_t alloc_objects, uint64_t alloc_bytes, uint64_t free_objects, uint64_t free_bytes)
{
    return (struct totals){.alloc_objects = alloc_objects, .alloc_bytes = alloc_bytes, .alloc_requested_bytes = alloc_bytes,
                           .free_objects = free_objects, .free_bytes = free_bytes};
}

static void grow(struct totals *t, uint64_t alloc_objects, uint64_t alloc_bytes, uint64_t free_objects, uint64_t free_bytes)
{
    const struct totals more = figures(alloc_objects, alloc_bytes, free_objects, free_bytes);
    totals_add(t, &more);
}

/* The program's only span, with the number and the figures of its context. */
struct moment {
    uint32_t generation;
    struct totals span;
    struct snapshot_stack stacks[3];
    uint32_t n_stacks;
};

/* ---- What is pushed ---- */

static struct push_period {
    struct period *period;
    struct period_stacks stacks;
} pushed;

static void take_name(char *to, size_t bytes, const struct snapshot *view, uint32_t row)
{
    char inner[256] = "";
    to[0] = '\0';
    for (uint32_t i = row; view->rows[i].parent_row != i; i = view->rows[i].parent_row) {
        snprintf(to, bytes, "%s%s%s", view->rows[i].name, inner[0] ? "/" : "", inner);
        snprintf(inner, sizeof inner, "%s", to);
    }
}

static struct digest *last;

/* Ends a period. Its figures are then in `last`. */
static void end_with(const struct moment *m, const struct service_host *host)
{
    struct snapshot_row rows[] = {
        {.id = 1, .kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = ""},
        {.id = 2, .generation = m->generation, .kind = CONTEXT_SPAN, .name = "request", .target = "", .file = "", .labels = labels,
         .n_labels = 1, .totals = m->span}};
    struct snapshot *s = made_snapshot_of(rows, 2);
    struct push_calls calls;
    s->epoch = ++epoch;
    s->stacks = m->stacks;
    s->n_stacks = m->n_stacks;
    s->frames = frames;
    s->n_frames = N_FRAMES;
    digest_free(last);
    last = digest_make(&shape);
    assert_int_equal(push_calls_make(&calls, pushed.period, &pushed.stacks, s), 0);
    push_calls_find(&calls);
    assert_int_equal(push_calls_lack_names(&calls, host), 0);
    push_calls_add(&calls, host, last);
    push_calls_free(&calls);
    made_snapshot_free(s);
}

static void end(const struct moment *m)
{
    end_with(m, &no_names);
}

/* Returns the figures of the node with this path as text: "OBJECTS BYTES allocated, OBJECTS BYTES in use". Its label is the span's. */
static const char *has(const char *path)
{
    static char text[128];
    char name[256];
    const struct snapshot *view = digest_view(last);
    for (uint32_t i = 1; i < view->n_rows; i++) {
        const struct snapshot_row *row = &view->rows[i];
        take_name(name, sizeof name, view, i);
        if (strcmp(name, path) != 0 || row->n_labels == 0)
            continue;
        assert_string_equal(row->labels[0].value, "/a");
        snprintf(text, sizeof text, "%u %u allocated, %u %u in use", (unsigned)row->totals.alloc_objects, (unsigned)row->totals.alloc_bytes,
                 (unsigned)totals_inuse_objects(&row->totals), (unsigned)totals_inuse_bytes(&row->totals));
        return text;
    }
    return "none";
}

/* The calls have no names, so they stand there as addresses. */
#define P_MAIN "request/0x1000"
#define P_LOAD "request/0x1000/0x1100"
#define P_SERVE_LOAD "request/0x1000/0x1200/0x1100"

static int begin_each(void **state)
{
    (void)state;
    pushed.period = period_make();
    return pushed.period ? 0 : -1;
}

static int end_each(void **state)
{
    (void)state;
    period_free(pushed.period);
    period_stacks_free(&pushed.stacks);
    digest_free(last);
    last = NULL;
    return 0;
}

/* ---- The tests ---- */

static struct moment one = {
    .span = {.alloc_objects = 10, .alloc_bytes = 1000, .alloc_requested_bytes = 1000, .free_objects = 4, .free_bytes = 400}, .n_stacks = 2};

static struct moment first(void)
{
    struct moment m = one;
    m.stacks[0] = (struct snapshot_stack){.row = 1, .frame = LOAD, .totals = figures(5, 500, 2, 200)};
    m.stacks[1] = (struct snapshot_stack){.row = 1, .frame = SERVE_LOAD, .totals = figures(3, 300, 0, 0)};
    return m;
}

static void test_calls_stand_below_their_span(void **state)
{
    (void)state;
    struct moment m = first();
    end(&m);
    assert_string_equal(has(P_LOAD), "5 500 allocated, 3 300 in use");
    assert_string_equal(has(P_SERVE_LOAD), "3 300 allocated, 3 300 in use");
    assert_string_equal(has("request"), "2 200 allocated, 0 0 in use"); /* the rest: without a stack */
    assert_string_equal(has(P_MAIN), "none");                           /* it allocates nothing itself */
}

static void test_a_period_has_what_is_new(void **state)
{
    (void)state;
    struct moment m = first();
    end(&m);
    end(&m); /* nothing happened */
    assert_string_equal(has(P_LOAD), "0 0 allocated, 3 300 in use");
    assert_string_equal(has(P_SERVE_LOAD), "0 0 allocated, 3 300 in use");
    assert_string_equal(has("request"), "none");
    grow(&m.span, 1, 50, 3, 300);
    grow(&m.stacks[0].totals, 1, 50, 0, 0);
    grow(&m.stacks[1].totals, 0, 0, 3, 300);
    end(&m);
    assert_string_equal(has(P_LOAD), "1 50 allocated, 4 350 in use");
    assert_string_equal(has(P_SERVE_LOAD), "0 0 allocated, 0 0 in use");
    assert_string_equal(has("request"), "none");
}

static void test_one_stack_of_several_ages(void **state)
{
    (void)state;
    struct moment m = first();
    m.stacks[1].frame = LOAD;
    end(&m);
    assert_string_equal(has(P_LOAD), "8 800 allocated, 6 600 in use");
    end(&m);
    assert_string_equal(has(P_LOAD), "0 0 allocated, 6 600 in use");
}

/* What was allocated there before stays told, and what the span has is all that it has. */
static void test_a_stack_that_was_recycled(void **state)
{
    (void)state;
    struct moment m = first();
    end(&m);
    grow(&m.span, 0, 0, 3, 300);
    m.n_stacks = 1;
    m.stacks[0].totals = figures(5, 500, 2, 200);
    end(&m);
    assert_string_equal(has(P_SERVE_LOAD), "none");
    assert_string_equal(has(P_LOAD), "0 0 allocated, 3 300 in use");
    grow(&m.span, 2, 60, 0, 0); /* it came again */
    m.n_stacks = 2;
    m.stacks[1] = (struct snapshot_stack){.row = 1, .frame = SERVE_LOAD, .totals = figures(1, 40, 0, 0)};
    end(&m);
    assert_string_equal(has(P_SERVE_LOAD), "1 40 allocated, 1 40 in use");
    assert_string_equal(has("request"), "1 20 allocated, 1 20 in use");
}

static void test_a_stack_that_came_again_between_two_periods(void **state)
{
    (void)state;
    struct moment m = first();
    end(&m);
    grow(&m.span, 1, 30, 3, 300);
    m.stacks[1].totals = figures(1, 30, 0, 0);
    end(&m);
    assert_string_equal(has(P_SERVE_LOAD), "1 30 allocated, 1 30 in use");
    assert_string_equal(has("request"), "0 0 allocated, 0 0 in use"); /* what the former one had was freed */
}

/* Threads go on while they are counted. */
static void test_a_stack_has_more_than_its_span(void **state)
{
    (void)state;
    struct moment m = first();
    m.n_stacks = 1;
    m.stacks[0].totals = figures(12, 1200, 2, 200);
    end(&m);
    assert_string_equal(has(P_LOAD), "10 1000 allocated, 6 600 in use");
    assert_string_equal(has("request"), "0 0 allocated, 0 0 in use"); /* it has frees */
    m.span = figures(12, 1200, 4, 400);
    end(&m);
    assert_string_equal(has(P_LOAD), "2 200 allocated, 8 800 in use");
    assert_string_equal(has("request"), "none");
}

static void test_another_span_with_the_number(void **state)
{
    (void)state;
    struct moment m = first();
    end(&m);
    m.generation = 2;
    m.span = figures(20, 2000, 0, 0);
    m.stacks[0].totals = figures(6, 600, 0, 0); /* not 1 more than that of the former */
    m.n_stacks = 1;
    end(&m);
    assert_string_equal(has(P_LOAD), "6 600 allocated, 6 600 in use");
    assert_string_equal(has("request"), "14 1400 allocated, 14 1400 in use");
}

static void test_stacks_are_switched_off_and_on(void **state)
{
    (void)state;
    struct moment m = first(), off = m;
    end(&m);
    off.n_stacks = 0;
    end(&off);
    assert_string_equal(has("request"), "0 0 allocated, 6 600 in use");
    assert_string_equal(has(P_LOAD), "none");
    grow(&m.span, 5, 500, 0, 0);
    m.stacks[0].totals = figures(4, 400, 0, 0); /* since it is on again */
    m.n_stacks = 1;
    end(&m);
    assert_string_equal(has(P_LOAD), "4 400 allocated, 4 400 in use");
    assert_string_equal(has("request"), "1 100 allocated, 7 700 in use");
}

/* ---- Names ---- */

static uint32_t n_missing, n_in_use;

/* A program without mappings: nothing is asked about. */
static size_t name_calls(struct service_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_null(calls[i].path);
    n_in_use++;
    return n_missing;
}

static void end_names(void)
{
    assert_int_equal(n_in_use, 1);
    n_in_use--;
}

static void test_names_are_given_back(void **state)
{
    (void)state;
    const struct service_host host = {.name_calls = name_calls, .end_names = end_names};
    struct moment m = first();
    end_with(&m, &host);
    assert_int_equal(n_in_use, 0);
    assert_string_equal(has(P_LOAD), "5 500 allocated, 3 300 in use");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_stand_below_their_span, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_period_has_what_is_new, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_one_stack_of_several_ages, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_stack_that_was_recycled, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_stack_that_came_again_between_two_periods, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_stack_has_more_than_its_span, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_another_span_with_the_number, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_stacks_are_switched_off_and_on, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_names_are_given_back, begin_each, end_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
