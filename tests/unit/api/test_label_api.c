/* SPDX-License-Identifier: BSD-2-Clause */
/* Labels that are added to an open span: its entries move to the new context, counts are right, and threads that
 * enter it meanwhile are never in a recycled context. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/no_memory.h"
#include "base/lock.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "snapshot/snapshot.h"
#include "span/handles.h"
#include "span/sites.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "max_contexts:64,thread_contexts:false";

static const struct jespan_site outer = {.name = "outer"}, site = {.name = "shared"}, inner = {.name = "inner"};
static const struct jespan_label blue = JESPAN_LABEL("tenant", "blue"), red = JESPAN_LABEL("tenant", "red"),
                                 seven = JESPAN_LABEL_INT("shard", 7);
static struct thread *self;

static int boot(void **state)
{
    (void)state;
    self = track_thread();
    return self ? 0 : -1;
}

static uint64_t inside(uint32_t context)
{
    struct totals t = sums_of(context);
    return t.enters - t.exits;
}

static void recycle(void)
{
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
}

/* Each test begins and ends with only the two contexts that always exist. */
static int nothing_is_left(void **state)
{
    (void)state;
    assert_int_equal(self->depth, 0);
    assert_int_equal(jespan_current(), self->base);
    recycle();
    assert_int_equal(tree_stats().contexts, 2);
    return 0;
}

static jespan_span_t *open_in(const struct jespan_site *of, jespan_context_t parent)
{
    jespan_span_t *span = jespan_open(of, parent, NULL, 0);
    assert_non_null(span);
    return span;
}

static jespan_span_t *enter_new(const struct jespan_site *of)
{
    jespan_span_t *span = open_in(of, JESPAN_CURRENT);
    assert_int_equal(jespan_enter(span), 0);
    return span;
}

static void leave(jespan_span_t *span)
{
    assert_int_equal(jespan_exit(span), 0);
    jespan_close(span);
}

static void assert_current(uint32_t context)
{
    assert_int_equal(jespan_current(), context);
    assert_ptr_equal(self->current, counters_find(self, context));
}

/* Returns the context of a span that is opened with these labels. */
static uint32_t opened_with(jespan_context_t parent, const struct jespan_label *labels, size_t n)
{
    jespan_span_t *twin = jespan_open(&site, parent, labels, n);
    assert_non_null(twin);
    uint32_t context = handle_context(twin);
    jespan_close(twin);
    return context;
}

static void test_as_if_opened_with_it(void **state)
{
    const struct jespan_label both[] = {blue, seven}, other[] = {red, seven};
    (void)state;
    jespan_span_t *o = enter_new(&outer), *span = enter_new(&site);
    uint32_t parent = handle_context(o), plain = handle_context(span);
    errno = 12345;
    assert_int_equal(jespan_add_label(span, &blue), 0);
    assert_int_not_equal(jespan_current(), plain);
    assert_current(opened_with(parent, both, 1));
    assert_int_equal(handle_context(span), jespan_current());
    assert_int_equal(jespan_add_label(NULL, &seven), 0);
    assert_current(opened_with(parent, both, 2));
    uint32_t labelled = jespan_current();
    assert_int_equal(jespan_add_label(span, &seven), 0);
    assert_current(labelled);
    assert_int_equal(jespan_add_label(span, &red), 0);
    assert_current(opened_with(parent, other, 2));
    assert_int_equal(contexts[plain].open_spans + contexts[labelled].open_spans, 0);
    assert_int_equal(contexts[jespan_current()].open_spans, 1);
    assert_int_equal(inside(plain) + inside(labelled), 0);
    assert_int_equal(inside(jespan_current()), 1);
    assert_int_equal(errno, 12345);
    leave(span);
    leave(o);
}

