/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures of tracing-prof 0.3.0 in nesting, order and time, one case each, named after the failure. Its other
 * failures are in span_memory.c. */
#define _GNU_SOURCE
#include "../support/cases.h"
#include "../support/spans.h"

/* ---- Nesting and order ---- */

/* Its stack of spans has 128 places. Here each level has one object of its own size, on the way in and on the way out. */
static void nesting_beyond_128(void)
{
    enum { LEVELS = 1000 };
    static jespan_span_t *spans[LEVELS];
    static jespan_context_t ids[LEVELS];
    static void *in[LEVELS], *out[LEVELS];
    for (int i = 0; i < LEVELS; i++) {
        spans[i] = spans_open("level", -1, JESPAN_CURRENT);
        CHECK_EQ(jespan_enter(spans[i]), 0);
        ids[i] = jespan_current();
        in[i] = F(malloc)((size_t)i + 1);
        CHECK(i == 0 || ctl_span(ids[i], "parent") == ids[i - 1]);
    }
    for (int i = LEVELS; i-- > 0;) {
        CHECK_EQ(jespan_current(), ids[i]);
        out[i] = F(malloc)(2 * (size_t)i + 1);
        CHECK_EQ(jespan_exit(spans[i]), 0);
        jespan_close(spans[i]);
    }
    for (int i = 0; i < LEVELS; i++) {
        CHECK_EQ(ctl_span(ids[i], "alloc_requested_bytes"), 3 * i + 2);
        spans_check_inuse(ids[i], 2, F(malloc_usable_size)(in[i]) + F(malloc_usable_size)(out[i]), "a level");
        F(free)(in[i]);
        F(free)(out[i]);
        spans_check_inuse(ids[i], 0, 0, "a level, freed");
    }
}

/* Enters a and b, then exits a and b. The time between the two exits belongs to b. */
static void exits_out_of_order_credit_the_wrong_span(void)
{
    jespan_span_t *a = spans_open("a", -1, JESPAN_ROOT), *b = spans_open("b", -1, JESPAN_ROOT);
    jespan_context_t in_a = spans_context(a), in_b = spans_context(b), base = jespan_current();
    CHECK_EQ(jespan_enter(a), 0);
    void *p = F(malloc)(10);
    CHECK_EQ(jespan_enter(b), 0);
    void *q = F(malloc)(100);
    CHECK_EQ(jespan_exit(a), 0);
    void *r = F(malloc)(1000);
    CHECK_EQ(jespan_current(), in_b);
    CHECK_EQ(jespan_exit(b), 0);
    CHECK_EQ(jespan_current(), base);
    CHECK_EQ(ctl_span(in_a, "alloc_requested_bytes"), 10);
    CHECK_EQ(ctl_span(in_b, "alloc_requested_bytes"), 1100);
    F(free)(p);
    F(free)(q);
    F(free)(r);
    spans_check_inuse(in_a, 0, 0, "a");
    spans_check_inuse(in_b, 0, 0, "b");
    jespan_close(a);
    jespan_close(b);
}

/* ---- Time ---- */

/* Bounds of each span's own time by another clock. There are two bounds because the clock cannot be read at the very
 * moment of an enter or exit. */
enum { OUTSIDE, A, B, C, D, SPANS };
static struct {
    uint64_t low, high;
} expected[SPANS];
static int now_in;
static uint64_t last_before, last_after;

static void moved(int to, uint64_t before, uint64_t after)
{
    expected[now_in].low += before - last_after;
    expected[now_in].high += after - last_before;
    last_before = before;
    last_after = after;
    now_in = to;
}

/* Makes a call that brings the thread into `to`, and works there for some milliseconds. */
#define MOVE(to, call)                                                                                                 \
    do {                                                                                                               \
        uint64_t before = spans_now_ns();                                                                              \
        CHECK_EQ(call, 0);                                                                                             \
        moved(to, before, spans_now_ns());                                                                             \
        spans_work(3);                                                                                                 \
    } while (0)

/* Its self time is right for two levels only, and it counts a span twice that is entered twice. */
static void self_time_at_depth_3_and_on_reentry(void)
{
    static const char *const names[SPANS] = {"outside", "a", "b", "c", "d"};
    jespan_span_t *s[SPANS];
    jespan_context_t ids[SPANS];
    for (int i = A; i < SPANS; i++) {
        s[i] = spans_open(names[i], -1, i == A ? JESPAN_ROOT : ids[i - 1]);
        ids[i] = spans_context(s[i]);
    }
    last_before = last_after = spans_now_ns();
    for (int round = 0; round < 5; round++) {
        MOVE(A, jespan_enter(s[A]));
        MOVE(B, jespan_enter(s[B]));
        MOVE(C, jespan_enter(s[C]));
        MOVE(D, jespan_enter(s[D]));
        MOVE(B, jespan_enter(s[B])); /* again, below itself */
        MOVE(C, jespan_enter(s[C]));
        MOVE(C, jespan_exit(s[A])); /* out of order */
        MOVE(B, jespan_exit(s[C]));
        MOVE(D, jespan_exit(s[B]));
        MOVE(C, jespan_exit(s[D]));
        MOVE(B, jespan_exit(s[C]));
        MOVE(OUTSIDE, jespan_exit(s[B]));
    }
    for (int i = A; i < SPANS; i++)
        spans_check_time(ctl_span(ids[i], "busy_ns"), expected[i].low, expected[i].high, names[i]);
    uint64_t low = 0, high = 0;
    for (int i = A; i < SPANS; i++) {
        low += expected[i].low;
        high += expected[i].high;
    }
    spans_check_time(ctl_span(ids[A], "total.busy_ns"), low, high, "all of a");
    for (int i = A; i < SPANS; i++)
        jespan_close(s[i]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"nesting_beyond_128", nesting_beyond_128, NULL, NULL},
        {"exits_out_of_order_credit_the_wrong_span", exits_out_of_order_credit_the_wrong_span, NULL, NULL},
        {"self_time_at_depth_3_and_on_reentry", self_time_at_depth_3_and_on_reentry, NULL, NULL},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
