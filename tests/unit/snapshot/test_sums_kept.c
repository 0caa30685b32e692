/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots that read only what may have changed have the same figures as one that reads all: while threads rest after they did
 * all that counts something, and in forked children. Snapshots are taken all the time meanwhile, so that they come between any two
 * steps of a thread. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/check.h"
#include "../../support/family.h"
#include "../../support/many_locks.h"
#include "conf/conf.h"
#include "jespan/jespan.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"
#include "snapshot/sums_kept.h"
#include "snapshot/view.h"
#include "snapshot/view_parts.h"
#include "span/stack_mode.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "max_contexts:2048,max_stacks:16384,stacks_temporary:4";

enum { THREADS = 4, SPANS = 600, SLOTS = 256, DEPTH = 5, STEPS = 1500, OBJECT_BYTES = 30000 };
static jespan_span_t *spans[SPANS];
static _Atomic(void *) slots[SLOTS]; /* objects that any thread may free, resize or credit */
static pthread_barrier_t rest, go;
static _Atomic unsigned resting;

struct worker {
    pthread_t thread;
    uint64_t random;
    jespan_span_t *entered[DEPTH];
    unsigned depth;
};
static struct worker workers[THREADS];

static uint32_t below(struct worker *w, uint32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

/* ---- What threads do ---- */

static void put(struct worker *w, void *p)
{
    F(free)(atomic_exchange(&slots[below(w, SLOTS)], p));
}

static void *take(struct worker *w)
{
    return atomic_exchange(&slots[below(w, SLOTS)], NULL);
}

static void allocate(struct worker *w)
{
    put(w, F(malloc)(below(w, 4) ? below(w, 300) : below(w, OBJECT_BYTES)));
}

static void pass(struct worker *w)
{
    void *p = F(malloc)(1 + below(w, 100));
    if (below(w, 2))
        F(free)(F(malloc)(16000));
    F(free)(p);
}

static void resize(struct worker *w)
{
    void *p = take(w), *q = F(realloc)(p, 1 + below(w, OBJECT_BYTES));
    put(w, q ? q : p);
}

static void credit(struct worker *w)
{
    void *p = take(w);
    if (p)
        jespan_credit(p, below(w, 2) ? jespan_current() : CONTEXT_ID_ROOT + below(w, 700));
    put(w, p);
}

static void enter(struct worker *w)
{
    if (w->depth == DEPTH)
        return;
    w->entered[w->depth] = spans[below(w, SPANS)];
    w->depth += !jespan_enter(w->entered[w->depth]);
}

/* Not only the innermost. */
static void leave(struct worker *w)
{
    if (!w->depth)
        return;
    uint32_t i = below(w, w->depth);
    jespan_exit(w->entered[i]);
    w->entered[i] = w->entered[--w->depth];
}

static void label(struct worker *w)
{
    char text[16];
    const struct jespan_label label = {"added", text};
    snprintf(text, sizeof text, "%u", below(w, 5));
    JESPAN("to be labelled");
    pass(w);
    jespan_add_label(NULL, &label);
    allocate(w);
}

/* There are far more such contexts than max_contexts. */
static void request(struct worker *w)
{
    static const struct jespan_site site = {"request", NULL, NULL, 0, {0}};
    char text[24];
    const struct jespan_label number = {"number", text};
    snprintf(text, sizeof text, "%u", below(w, 1u << 30));
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &number, 1);
    jespan_enter(span);
    pass(w);
    if (!below(w, 8))
        allocate(w);
    jespan_exit(span);
    jespan_close(span);
}

