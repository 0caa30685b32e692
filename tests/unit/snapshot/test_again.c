/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots that fill only some rows of an earlier one are, to the byte, what a snapshot is that fills all: labels, peaks, times,
 * outlived memory, sums of all. Threads do what counts something, and rest while snapshots are taken. The clock rests too,
 * so snapshots are of the same moment. It is this program's own: clock_gettime() is defined here, and the processor's counter
 * is not used. What threads do while a snapshot is taken: test_sums_kept.c. CPU time is not compared, as there is no clock for it here. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/check.h"
#include "../../support/family.h"
#include "base/clock.h"
#include "base/cpu_clock.h"
#include "heap/timing.h"
#include "jespan/jespan.h"
#include "snapshot/snapshot_builder.h"
#include "snapshot/view.h"
#include "span/peaks.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "max_contexts:4096,contexts_kept:4096,peak_looks_percent:0";

/* ---- The clock ---- */

static _Atomic uint64_t clock_now;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    uint64_t now = atomic_load(&clock_now);
    (void)clock;
    *t = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
    return 0;
}

/* Before the boot, ticks are those of the processor. Time goes on from there. */
static void use_own_clock(void)
{
    atomic_store(&clock_now, clock_ticks() + 1000);
    clock_is_raw = timing_is_raw = false;
    clock_state.is_raw = 0;
    store_relaxed(&clock_state.scale, ((uint64_t)1 << 32) / 3);
    cpu_clock_wanted = CPU_CLOCK_NONE;
}

/* ---- What threads do ---- */

enum { THREADS = 3, SPANS = 200, SLOTS = 200, DEPTH = 4 };

struct worker {
    pthread_t thread;
    uint64_t random;
    jespan_span_t *entered[DEPTH];
    unsigned depth, steps;
    jespan_span_t *held;
    bool makes_contexts, ends;
};
static struct worker workers[THREADS];
static _Atomic(jespan_span_t *) spans[SPANS]; /* NULL: a thread has taken it */
static _Atomic(void *) slots[SLOTS];
static pthread_barrier_t go, rest;

