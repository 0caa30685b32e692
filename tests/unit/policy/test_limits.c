/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: bytes in use, nested limits, stocks, buffers, held bytes, contexts that come and go, and patterns in the
 * configuration. Programs that meet their limits are in tests/integration/limits.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/complaints.h"
#include "../../support/family.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "policy/limit_internal.h"
#include "span/span.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:4096,max_limits:8";

enum { KIB = 1024, MIB = 1024 * KIB };

static struct thread *self;

static int boot(void **state)
{
    (void)state;
    self = track_thread();
    return self ? 0 : -1;
}

/* ---- Contexts and what is in use of them ---- */

static const struct jespan_site outer = {"outer", "", "", 1}, inner = {"inner", "", "", 2}, leaf = {"leaf", "", "", 3};

static jespan_span_t *open_in(const struct jespan_site *site, uint32_t parent, uint32_t *context)
{
    jespan_span_t *span = jespan_open(site, parent, NULL, 0);
    assert_non_null(span);
    assert_int_equal(jespan_enter(span), 0);
    *context = jespan_current();
    assert_int_equal(jespan_exit(span), 0);
    return span;
}

/* Counts an allocation or a free in the context, on this thread, without asking a limit. */
static void count(uint32_t context, uint64_t allocated, uint64_t freed)
{
    struct counters *c = counters_get(self, context);
    uint32_t section = limits_begin(self);
    if (allocated)
        counters_add_alloc(c, allocated, allocated);
    limits_charge_anyway(limits_of(context), 0, allocated);
    limits_end(self, section);
    if (freed)
        track_count_frees(self, context, 1, freed);
}

static void count_held(struct thread *t, uint32_t context, uint64_t bytes)
{
    struct counters *c = counters_get(t, context);
    uint32_t section = limits_begin(t);
    counters_add_alloc(c, bytes, bytes);
    limits_use(t, bytes);
    limits_end(t, section);
}

/* Asks the limit and counts, as malloc does. */
static bool take(struct thread *t, uint32_t context, uint64_t bytes)
{
    struct counters *c = counters_get(t, context);
    switch (limits_hold(t, context, bytes, false)) {
    case LIMITS_HELD:
        count_held(t, context, bytes);
        return true;
    case LIMITS_NONE:
        counters_add_alloc(c, bytes, bytes);
        return true;
    default:
        return false;
    }
}

static uint64_t inuse_of(uint32_t context)
{
    struct limit_figures figures;
    assert_int_equal(limits_get(context, &figures), 0);
    return figures.inuse_bytes;
}

static uint64_t refusals_of(uint32_t context)
{
    struct limit_figures figures;
    assert_int_equal(limits_get(context, &figures), 0);
    return figures.refusals;
}

static bool has_limit(uint32_t context)
{
    struct limit_figures figures;
    return !limits_get(context, &figures) && figures.exists;
}

static struct spans {
    jespan_span_t *outer, *inner, *leaf;
    uint32_t a, b, c; /* their contexts */
} s;

static int open_spans(void **state)
{
    (void)state;
    s.outer = open_in(&outer, JESPAN_ROOT, &s.a);
    s.inner = open_in(&inner, s.a, &s.b);
    s.leaf = open_in(&leaf, s.b, &s.c);
    return 0;
}

/* Frees all that a test has counted, because counters are kept between tests. */
static int close_spans(void **state)
{
    (void)state;
    uint32_t ids[] = {s.a, s.b, s.c};
    for (int i = 0; i < 3; i++) {
        struct totals t = tree_totals(ids[i]);
        count(ids[i], 0, totals_inuse_bytes(&t));
        jespan_set_limit(ids[i], 0, 0);
    }
    jespan_close(s.leaf);
    jespan_close(s.inner);
    jespan_close(s.outer);
    assert_int_equal(limits_stats().limits, 0);
    return 0;
}

/* ---- Sums ---- */

static void test_all_below_counts(void **state)
{
    (void)state;
    count(s.a, 100, 0);
    count(s.c, 1000, 0);
    assert_int_equal(jespan_set_limit(s.a, 0, MIB), 0);
    assert_int_equal(inuse_of(s.a), 1100);
    count(s.c, 0, 300);
    count(s.b, 7, 0);
    assert_int_equal(inuse_of(s.a), 807);
    assert_int_equal(jespan_set_limit(s.b, 0, MIB), 0);
    assert_int_equal(inuse_of(s.a), 807);
    assert_int_equal(inuse_of(s.b), 707);
}