static void region(struct worker *w)
{
    JESPAN_SITE(site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
    jespan_span_t *span = jespan_open(&site, JESPAN_CURRENT, NULL, 0);
    if (!span)
        return;
    jespan_enter(span);
    for (int i = 0; i < 3; i++)
        (void)!F(malloc)(1 + below(w, 500)); /* the region ends with it */
    pass(w);
    jespan_exit(span);
    jespan_close(span);
}

static void for_another(struct worker *w)
{
    JESPAN_CREDIT(CONTEXT_ID_ROOT + below(w, 700));
    allocate(w);
    pass(w);
}

static void block(struct worker *w)
{
    JESPAN("block");
    allocate(w);
    JESPAN("inner", "on", "any");
    pass(w);
}

static void work(struct worker *w, unsigned steps)
{
    static void (*const all[])(struct worker *) = {allocate, pass, resize, credit, enter, leave, label, request, region, for_another,
                                                   block};
    for (unsigned i = 0; i < steps; i++)
        all[below(w, sizeof all / sizeof all[0])](w);
}

/* After jespan has taken the thread's block back, in a later round of destructors: the orphan counts this. */
static pthread_key_t late;
static _Thread_local unsigned destructors;

static void work_late(void *w)
{
    if (destructors++ < 2) {
        pthread_setspecific(late, w);
        return;
    }
    allocate(w);
    pass(w);
    resize(w);
    void *p = F(malloc)(1 << 20);
    p = F(realloc)(p, (1 << 20) - 8192); /* in place */
    put(w, p);
}

/* Threads rest inside of what they have entered, and end afterwards. */
static void *run(void *worker)
{
    struct worker *w = worker;
    pthread_setspecific(late, w);
    work(w, STEPS);
    atomic_fetch_add(&resting, 1);
    pthread_barrier_wait(&rest);
    pthread_barrier_wait(&go);
    while (w->depth)
        leave(w);
    return NULL;
}

/* ---- What must be true ---- */

/* Figures of memory, enters and opens. test_again.c compares all. */
static bool same_figures(const struct totals *a, const struct totals *b)
{
    return !memcmp(a, b, offsetof(struct totals, outlived_objects));
}

static bool same_row(const struct snapshot *s, const struct snapshot_row *a, const struct snapshot *t, const struct snapshot_row *b)
{
    bool same = a->id == b->id && a->generation == b->generation && a->kind == b->kind &&
                s->rows[a->parent_row].id == t->rows[b->parent_row].id && !strcmp(a->name, b->name) &&
                a->n_labels == b->n_labels && a->open_spans == b->open_spans &&
                same_figures(&a->totals, &b->totals);
    for (uint32_t i = 0; same && i < a->n_labels; i++)
        same = !strcmp(a->labels[i].key, b->labels[i].key) && !strcmp(a->labels[i].value, b->labels[i].value);
    if (!same)
        fprintf(stderr, "row %u.%u %s: in use %llu, %llu\n", a->id, a->generation, a->name,
                (unsigned long long)totals_inuse_bytes(&a->totals), (unsigned long long)totals_inuse_bytes(&b->totals));
    return same;
}

static bool same_snapshot(const struct snapshot *a, const struct snapshot *b)
{
    bool same = a->n_rows == b->n_rows && a->n_stacks == b->n_stacks && a->pending_bytes == b->pending_bytes &&
                same_figures(&a->all, &b->all) && same_figures(&a->retired, &b->retired);
    const struct snapshot_row *row = NULL, *other_row = NULL;
    for (uint32_t i = 0; same && i < a->n_rows; i++) {
        row = snapshot_next(a, row);
        other_row = snapshot_next(b, other_row);
        same = row && other_row && same_row(a, row, b, other_row);
    }
    for (uint32_t i = 0; same && i < a->n_stacks; i++)
        same = a->stacks[i].row == b->stacks[i].row && a->stacks[i].frame == b->stacks[i].frame &&
               same_figures(&a->stacks[i].totals, &b->stacks[i].totals);
    return same;
}

/* Whether the sums that stand are those that the counters have, times included. Returns the number of chunks that stand, −1 if
 * one is wrong. */
static int is_kept_right(const struct view *view)
{
    size_t bytes = reading_bytes();
    void *memory = malloc(bytes);
    struct reading *r = reading_begin(memory, bytes, tree_end());
    struct totals sums[READING_CHUNK];
    int n = 0;
    for (uint32_t first = 0; n >= 0 && first < tree_end(); first += READING_CHUNK) {
        const struct kept_chunk *kept = sums_kept_chunk(view, first);
        if (!kept || !kept->stands)
            continue;
        reading_chunk(r, first, sums);
        n = memcmp(sums, kept->sums, sizeof sums) ? -1 : n + 1;
        if (n < 0)
            fprintf(stderr, "the chunk of context %u is wrong\n", first);
    }
    free(memory);
    return n;
}

/* Two that keep sums, and are taken again and again. */
static struct snapshot *own, *other;
static struct view *view;

static unsigned wrong; /* threads wait for each other, so the test ends at the end of its rounds */

static void expect(bool is_right, const char *what)
{
    if (!is_right)
        fprintf(stderr, "%s\n", what);
    wrong += !is_right;
}

static void take_both(void)
{
    struct snapshot *next = snapshot_retake(own), *next_other = view_snapshot(view, other);
    expect(next && next_other, "a snapshot fails");
    own = next ? next : own;
    other = next_other ? next_other : other;
}

static void compare(void)
{
    struct view *whole;
    uint32_t least = sums_kept_least;
    take_both();
    sums_kept_least = UINT32_MAX;
    struct snapshot *all = view_open(&whole, getpid()) ? NULL : view_snapshot(whole, NULL);
    sums_kept_least = least;
    expect(all && !sums_kept_chunk(whole, 0), "there is no snapshot that reads all");
    if (!all)
        return;
    expect(same_snapshot(own, all), "the process's own snapshot is not what a whole one is");
    expect(same_snapshot(other, all), "the snapshot of the view is not what a whole one is");
    expect(is_kept_right(view) >= 0, "sums that stand are wrong");
    snapshot_free(all);
    view_close(whole);
}

/* Nothing moves: most sums stand, and they are right. */
static void compare_at_rest(void)
{
    for (int i = 0; i < 3; i++)
        compare();
    expect(is_kept_right(view) > (int)(tree_end() / READING_CHUNK) / 4, "few sums stand");
}

/* ---- Rounds ---- */

static int run_child(void)
{
    struct worker w = {.random = (uint64_t)getpid()};
    other = NULL;
    if (view_open(&view, getpid()))
        return 1;
    for (int i = 0; i < 4; i++) {
        compare();
        work(&w, 50);
        compare();
    }
    return wrong != 0;
}

static void compare_in_child(void)
{
    if (UNDER_TSAN)
        return;
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run_child());
    }
    int status = 1;
    expect(waitpid(pid, &status, 0) == pid && !status, "a forked child is wrong");
}