static uint32_t below(struct worker *w, uint32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

static void allocate(struct worker *w)
{
    F(free)(atomic_exchange(&slots[below(w, SLOTS)], F(malloc)(below(w, 8) ? below(w, 300) : below(w, 30000))));
}

static void credit(struct worker *w)
{
    void *p = atomic_exchange(&slots[below(w, SLOTS)], NULL);
    if (p)
        jespan_credit(p, jespan_current());
    F(free)(atomic_exchange(&slots[below(w, SLOTS)], p));
}

static void enter(struct worker *w)
{
    uint32_t at = below(w, SPANS);
    jespan_span_t *span = w->depth < DEPTH ? atomic_exchange(&spans[at], NULL) : NULL;
    if (!span)
        return;
    if (!jespan_enter(span))
        w->entered[w->depth++] = span;
    atomic_store(&spans[at], span);
}

static void leave(struct worker *w)
{
    if (w->depth)
        jespan_exit(w->entered[--w->depth]);
}

static void pass_time(struct worker *w)
{
    atomic_fetch_add(&clock_now, below(w, 100000));
}

static void block(struct worker *w)
{
    JESPAN("block");
    allocate(w);
    {
        JESPAN("inner", "on", "any");
        pass_time(w);
        allocate(w);
    }
}

/* A span, below another, that has the context of the one that it replaces, or one of its own. */
static void open_another(struct worker *w)
{
    JESPAN_SITE(site, "opened");
    char text[16];
    const struct jespan_label label = JESPAN_LABEL("n", text);
    uint32_t at = below(w, SPANS);
    snprintf(text, sizeof text, "%u", below(w, 50));
    jespan_span_t *span = atomic_exchange(&spans[at], NULL);
    if (!span)
        return;
    jespan_span_t *next = jespan_open(&site, below(w, 3) ? JESPAN_CURRENT : JESPAN_ROOT, &label, below(w, 4) != 0);
    if (next && jespan_close(span))
        abort();
    atomic_store(&spans[at], next ? next : span);
}

/* Spans below each other, in contexts of their own. Some stay open, and those below them go: rows that move have rows below them. */
static void nest(struct worker *w, unsigned depth)
{
    JESPAN_SITE(site, "nested");
    char text[16];
    const struct jespan_label label = JESPAN_LABEL("n", text);
    snprintf(text, sizeof text, "%u", below(w, 40));
    jespan_span_t *span = depth ? jespan_open(&site, JESPAN_CURRENT, &label, 1) : NULL;
    if (!span || jespan_enter(span))
        return;
    allocate(w);
    nest(w, depth - 1);
    jespan_exit(span);
    if (below(w, 3))
        jespan_close(span);
    else
        jespan_close(atomic_exchange(&spans[below(w, SPANS)], span));
}

/* A span whose parent is named, and is not entered. It may be recycled before a snapshot has seen it, and its time is its parent's then. */
static jespan_context_t parents[4];
static jespan_span_t *parent_spans[4];

static void open_below(struct worker *w)
{
    JESPAN_SITE(site, "below");
    char text[16];
    const struct jespan_label label = JESPAN_LABEL("n", text);
    snprintf(text, sizeof text, "%u", below(w, 1000));
    jespan_span_t *span = jespan_open(&site, parents[below(w, 4)], &label, 1);
    pass_time(w);
    jespan_close(span);
}

/* Spans that are opened and closed again and again, whose contexts stay. */
static void reopen(struct worker *w)
{
    JESPAN_SITE(site, "often");
    jespan_span_t *span = jespan_open(&site, JESPAN_CURRENT, NULL, 0);
    jespan_enter(span);
    allocate(w);
    jespan_exit(span);
    jespan_close(span);
}

static jespan_span_t *open_above(void)
{
    JESPAN_SITE(site, "above");
    return jespan_open(&site, JESPAN_ROOT, NULL, 0);
}

/* Spans of one context that nobody enters. The span above them is closed. It was open for longer than all of them together, so
 * its own time would fall, and does not, while nothing is counted. */
static void hold(struct worker *w)
{
    JESPAN_SITE(site, "held");
    jespan_span_t *closed = open_above();
    if (w->held && !jespan_close(w->held)) {
        w->held = NULL;
    } else if (!jespan_enter(closed)) {
        w->held = jespan_open(&site, JESPAN_CURRENT, NULL, 0);
        jespan_exit(closed);
    }
    jespan_close(closed);
}

static void work(struct worker *w)
{
    static void (*const all[])(struct worker *) = {allocate, allocate, credit, enter, leave, hold, pass_time, block, reopen};
    enum { MAKE_NONE = 7, ALL = sizeof all / sizeof all[0] };
    for (unsigned i = 0; i < w->steps; i++)
        all[below(w, w->makes_contexts ? ALL : MAKE_NONE)](w);
    if (w->makes_contexts && !below(w, 4))
        open_another(w);
    if (w->makes_contexts && !below(w, 4))
        open_below(w);
    if (w->makes_contexts && !below(w, 8))
        nest(w, below(w, 12));
    while (w->depth && below(w, 4)) /* sums stand where nobody is inside */
        leave(w);
}

static void *run(void *worker)
{
    struct worker *w = worker;
    for (;;) {
        pthread_barrier_wait(&go);
        if (w->ends)
            return NULL;
        work(w);
        pthread_barrier_wait(&rest);
    }
}

/* ---- What must be true ---- */

/* `own` and `other` are taken again each time; `seldom` too, of the view of `other`, but only now and then. */
static struct snapshot *own, *other, *seldom, *all;
static struct view *view, *whole;
static unsigned wrong, again, seldom_again, more_again, fewer_again;

static void expect(bool is_right, const char *what)
{
    if (!is_right)
        check_note("%s", what);
    wrong += !is_right;
}

static void tell_figures(const void *a, const void *b, size_t bytes)
{
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < bytes / sizeof *x; i++)
        if (x[i] != y[i])
            check_note("  figure %zu: %llu, and %llu if all rows are filled", i, (unsigned long long)x[i], (unsigned long long)y[i]);
}

static void tell(const struct snapshot_row *a, const struct snapshot_row *b)
{
    check_note("row %u.%u %s", a->id, a->generation, a->name);
    tell_figures(&a->totals, &b->totals, sizeof *a - offsetof(struct snapshot_row, totals));
}

static uint32_t parent_id(const struct snapshot *s, const struct snapshot_row *row)
{
    return row->parent_row < s->n_rows ? s->rows[row->parent_row].id : 0;
}