/* Limits are set and removed in every order. */
static void test_limits_come_and_go_in_any_order(void **state)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}};
    (void)state;
    uint32_t ids[] = {s.a, s.b, s.c};
    uint64_t expected[] = {111, 11, 1};
    count(s.a, 100, 0);
    count(s.b, 10, 0);
    count(s.c, 1, 0);
    for (int set = 0; set < 6; set++) {
        for (int unset = 0; unset < 6; unset++) {
            for (int i = 0; i < 3; i++) {
                assert_int_equal(jespan_set_limit(ids[orders[set][i]], 0, MIB), 0);
                for (int j = 0; j <= i; j++)
                    assert_int_equal(inuse_of(ids[orders[set][j]]), expected[orders[set][j]]);
            }
            for (int i = 0; i < 3; i++) {
                assert_int_equal(jespan_set_limit(ids[orders[unset][i]], 0, 0), 0);
                assert_false(has_limit(ids[orders[unset][i]]));
                for (int j = i + 1; j < 3; j++)
                    assert_int_equal(inuse_of(ids[orders[unset][j]]), expected[orders[unset][j]]);
            }
        }
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(load_relaxed(&context_heads[ids[i]].limit), 0);
}

static void test_contexts_join_as_they_are_made(void **state)
{
    static const struct jespan_site late = {"late", "", "", 4};
    uint32_t id;
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, MIB), 0);
    jespan_span_t *span = open_in(&late, s.c, &id);
    count(id, 50, 0);
    assert_int_equal(inuse_of(s.a), 50);
    count(id, 0, 50);
    jespan_close(span);
    lock(LOCK_TREE);
    assert_true(tree_recycle(true) > 0);
    unlock(LOCK_TREE);
    assert_false(tree_is_live(id));
    count(s.c, 5, 0);
    assert_int_equal(inuse_of(s.a), 5);
}

/* An object waits in the free buffer of this thread, or of another one. */
static void test_buffered_frees_make_room(void **state)
{
    (void)state;
    assert_int_equal(jespan_enter(s.leaf), 0);
    void *p = F(malloc)(100 * KIB), *q[3];
    for (int i = 0; i < 3; i++)
        q[i] = F(malloc)(2000);
    assert_int_equal(jespan_exit(s.leaf), 0);
    assert_int_equal(jespan_set_limit(s.a, 0, MIB), 0);
    uint64_t before = inuse_of(s.a);
    assert_true(before >= 106 * KIB - 1000);
    for (int i = 0; i < 3; i++)
        F(free)(q[i]);
    assert_int_equal(inuse_of(s.a), before - 3 * 2048);
    track_flush_any(self);
    assert_int_equal(inuse_of(s.a), before - 3 * 2048);
    F(free)(p);
    assert_int_equal(inuse_of(s.a), 0);
}

/* ---- Admission ---- */

static void test_a_limit_holds_to_the_byte(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    for (int i = 0; i < 100; i++)
        assert_true(take(self, s.c, 1000));
    assert_false(take(self, s.c, 1));
    assert_int_equal(inuse_of(s.a), 100000);
    assert_int_equal(refusals_of(s.a), 1);
    count(s.c, 0, 500);
    assert_false(take(self, s.c, 501));
    assert_true(take(self, s.c, 500));
    assert_false(take(self, s.c, SIZE_MAX));
    assert_int_equal(refusals_of(s.a), 3);
}

static void test_all_above_must_admit(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 10000), 0);
    assert_int_equal(jespan_set_limit(s.b, 0, 8000), 0);
    assert_true(take(self, s.c, 7000));
    assert_false(take(self, s.c, 1001));
    assert_int_equal(refusals_of(s.b), 1);
    assert_int_equal(refusals_of(s.a), 0);
    assert_true(take(self, s.a, 3000));
    assert_false(take(self, s.c, 1));
    assert_int_equal(refusals_of(s.b), 1);
    assert_int_equal(refusals_of(s.a), 1);
    count(s.a, 0, 2000);
    assert_true(take(self, s.c, 1000));
    assert_false(take(self, s.a, 1001));
    assert_true(take(self, s.a, 1000));
}