/* The span keeps its context, whether it is entered or only open. */
static void test_the_new_context_is_in_use(void **state)
{
    (void)state;
    jespan_span_t *span = open_in(&site, JESPAN_ROOT);
    uint32_t plain = handle_context(span);
    assert_int_equal(jespan_add_label(span, &blue), 0);
    uint32_t labelled = handle_context(span);
    recycle();
    assert_false(tree_is_live(plain));
    assert_true(tree_is_live(labelled));
    assert_int_equal(jespan_enter(span), 0);
    assert_int_equal(jespan_add_label(span, &seven), 0);
    jespan_close(span);
    recycle();
    assert_false(tree_is_live(labelled));
    assert_true(tree_is_live(jespan_current()));
    assert_int_equal(jespan_exit(span), 0);
}

/* The thread enters a, b, a, b. Both entries of a move to the new context, and no entry of b does. */
static void test_every_entry_moves(void **state)
{
    (void)state;
    jespan_span_t *a = enter_new(&site), *b = open_in(&inner, JESPAN_ROOT);
    uint32_t plain = jespan_current(), in_b = handle_context(b);
    for (int i = 0; i < 3; i++)
        assert_int_equal(jespan_enter(i % 2 ? a : b), 0);
    uint64_t enters = sums_of(in_b).enters;
    assert_int_equal(jespan_add_label(a, &blue), 0);
    uint32_t labelled = handle_context(a);
    assert_current(in_b);
    assert_int_equal(inside(plain), 0);
    assert_int_equal(inside(labelled), 2);
    assert_int_equal(sums_of(in_b).enters, enters);
    assert_int_equal(jespan_exit(b), 0);
    assert_current(labelled);
    assert_int_equal(jespan_exit(a), 0);
    assert_current(in_b);
    assert_int_equal(jespan_exit(b), 0);
    assert_current(labelled);
    leave(a);
    jespan_close(b);
    assert_int_equal(inside(labelled) + inside(in_b), 0);
}

static void test_many_entries_of_one_span(void **state)
{
    enum { DEPTH = 100000 };
    (void)state;
    jespan_span_t *span = open_in(&site, JESPAN_ROOT);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(jespan_enter(span), 0);
    assert_int_equal(jespan_add_label(NULL, &blue), 0);
    assert_int_equal(inside(handle_context(span)), DEPTH);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(jespan_exit(span), 0);
    jespan_close(span);
}

static void test_a_block_gets_one(void **state)
{
    (void)state;
    uint32_t plain, again = 0;
    for (int i = 0; i < 2; i++) {
        JESPAN("block");
        plain = jespan_current();
        assert_int_equal(jespan_add_label(NULL, i ? &seven : &blue), 0);
        assert_int_not_equal(jespan_current(), plain);
        assert_int_not_equal(jespan_current(), again);
        assert_int_equal(inside(plain), 0);
        assert_int_equal(inside(jespan_current()), 1);
        again = jespan_current();
        JESPAN("below");
        assert_int_equal(contexts[jespan_current()].parent, again);
    }
    assert_int_equal(inside(again), 0);
}

static void test_a_block_with_labels(void **state)
{
    (void)state;
    uint32_t id = 0;
    for (int n = 0; n < 3; n++) {
        JESPAN_WITH("block", JESPAN_LABEL("route", "/"), JESPAN_LABEL_INT("shard", n == 1 ? 8 : 7));
        assert_int_equal(contexts[jespan_current()].labels->integers, 2);
        assert_int_equal(contexts[jespan_current()].labels->count, 2);
        if (n == 0)
            id = jespan_current();
        assert_int_equal(jespan_current() == id, n != 1);
    }
    {
        JESPAN_WITH("block", {"k", NULL}, {NULL, "v"}, {"k", "v", 0, 3}, {"left", "over"});
        assert_int_equal(contexts[jespan_current()].labels->count, 1);
    }
    struct jespan_block scope;
    jespan_enter_block_labels(&scope, &site, NULL, 5);
    assert_null(contexts[jespan_current()].labels);
    jespan_exit_block(&scope);
    jespan_enter_block_labels(NULL, &site, &blue, 1);
    jespan_enter_block_labels(&scope, NULL, &blue, 1);
    jespan_exit_block(&scope);
}