static bool same_row(const struct snapshot *s, const struct snapshot_row *a, const struct snapshot *t, const struct snapshot_row *b)
{
    bool same = a->id == b->id && a->generation == b->generation && parent_id(s, a) == parent_id(t, b) && a->kind == b->kind &&
                a->line == b->line && !a->first_stack && !strcmp(a->name, b->name) && !strcmp(a->target, b->target) &&
                !strcmp(a->file, b->file) && a->n_labels == b->n_labels && a->open_spans == b->open_spans &&
                !memcmp(&a->totals, &b->totals, sizeof *a - offsetof(struct snapshot_row, totals));
    for (uint32_t i = 0; same && i < a->n_labels; i++)
        same = !strcmp(a->labels[i].key, b->labels[i].key) && !strcmp(a->labels[i].value, b->labels[i].value) &&
               a->labels[i].is_integer == b->labels[i].is_integer && a->labels[i].integer == b->labels[i].integer;
    if (!same)
        tell(a, b);
    return same;
}
_Static_assert(offsetof(struct snapshot_row, totals) + sizeof(struct totals) + 2 * sizeof(uint64_t) + sizeof(struct snapshot_peaks) ==
                   sizeof(struct snapshot_row), "figures are the last members, without padding");

static bool same_snapshot(const struct snapshot *a, const struct snapshot *b)
{
    bool same = a->n_rows == b->n_rows && a->pid == b->pid && a->pending_bytes == b->pending_bytes && !a->n_ages && !a->n_stacks &&
                a->time_unix_ns == b->time_unix_ns && a->start_unix_ns == b->start_unix_ns && !a->note && !a->program &&
                !memcmp(&a->all, &b->all, sizeof a->all) && !memcmp(&a->retired, &b->retired, sizeof a->retired) &&
                !memcmp(&a->retired_peaks, &b->retired_peaks, sizeof a->retired_peaks);
    if (!same) {
        check_note("%u rows, and %u if all are filled", a->n_rows, b->n_rows);
        tell_figures(&a->all, &b->all, sizeof a->all);
        tell_figures(&a->retired, &b->retired, sizeof a->retired);
    }
    const struct snapshot_row *row = NULL, *other_row = NULL;
    do {
        row = snapshot_next(a, row);
        other_row = snapshot_next(b, other_row);
        same &= row && other_row ? same_row(a, row, b, other_row) && snapshot_find(a, row->id) == row : row == other_row;
    } while (row && other_row);
    return same && a->rows[0].id == CONTEXT_ID_ROOT;
}

/* Some row is opened in each snapshot that uses rows again, since the test's own thread counts. */
static bool is_again(const struct snapshot *s)
{
    const struct below *below = ((const struct snapshot_mapping *)s)->below;
    bool is = false;
    for (uint32_t i = 0; i < s->n_rows; i++)
        is |= below[i].opened == s->epoch;
    return is;
}

static void take(bool seldom_too)
{
    uint32_t least = sums_kept_least, n_rows = other ? other->n_rows : 0;
    own = snapshot_retake(own);
    other = view_snapshot(view, other);
    if (seldom_too)
        seldom = view_snapshot(view, seldom);
    sums_kept_least = UINT32_MAX;
    all = view_snapshot(whole, all);
    sums_kept_least = least;
    if (!own || !other || !all || (seldom_too && !seldom))
        abort();
    expect(!is_again(all), "the snapshot with which others are compared used rows again");
    again += is_again(own) && is_again(other);
    more_again += is_again(other) && other->n_rows > n_rows;
    fewer_again += is_again(other) && other->n_rows < n_rows;
    seldom_again += seldom_too && is_again(seldom);
}

static void compare(bool seldom_too)
{
    take(seldom_too);
    expect(same_snapshot(own, all), "the process's own snapshot is not what a whole one is");
    expect(same_snapshot(other, all), "the snapshot of the view is not what a whole one is");
    if (seldom_too)
        expect(same_snapshot(seldom, all), "the snapshot that is seldom taken is not what a whole one is");
}

static void let_work(unsigned steps, bool makes_contexts)
{
    for (int i = 0; i < THREADS; i++) {
        workers[i].steps = steps;
        workers[i].makes_contexts = makes_contexts;
    }
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&rest);
}

/* ---- Rounds ---- */

static struct worker director = {.random = 7};