static void test_soft_limits_refuse_nothing(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 1000, 0), 0);
    assert_true(take(self, s.c, MIB));
    assert_int_equal(refusals_of(s.a), 0);
    assert_int_equal(inuse_of(s.a), MIB);
}

static void test_a_limit_may_change(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100 * MIB), 0);
    assert_true(take(self, s.c, 10));
    assert_int_equal(jespan_set_limit(s.a, 0, 10), 0);
    assert_false(take(self, s.c, 1));
    assert_int_equal(jespan_set_limit(s.a, 0, 11), 0);
    assert_true(take(self, s.c, 1));
    assert_int_equal(jespan_set_limit(s.b, 0, 1), 0);
    assert_int_equal(jespan_set_limit(s.a, 0, 0), 0);
    assert_false(take(self, s.c, 1));
    assert_int_equal(jespan_set_limit(s.b, 0, 0), 0);
    assert_true(take(self, s.c, MIB));
}

/* A thread that waits between allocations that were admitted and are not counted yet. */
static pthread_barrier_t step;
static bool other_admitted;

static void *hold_and_wait(void *bytes)
{
    struct thread *t = track_thread();
    other_admitted = limits_hold(t, s.c, *(size_t *)bytes, false) == LIMITS_HELD;
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    count_held(t, s.c, *(size_t *)bytes);
    pthread_barrier_wait(&step);
    return NULL;
}

static void test_what_others_hold_counts_once(void **state)
{
    size_t bytes = 60000;
    pthread_t thread;
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, hold_and_wait, &bytes), 0);
    pthread_barrier_wait(&step);
    assert_true(other_admitted);
    assert_false(take(self, s.c, 40001));
    assert_int_equal(jespan_set_limit(s.b, 0, 100000), 0); /* the context is below that one, too */
    assert_int_equal(inuse_of(s.b), 60000);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    assert_int_equal(inuse_of(s.a), 60000);
    assert_int_equal(inuse_of(s.b), 60000);
    assert_false(take(self, s.c, 40001));
    assert_true(take(self, s.c, 40000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(take(self, s.c, 1));
}

/* A thread that was about to count an allocation when a limit came, and counts it before a second limit comes. */
static void *count_late(void *unused)
{
    struct thread *t = track_thread();
    assert_int_equal(jespan_enter(s.leaf), 0);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    counters_add_alloc(t->current, 384, 384);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    assert_int_equal(jespan_exit(s.leaf), 0);
    return unused;
}

static void test_what_others_count_late_counts_once(void **state)
{
    pthread_t thread;
    (void)state;
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, count_late, NULL), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    assert_int_equal(jespan_set_limit(s.b, 0, 100000), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(inuse_of(s.a), 384);
    assert_int_equal(inuse_of(s.b), 384);
}

/* The stock of one thread is available to others. */
static void *take_and_wait(void *unused)
{
    struct thread *t = track_thread();
    assert_true(take(t, s.c, 1));
    assert_true(load_relaxed(&limit_at(load_relaxed(&context_heads[s.c].limit))->charged) > 1000);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    other_admitted = take(t, s.c, 1);
    return unused;
}

static void test_stocks_are_called_back(void **state)
{
    pthread_t thread;
    int taken = 0;
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, take_and_wait, NULL), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(inuse_of(s.a), 1);
    while (taken < 2000 && take(self, s.c, 100))
        taken++;
    assert_int_equal(taken, 999);
    assert_true(take(self, s.c, 99));
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(other_admitted);
    assert_int_equal(inuse_of(s.a), 100000);
}

/* The object stays in this thread's buffer until the second step. */
static void *free_and_wait(void *p)
{
    F(free)(p);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    track_flush_any(track_thread());
    pthread_barrier_wait(&step);
    return NULL;
}

/* Allocates in the leaf. Another thread puts the object into its free buffer. */
static pthread_t begin_free_by_other(void *(*run)(void *))
{
    pthread_t thread;
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    assert_int_equal(jespan_enter(s.leaf), 0);
    void *p = F(malloc)(2000);
    assert_int_equal(jespan_exit(s.leaf), 0);
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, run, p), 0);
    pthread_barrier_wait(&step);
    return thread;
}