/* A span that was opened below stays in its context, and keeps the old context alive. */
static void test_what_is_below_stays(void **state)
{
    (void)state;
    jespan_span_t *a = enter_new(&site);
    uint32_t plain = jespan_current();
    jespan_span_t *b = enter_new(&inner);
    uint32_t below = jespan_current();
    assert_int_equal(jespan_add_label(a, &blue), 0);
    recycle();
    assert_current(below);
    assert_int_equal(contexts[below].parent, plain);
    assert_true(tree_is_live(plain));
    leave(b);
    b = enter_new(&inner);
    assert_int_equal(contexts[jespan_current()].parent, handle_context(a));
    leave(b);
    leave(a);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Checks a time against its bounds, within the precision of the clocks. */
static void assert_time(uint64_t ns, uint64_t least, uint64_t most)
{
    assert_in_range(ns, least - least / 100, most + most / 100 + 100000);
}

/* Each context has the time from one moment to the next, and one span. */
static void assert_times(uint32_t id, const uint64_t from[2], const uint64_t to[2])
{
    struct snapshot *s = snapshot_take();
    const struct snapshot_row *row = snapshot_find(s, id);
    assert_time(row->totals.busy, to[0] - from[1], to[1] - from[0]);
    assert_time(row->wall_ns, to[0] - from[1], to[1] - from[0]);
    assert_int_equal(row->totals.opens, 1);
    assert_int_equal(row->totals.enters, row->totals.exits);
    assert_int_equal(row->open_spans, 0);
    snapshot_free(s);
}

/* at[i] has the clock's readings before and after a span begins, gets its label, and ends. */
static void test_time_is_divided(void **state)
{
    uint64_t at[3][2];
    uint32_t plain, labelled;
    (void)state;
    for (int is_block = 0; is_block < 2; is_block++) {
        struct jespan_block scope;
        jespan_span_t *span = NULL;
        at[0][0] = now_ns();
        if (is_block)
            jespan_enter_block(&scope, &site, &site.name, 1);
        else
            span = enter_new(&site);
        at[0][1] = now_ns();
        plain = jespan_current();
        usleep(10000);
        at[1][0] = now_ns();
        assert_int_equal(jespan_add_label(span, &blue), 0);
        at[1][1] = now_ns();
        labelled = jespan_current();
        usleep(30000);
        at[2][0] = now_ns();
        if (is_block)
            jespan_exit_block(&scope);
        else
            leave(span);
        at[2][1] = now_ns();
        assert_times(plain, at[0], at[1]);
        assert_times(labelled, at[1], at[2]);
        recycle();
    }
}

/* Time passes for the block, and objects belong to another owner, also when the block gets a label. */
static void test_below_another_owner(void **state)
{
    (void)state;
    jespan_span_t *owner = open_in(&inner, JESPAN_ROOT);
    uint32_t owners = handle_context(owner);
    {
        JESPAN("block");
        JESPAN_CREDIT(owners);
        assert_current(owners);
        assert_int_equal(jespan_add_label(NULL, &blue), 0);
        assert_current(owners);
        const struct entry *block = &self->entries[self->depth - 2];
        assert_int_equal(contexts[block->context].labels->count, 1);
        assert_ptr_equal(self->timed, counters_find(self, block->context));
    }
    jespan_close(owner);
}

static void test_wrong_ones(void **state)
{
    const struct jespan_label keyless = {NULL, "v"}, valueless = {"k", NULL}, strange = {"k", "v", 1, 2};
    (void)state;
    assert_int_equal(jespan_add_label(NULL, &blue), EPERM);
    jespan_span_t *span = enter_new(&site);
    uint32_t plain = jespan_current();
    assert_int_equal(jespan_add_label(span, NULL), EINVAL);
    assert_int_equal(jespan_add_label(span, &keyless), EINVAL);
    assert_int_equal(jespan_add_label(span, &valueless), EINVAL);
    assert_int_equal(jespan_add_label(NULL, &strange), EINVAL);
    assert_int_equal(jespan_add_label((jespan_span_t *)1, &blue), EINVAL);
    assert_int_equal(jespan_add_label((jespan_span_t *)UINTPTR_MAX, &blue), EINVAL);
    jespan_context_t previous = jespan_attach(JESPAN_BASE);
    assert_int_equal(jespan_add_label(NULL, &blue), EPERM);
    jespan_attach(previous);
    assert_current(plain);
    jespan_close(span);
    assert_int_equal(jespan_add_label(span, &blue), EINVAL);
    assert_int_equal(jespan_add_label(NULL, &blue), EINVAL);
    assert_current(plain);
    assert_int_equal(jespan_exit(span), 0);
}

static void test_one_too_many(void **state)
{
    struct jespan_label label = JESPAN_LABEL_INT("", 0);
    char key[2] = "a";
    (void)state;
    jespan_span_t *span = enter_new(&site);
    label.key = key;
    for (; key[0] < 'a' + JESPAN_MAX_LABELS; key[0]++)
        assert_int_equal(jespan_add_label(span, &label), 0);
    uint32_t full = jespan_current();
    uint64_t truncated = sites_truncated();
    assert_int_equal(jespan_add_label(span, &label), ENOSPC);
    assert_int_equal(sites_truncated(), truncated + 1);
    assert_current(full);
    leave(span);
}

/* Takes all numbers. The last spans have the root's context. */
static void open_too_many(jespan_span_t *spans[100])
{
    struct jespan_label number = JESPAN_LABEL_INT("number", 0);
    size_t with_own = 0;
    for (; number.integer < 100; number.integer++) {
        spans[number.integer] = jespan_open(&site, JESPAN_ROOT, &number, 1);
        with_own += handle_context(spans[number.integer]) != CONTEXT_ID_ROOT;
    }
    assert_in_range(with_own, 50, 63);
}

/* When all numbers are taken, a span keeps its context. A span that has only its ancestor's context never changes that
 * one. */
static void test_no_room(void **state)
{
    jespan_span_t *spans[100];
    (void)state;
    open_too_many(spans);
    assert_int_equal(jespan_enter(spans[0]), 0);
    uint32_t had = jespan_current();
    uint64_t overflow = tree_stats().overflow;
    assert_int_equal(jespan_add_label(NULL, &blue), 0);
    assert_current(had);
    assert_int_equal(tree_stats().overflow, overflow + 1);
    {
        JESPAN("no room");
        assert_current(had);
        for (size_t i = 1; i < 50; i++)
            jespan_close(spans[i]);
        recycle();
        assert_int_equal(jespan_add_label(NULL, &blue), 0);
        assert_int_equal(jespan_add_label(spans[99], &blue), 0);
        assert_current(had);
        assert_int_equal(handle_context(spans[99]), CONTEXT_ID_ROOT);
    }
    assert_int_equal(jespan_add_label(NULL, &blue), 0);
    assert_int_not_equal(jespan_current(), had);
    leave(spans[0]);
    for (size_t i = 50; i < 100; i++)
        jespan_close(spans[i]);
}

/* The same for a block, when what was below it has ended and is not below it any more. */
static void test_no_room_and_nothing_below(void **state)
{
    jespan_span_t *spans[100];
    (void)state;
    open_too_many(spans);
    assert_int_equal(jespan_enter(spans[0]), 0);
    assert_int_equal(jespan_enter(spans[99]), 0);
    assert_current(CONTEXT_ID_ROOT);
    {
        JESPAN("no room");
        assert_int_equal(jespan_exit(spans[99]), 0);
        for (size_t i = 1; i < 50; i++)
            jespan_close(spans[i]);
        recycle();
        assert_int_equal(jespan_add_label(NULL, &blue), 0);
        assert_current(CONTEXT_ID_ROOT);
    }
    assert_current(handle_context(spans[0]));
    leave(spans[0]);
    for (size_t i = 50; i < 100; i++)
        jespan_close(spans[i]);
}

/* The last of 16 long labels changes until there is no memory left for the new ones. */
static void test_no_memory(void **state)
{
    struct jespan_label label = {"", "", 0, JESPAN_TYPE_STRING};
    char key[2] = "a", text[JESPAN_MAX_STRING_BYTES + 1] = "";
    int error = 0;
    (void)state;
    memset(text, 'x', sizeof text - 1);
    label.key = key;
    label.value = text;
    jespan_span_t *span = enter_new(&site);
    for (int i = 0; i < JESPAN_MAX_LABELS; i++, key[0]++)
        assert_int_equal(jespan_add_label(span, &label), 0);
    key[0]--;
    no_memory_begin();
    uint32_t context;
    do {
        context = jespan_current();
        text[0]++;
        error = jespan_add_label(span, &label);
    } while (!error && text[0] != 'w');
    no_memory_end();
    assert_int_equal(error, ENOMEM);
    assert_current(context);
    assert_int_equal(handle_context(span), context);
    assert_int_equal(inside(context), 1);
    assert_int_equal(jespan_add_label(span, &label), 0);
    assert_int_not_equal(jespan_current(), context);
    leave(span);
}

/* ---- Threads ---- */

enum { WORKERS = 3, ROUNDS = 30000 };
static jespan_span_t *shared;
static _Atomic bool stop;
static _Atomic uint64_t wrong;
static pthread_barrier_t barrier, held;

static struct thread *other;

static void *enter_once(void *unused)
{
    (void)unused;
    other = track_thread();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    store_relaxed(&wrong, jespan_enter(shared) != 0);
    bool right = jespan_current() == handle_context(shared);
    return jespan_exit(shared) == 0 && right ? NULL : "wrong";
}

/* No thread gets memory for counters until the second wait is over. */
static void *hold_memory(void *unused)
{
    lock(LOCK_META);
    pthread_barrier_wait(&held);
    pthread_barrier_wait(&held);
    unlock(LOCK_META);
    return unused;
}

/* A thread has read the old context and waits for its counters there when the span leaves that context. This is the
 * first test here with another thread, because a block that is taken over has the counters already. */
static void test_moved_between_look_and_count(void **state)
{
    enum { ALL = 64 };
    jespan_span_t *spans[ALL];
    pthread_t thread, holder;
    void *result;
    (void)state;
    for (size_t i = 0; i < ALL; i++) {
        const struct jespan_label number = JESPAN_LABEL_INT("number", i);
        spans[i] = jespan_open(&inner, JESPAN_ROOT, &number, 1);
    }
    for (size_t i = 0; i < ALL; i++) /* the free numbers are those whose counters need another chunk in a new thread */
        if (handle_context(spans[i]) >= COUNTERS_PER_CHUNK) {
            jespan_close(spans[i]);
            spans[i] = NULL;
        }
    recycle();
    shared = open_in(&site, JESPAN_ROOT);
    assert_int_equal(jespan_add_label(shared, &blue), 0); /* the memory that this needs is there for the next time */
    assert_int_equal(jespan_add_label(shared, &red), 0);
    recycle();
    uint32_t before = handle_context(shared);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_barrier_init(&held, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, enter_once, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_null(counters_find(other, before));
    assert_int_equal(pthread_create(&holder, NULL, hold_memory, NULL), 0);
    pthread_barrier_wait(&held);
    pthread_barrier_wait(&barrier);
    usleep(100000); /* the thread waits for the lock by then */
    assert_int_equal(jespan_add_label(shared, &blue), 0);
    pthread_barrier_wait(&held);
    pthread_join(holder, NULL);
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(load_relaxed(&wrong), 0);
    assert_int_equal(inside(before) + inside(handle_context(shared)), 0);
    jespan_close(shared);
    for (size_t i = 0; i < ALL; i++)
        jespan_close(spans[i]);
}

static void *stay_inside(void *plain)
{
    jespan_span_t *span = shared;
    store_relaxed(&wrong, 0);
    bool ok = jespan_enter(span) == 0;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* another thread has labelled the span */
    ok = ok && jespan_current() == (uint32_t)(uintptr_t)plain;
    void *p = F(malloc)(100);
    ok = ok && jespan_exit(span) == 0 && jespan_enter(span) == 0;
    ok = ok && jespan_current() != (uint32_t)(uintptr_t)plain && jespan_current() == handle_context(span);
    F(free)(p);
    ok = ok && jespan_exit(span) == 0;
    return ok ? NULL : "wrong";
}

static void test_another_thread_stays_until_it_exits(void **state)
{
    pthread_t thread;
    void *result;
    (void)state;
    shared = open_in(&site, JESPAN_ROOT);
    uint32_t plain = handle_context(shared);
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, stay_inside, (void *)(uintptr_t)plain), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(jespan_add_label(shared, &blue), 0);
    recycle();
    assert_true(tree_is_live(plain));
    assert_int_equal(inside(plain), 1);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(inside(plain), 0);
    jespan_close(shared);
}

static void *enter_and_exit(void *unused)
{
    (void)unused;
    while (!load_relaxed(&stop)) {
        if (jespan_enter(shared))
            continue;
        lock(LOCK_TREE);
        uint32_t context = jespan_current();
        if (!tree_is_live(context) || strcmp(contexts[context].site->name, "shared"))
            atomic_fetch_add_explicit(&wrong, 1, memory_order_relaxed);
        unlock(LOCK_TREE);
        F(free)(F(malloc)(64));
        jespan_exit(shared);
    }
    return NULL;
}

/* With so few contexts, the number that the span leaves goes to another span at once. */
static void test_entering_while_labels_come(void **state)
{
    pthread_t threads[WORKERS];
    (void)state;
    struct totals before = sums_of_all(tree_end());
    shared = open_in(&site, JESPAN_ROOT);
    store_relaxed(&stop, false);
    store_relaxed(&wrong, 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_and_exit, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        const struct jespan_label number = JESPAN_LABEL_INT("number", i % 1000);
        assert_int_equal(jespan_add_label(shared, &number), 0);
        jespan_close(jespan_open(&inner, JESPAN_ROOT, &number, 1));
        if (i % 10 == 0)
            recycle();
    }
    store_relaxed(&stop, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(load_relaxed(&wrong), 0);
    struct totals t = sums_of_all(tree_end());
    totals_subtract(&t, &before);
    assert_int_equal(t.enters, t.exits);
    assert_int_equal(t.alloc_objects, t.free_objects);
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        assert_true(id == self->base || inside(id) == 0);
    jespan_close(shared);
}

#define LABEL_TEST(function) cmocka_unit_test_setup_teardown(function, nothing_is_left, nothing_is_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LABEL_TEST(test_as_if_opened_with_it),
        LABEL_TEST(test_the_new_context_is_in_use),
        LABEL_TEST(test_every_entry_moves),
        LABEL_TEST(test_many_entries_of_one_span),
        LABEL_TEST(test_a_block_gets_one),
        LABEL_TEST(test_a_block_with_labels),
        LABEL_TEST(test_what_is_below_stays),
        LABEL_TEST(test_time_is_divided),
        LABEL_TEST(test_below_another_owner),
        LABEL_TEST(test_wrong_ones),
        LABEL_TEST(test_one_too_many),
        LABEL_TEST(test_no_room),
        LABEL_TEST(test_no_room_and_nothing_below),
        LABEL_TEST(test_no_memory),
        LABEL_TEST(test_moved_between_look_and_count),
        LABEL_TEST(test_another_thread_stays_until_it_exits),
        LABEL_TEST(test_entering_while_labels_come),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