static void disturb(unsigned round)
{
    if (round % 32 == 3)
        peaks_look();
    if (round % 64 == 40)
        peaks_reset();
    if (round % 64 == 50) { /* the rate of the clock becomes known better, so times rise or fall */
        uint64_t scale = load_relaxed(&clock_state.scale);
        store_relaxed(&clock_state.scale, round & 64 ? scale / 64 * 63 : scale / 16 * 17);
    }
    if (round % 32 == 20 || round % 5 == 2) {
        lock(LOCK_TREE);
        tree_recycle(false);
        unlock(LOCK_TREE);
    }
}

static void test_rows_that_are_used_again(void **state)
{
    (void)state;
    unsigned rounds = (unsigned)check_rounds("AGAIN_ROUNDS", 400);
    for (unsigned round = 0; round < rounds && !wrong; round++) {
        bool is_calm = round / 32 % 4 == 1; /* no context is made */
        let_work(is_calm || below(&director, 3) ? below(&director, 6) : below(&director, 200), !is_calm);
        pass_time(&director);
        disturb(round);
        compare(round % 3 == 0);
        if (round % 4 == 0)
            compare(false); /* nothing moved; but time has passed */
        pass_time(&director);
    }
    assert_int_equal(wrong, 0);
    print_message("%u of %u again, %u seldom, %u with more rows, %u with fewer\n", again, rounds, seldom_again, more_again, fewer_again);
    assert_true(again > rounds / 2); /* it was tested */
    assert_true(seldom_again > rounds / 40);
    assert_true(more_again > rounds / 20); /* contexts had come, */
    assert_true(fewer_again > rounds / 20); /* and gone */
}

/* jespan's own context is no span. Its wall time is that of the spans below it. No thread counts in its chunk. */
static void test_time_below_what_is_no_span(void **state)
{
    (void)state;
    JESPAN_SITE(site, "below");
    for (int i = 0; i < 32; i++)
        let_work(0, false); /* threads leave what they have entered */
    jespan_span_t *span = jespan_open(&site, CONTEXT_ID_SELF, NULL, 0);
    assert_non_null(span);
    for (int i = 0; i < 8; i++) {
        pass_time(&director);
        compare(true);
    }
    assert_int_equal(wrong, 0);
    assert_true(view->kept[0].stands);
    assert_int_equal(jespan_close(span), 0);
}

/* ---- Begin and end ---- */

static int begin(void **state)
{
    JESPAN_SITE(site, "span");
    int error = boot(state);
    use_own_clock();
    sums_kept_least = 0;
    for (int i = 0; !error && i < SPANS; i++) {
        const struct jespan_label number = JESPAN_LABEL_INT("n", i);
        bool has_parent = i % 3; /* there are parents with and without memory of their own */
        if (has_parent)
            error |= jespan_enter(spans[i / 3]);
        spans[i] = jespan_open(&site, JESPAN_CURRENT, &number, 1);
        if (has_parent)
            jespan_exit(spans[i / 3]);
        error |= !spans[i];
    }
    for (int i = 0; i < 4; i++) {
        const struct jespan_label number = JESPAN_LABEL_INT("n", i);
        JESPAN_SITE(named, "named");
        parent_spans[i] = jespan_open(&named, JESPAN_ROOT, &number, 1);
        error |= jespan_enter(parent_spans[i]);
        parents[i] = jespan_current();
        error |= jespan_exit(parent_spans[i]);
    }
    pthread_setname_np(pthread_self(), "renamed"); /* from here on, this thread counts in a context behind the others */
    for (int i = 0; i < 1000; i++)
        allocate(&director);
    jespan_span_t *above = open_above();
    clock_now += (uint64_t)1 << 45;
    error |= jespan_close(above);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    pthread_barrier_init(&rest, NULL, THREADS + 1);
    for (uint64_t i = 0; !error && i < THREADS; i++) {
        workers[i].random = i;
        error = pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    }
    return error || view_open(&view, getpid()) || view_open(&whole, getpid());
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < THREADS; i++)
        workers[i].ends = true;
    pthread_barrier_wait(&go);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    struct snapshot *const taken[] = {own, other, seldom, all};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        snapshot_free(taken[i]);
    view_close(view);
    view_close(whole);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_that_are_used_again),
                                       cmocka_unit_test(test_time_below_what_is_no_span)};
    return cmocka_run_group_tests(tests, begin, end);
}