static void test_frees_of_others_are_claimed_once(void **state)
{
    (void)state;
    pthread_t thread = begin_free_by_other(free_and_wait);
    assert_true(take(self, s.c, 100000));
    assert_int_equal(inuse_of(s.a), 100000);
    assert_int_equal(jespan_set_limit(s.b, 0, 100000), 0);
    assert_int_equal(inuse_of(s.b), 100000);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(inuse_of(s.a), 100000);
    assert_int_equal(inuse_of(s.b), 100000);
    assert_false(take(self, s.c, 1));
}

static struct thread *_Atomic who_freed;

static void *free_and_be_found(void *p)
{
    store_release(&who_freed, track_thread());
    return free_and_wait(p);
}

/* A thread that looks for room reads the buffers of running threads. The header there may be free memory by now, or
 * have a survivor's mark. */
static void test_wrong_tags_in_buffers_are_ignored(void **state)
{
    static const uint32_t wrong[] = {TAGS_MAX - 1, TAGS_MAX / 2 + 1, 4095, HEADER_PLAIN};
    (void)state;
    pthread_t thread = begin_free_by_other(free_and_be_found);
    header_t *slot = load_relaxed(&load_acquire(&who_freed)->free_buffer_slot[0]);
    assert_int_equal(header_get(slot, false), s.c);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        header_set(slot, false, wrong[i]);
        assert_false(take(self, s.c, 99000));
    }
    header_set(slot, false, s.c | TAG_SURVIVOR);
    assert_true(take(self, s.c, 99000));
    header_set(slot, false, s.c);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(inuse_of(s.a), 99000);
}

/* After a limit is lowered, the stocks of threads do not exceed it. */
static void test_a_lower_limit_holds_at_once(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100 * MIB), 0);
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, take_and_wait, NULL), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(jespan_set_limit(s.a, 0, 1), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(other_admitted);
}

/* Many threads take all that they get, small or large pieces, at limits of any size. */
enum { THREADS = 16 };
static uint64_t peak, hard_bytes, took[THREADS];

static void note_peak(uint64_t now)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    peak = now > peak ? now : peak;
    pthread_mutex_unlock(&mutex);
}

static void *take_all(void *n)
{
    struct thread *t = track_thread();
    uint64_t i = *(uint64_t *)n, seed = i + 1, bytes;
    *(uint64_t *)n = 0;
    pthread_barrier_wait(&step);
    for (int failed = 0; failed < 50 && *(uint64_t *)n <= 2 * hard_bytes; *(uint64_t *)n += failed ? 0 : bytes) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes = i % 4 ? 16 + (seed >> 56) : 1 + (seed >> 33) % (hard_bytes / 50);
        bool admitted = take(t, s.c, bytes);
        failed = admitted ? 0 : failed + 1;
    }
    uint32_t limit = load_relaxed(&context_heads[s.a].limit);
    assert_true(load_relaxed(&limit_at(limit)->charged) <= hard_bytes);
    note_peak(limits_inuse(limit));
    return NULL;
}