static void one_round(void)
{
    store_relaxed(&resting, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    for (unsigned n = 0; load_relaxed(&resting) < THREADS; n++) {
        take_both();
        if (n == 3 && !UNDER_ASAN) /* whose allocator has locks that a fork does not take */
            compare_in_child();
    }
    pthread_barrier_wait(&rest);
    compare_at_rest();
    compare_in_child();
    pthread_barrier_wait(&go);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    compare();
}

static void rounds(void)
{
    for (uint64_t n = check_rounds("KEPT_ROUNDS", 5); n-- && !wrong;)
        one_round();
    assert_int_equal(wrong, 0);
}

static void test_usual_work(void **state)
{
    (void)state;
    rounds();
}

static void test_stacks(void **state)
{
    (void)state;
    assert_int_equal(stack_mode_set("all"), 0);
    rounds();
    conf.stacks_temporary = 0; /* those that are freed at once are counted by another function */
    rounds();
    assert_int_equal(stack_mode_set("off"), 0);
    rounds();
}

/* The program has a limit from here on, so frees are counted by another function. */
static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(JESPAN_ROOT, 0, (uint64_t)1 << 40), 0);
    rounds();
}

/* With few counters, all are read each time. */
static void test_few_counters(void **state)
{
    (void)state;
    sums_kept_least = UINT32_MAX;
    compare();
    assert_null(sums_kept_chunk(view, 0));
    assert_int_equal(wrong, 0);
    sums_kept_least = 0;
}

static int begin(void **state)
{
    static const struct jespan_site site = {"span", NULL, NULL, 0, {0}};
    int error = boot(state) || pthread_key_create(&late, work_late);
    sums_kept_least = 0;
    for (int i = 0; !error && i < SPANS; i++) {
        char text[8];
        const struct jespan_label number = {"n", text};
        snprintf(text, sizeof text, "%d", i);
        spans[i] = jespan_open(&site, JESPAN_ROOT, &number, 1);
        error |= !spans[i];
    }
    for (int i = 0; i < THREADS; i++)
        workers[i].random = (uint64_t)i;
    pthread_barrier_init(&rest, NULL, THREADS + 1);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    return error || view_open(&view, getpid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_work),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_few_counters),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