static void check_nothing_over(uint64_t hard)
{
    pthread_t threads[THREADS];
    struct totals t = tree_totals(s.c);
    count(s.c, 0, totals_inuse_bytes(&t));
    hard_bytes = hard;
    peak = 0;
    assert_int_equal(jespan_set_limit(s.a, 0, hard), 0);
    pthread_barrier_init(&step, NULL, THREADS);
    for (uint64_t i = 0; i < THREADS; i++) {
        took[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &took[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    print_message("limit %llu: peak %+lld bytes\n", (unsigned long long)hard, (long long)(peak - hard));
    assert_true(peak <= hard);
    assert_true(peak >= hard - hard / 50);
}

static void test_nothing_is_over(void **state)
{
    (void)state;
    for (uint64_t hard = 64 * KIB; hard <= 256 * MIB; hard *= 8)
        check_nothing_over(hard);
}

/* ---- What can have one ---- */

static void test_not_every_context_can_have_one(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(CONTEXT_ID_SELF, 0, 1), EINVAL);
    assert_int_equal(jespan_set_limit(CONTEXT_ID_UNSAMPLED, 0, 1), EINVAL);
    assert_int_equal(jespan_set_limit(4000, 0, 1), EINVAL);
    assert_int_equal(jespan_set_limit(JESPAN_INVALID, 0, 1), EINVAL);
    assert_int_equal(jespan_set_limit(s.a, 2, 1), EINVAL);
    assert_int_equal(jespan_set_limit(s.a, 0, 0), 0);
    assert_int_equal(jespan_set_limit(JESPAN_ROOT, 0, 1u << 30), 0);
    assert_int_equal(load_relaxed(&context_heads[CONTEXT_ID_SELF].limit), 0);
    assert_int_not_equal(load_relaxed(&context_heads[s.c].limit), 0);
    assert_int_equal(inuse_of(CONTEXT_ID_ROOT), inuse_of(JESPAN_ROOT));
    assert_int_equal(jespan_set_limit(JESPAN_ROOT, 0, 0), 0);
    assert_int_equal(load_relaxed(&context_heads[s.c].limit), 0);
}

static void test_they_are_bounded(void **state)
{
    jespan_span_t *spans[9];
    uint32_t ids[9];
    char name[8];
    (void)state;
    for (int i = 0; i < 9; i++) {
        const struct jespan_site site = {name, "", "", (uint32_t)i};
        snprintf(name, sizeof name, "n%d", i);
        spans[i] = open_in(&site, s.a, &ids[i]);
        assert_int_equal(jespan_set_limit(ids[i], 1, 0), i < 8 ? 0 : ENOSPC);
    }
    assert_int_equal(limits_stats().limits, 8);
    assert_int_equal(jespan_set_limit(ids[3], 0, 0), 0);
    assert_int_equal(jespan_set_limit(ids[8], 0, 5), 0);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(jespan_set_limit(ids[i], 0, 0), 0);
        jespan_close(spans[i]);
    }
}

static void test_a_limit_keeps_its_context(void **state)
{
    static const struct jespan_site kept = {"kept", "", "", 9};
    uint32_t id;
    (void)state;
    jespan_span_t *span = open_in(&kept, JESPAN_ROOT, &id);
    assert_int_equal(jespan_set_limit(id, 0, 5), 0);
    assert_int_equal(jespan_set_limit(id, 0, 6), 0);
    jespan_close(span);
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
    assert_true(tree_is_live(id));
    assert_int_equal(jespan_set_limit(id, 0, 0), 0);
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
    assert_false(tree_is_live(id));
}

static const struct jespan_site passing = {"passing", "", "", 10};

static void recycle(uint32_t id)
{
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
    assert_false(tree_is_live(id));
}

/* The object's free waits in a buffer while its context is recycled. */
static void test_a_free_outlives_its_context(void **state)
{
    uint32_t id;
    (void)state;
    assert_int_equal(jespan_set_limit(s.a, 0, 100000), 0);
    jespan_span_t *span = open_in(&passing, s.a, &id);
    assert_int_equal(jespan_enter(span), 0);
    void *p = F(malloc)(2000), *q = F(malloc)(2000);
    F(free)(p);
    F(free)(q);
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
    assert_in_range(self->free_buffer_count, 1, 2);
    recycle(id);
    track_flush_any(self);
    assert_int_equal(inuse_of(s.a), 0);
}

/* ---- The configuration ---- */

/* Configures, and returns how many lines that brought to stderr. */
static int configure(const char *text)
{
    char complaints[8192];
    struct complaints c = complaints_begin();
    strcpy(conf.limit, text);
    limits_conf_boot();
    return complaints_end(&c, complaints, sizeof complaints);
}

static bool matches(const char *name, const char *key, const char *value, uint64_t soft, uint64_t hard)
{
    static union label_draft draft;
    const struct jespan_label label = {key, value};
    const struct site site = {.name = name};
    struct context c = {.kind = CONTEXT_SPAN, .site = &site};
    struct limit_bounds bounds;
    labels_draft(&draft, &label, key ? 1 : 0);
    c.labels = &draft.set;
    return limits_configured(&c, &bounds) && bounds.soft == soft && bounds.hard == hard;
}

static void test_patterns(void **state)
{
    (void)state;
    assert_int_equal(configure("request{tenant=big*}=1G/2G|request{tenant=*}=10K/20M|request=3T|a*b*c=7/|*=5"), 0);
    assert_true(matches("request", "tenant", "bigger", 1u << 30, (uint64_t)2 << 30));
    assert_true(matches("request", "tenant", "small", 10 * KIB, 20 * MIB));
    assert_true(matches("request", "tenant", "", 10 * KIB, 20 * MIB));
    assert_true(matches("request", "route", "big", 0, (uint64_t)3 << 40));
    assert_true(matches("request", NULL, NULL, 0, (uint64_t)3 << 40));
    assert_true(matches("abc", NULL, NULL, 7, 0));
    assert_true(matches("axbbyc", NULL, NULL, 7, 0));
    assert_true(matches("axbbycd", NULL, NULL, 0, 5));
    assert_true(matches("requests", NULL, NULL, 0, 5));
    assert_int_equal(configure("a=1|b*=2"), 0);
    assert_false(matches("c", NULL, NULL, 0, 0));
    assert_true(matches("b", NULL, NULL, 0, 2));
    assert_int_equal(configure("x=y=8|"), 0);
    assert_true(matches("x=y", NULL, NULL, 0, 8));
    assert_int_equal(configure(" tenant {name=acme}=1M / 2M|a b{ k = v w } = 5|vector<int> =6"), 0); /* as reports print them */
    assert_true(matches("tenant", "name", "acme", MIB, 2 * MIB));
    assert_true(matches("a b", "k", "v w", 0, 5));
    assert_true(matches("vector<int>", NULL, NULL, 0, 6));
    assert_int_equal(configure("a{route=x > y}=7"), 0);
    assert_true(matches("a", "route", "x > y", 0, 7));
}

static void test_bad_patterns_are_named(void **state)
{
    static const char *const bad[] = {
        "a", "=5", "a=", "a=0", "a=0/0", "a=/5",
        "a=5X", "a=1KK", "a=-1", "a=1/2/3", "a=16777216T", "a=99999999999999999999",
        "a{b}=5", "a{=c}=5", "{b=c}=5", "a{b=c=5", "a{b=c}x=5", "a=K",
        "request > cache=5", "request>cache=5", "request > cache{b=c}=5", "f<int> > cache=5", " =5", " {b=c}=5", "a{ =c}=5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        print_message("%s\n", bad[i]);
        assert_int_equal(configure(bad[i]), 1);
        assert_false(limits_are_configured);
    }
    assert_int_equal(configure("a=5|b=|c=6|d"), 2);
    assert_true(matches("c", NULL, NULL, 0, 6));
}

static void test_configured_limits_come_with_their_contexts(void **state)
{
    static const struct jespan_site request = {"request", "", "", 20};
    (void)state;
    assert_int_equal(configure("request{tenant=*}=1000"), 0);
    uint64_t lost = limits_stats().lost;
    jespan_span_t *spans[10];
    uint32_t ids[10];
    char value[8];
    for (int i = 0; i < 10; i++) {
        const struct jespan_label label = {"tenant", value};
        snprintf(value, sizeof value, "t%d", i);
        spans[i] = jespan_open(&request, JESPAN_ROOT, &label, 1);
        jespan_enter(spans[i]);
        ids[i] = jespan_current();
        jespan_exit(spans[i]);
        assert_int_equal(has_limit(ids[i]), i < 8);
        assert_int_equal(take(self, ids[i], 1001), i >= 8);
    }
    assert_int_equal(limits_stats().lost, lost + 2);
    for (int i = 0; i < 10; i++)
        jespan_close(spans[i]);
    count(ids[8], 0, 1001);
    count(ids[9], 0, 1001);
    configure("");
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
    assert_int_equal(limits_stats().limits, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_spans, close_spans)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_below_counts),
        TEST(test_limits_come_and_go_in_any_order),
        TEST(test_contexts_join_as_they_are_made),
        TEST(test_buffered_frees_make_room),
        TEST(test_a_limit_holds_to_the_byte),
        TEST(test_all_above_must_admit),
        TEST(test_soft_limits_refuse_nothing),
        TEST(test_a_limit_may_change),
        TEST(test_what_others_hold_counts_once),
        TEST(test_what_others_count_late_counts_once),
        TEST(test_stocks_are_called_back),
        TEST(test_frees_of_others_are_claimed_once),
        TEST(test_wrong_tags_in_buffers_are_ignored),
        TEST(test_a_lower_limit_holds_at_once),
        TEST(test_nothing_is_over),
        TEST(test_not_every_context_can_have_one),
        TEST(test_they_are_bounded),
        TEST(test_a_limit_keeps_its_context),
        TEST(test_a_free_outlives_its_context),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_bad_patterns_are_named),
        TEST(test_configured_limits_come_with_their_contexts),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
