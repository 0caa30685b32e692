/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of threads, and their sums, while threads come and go. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/family.h"
#include "../../support/give_back.h"
#include "base/lock.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "malloc/track.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false";

enum { OBJECTS = 1000 };
static void *objects[OBJECTS];

/* Returns what changed in the root's sum since `before`. */
static struct totals since(struct totals before)
{
    struct totals now = sums_of(CONTEXT_ID_ROOT);
    totals_subtract(&now, &before);
    return now;
}

static void test_counters_are_made_when_first_used(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    assert_null(counters_find(t, 5 * COUNTERS_PER_CHUNK));
    struct counters *first = counters_get(t, 5 * COUNTERS_PER_CHUNK);
    assert_non_null(first);
    assert_ptr_equal(counters_find(t, 5 * COUNTERS_PER_CHUNK), first);
    assert_ptr_equal(counters_find(t, 6 * COUNTERS_PER_CHUNK - 1), first + COUNTERS_PER_CHUNK - 1);
    assert_null(counters_find(t, 6 * COUNTERS_PER_CHUNK));
    assert_int_equal(sizeof *first, CACHE_LINE_BYTES);
    assert_int_equal((uintptr_t)counters_more(first + 1) % CACHE_LINE_BYTES, 0);
    assert_int_equal(sizeof(struct counters_chunk), 2 * COUNTERS_PAGE_BYTES);
    assert_int_equal((uintptr_t)first % CACHE_LINE_BYTES, 0);
}

static void test_each_figure_adds_and_subtracts(void **state)
{
    enum { FIGURES = sizeof(struct totals) / sizeof(uint64_t) };
    union {
        uint64_t figure[FIGURES];
        struct totals totals;
    } sum, more;
    (void)state;
    for (uint64_t i = 0; i < FIGURES; i++) {
        sum.figure[i] = 1000 + i;
        more.figure[i] = i * i + 1;
    }
    totals_add(&sum.totals, &more.totals);
    for (uint64_t i = 0; i < FIGURES; i++)
        assert_int_equal(sum.figure[i], 1000 + i + i * i + 1);
    totals_subtract(&sum.totals, &more.totals);
    for (uint64_t i = 0; i < FIGURES; i++)
        assert_int_equal(sum.figure[i], 1000 + i);
}

static void test_bytes_are_usable_and_requested(void **state)
{
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    (void)state;
    void *small = F(malloc)(100), *big = F(malloc)(100000);
    size_t usable = F(malloc_usable_size)(small) + F(malloc_usable_size)(big);
    struct totals got = since(before);
    assert_int_equal(got.alloc_objects, 2);
    assert_int_equal(got.alloc_bytes, usable);
    assert_int_equal(got.alloc_requested_bytes, 100100);
    assert_true(usable > 100100);
    F(free)(small);
    F(free)(big);
    got = since(before);
    assert_int_equal(got.free_objects, 2);
    assert_int_equal(got.free_bytes, usable);
}

/* A free counts for the program at once, for jemalloc when the thread gives the object back. */
static void test_buffered_frees_are_counted(void **state)
{
    struct thread *t = track_thread();
    void *p[3];
    (void)state;
    give_back(t);
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    for (int i = 0; i < 3; i++)
        p[i] = F(malloc)(200);
    for (int i = 0; i < 3; i++)
        F(free)(p[i]);
    size_t bytes = since(before).alloc_bytes;
    store_relaxed(&t->free_buffer_sequence, 1 + load_relaxed(&t->free_buffer_sequence));
    assert_int_equal(sums_pending_bytes(), 0); /* its owner is flushing it, so it is not read */
    store_relaxed(&t->free_buffer_sequence, 1 + load_relaxed(&t->free_buffer_sequence));
    for (int flushed = 0; flushed < 2; flushed++) {
        assert_int_equal(sums_pending_bytes(), bytes);
        assert_int_equal(since(before).free_objects, 3);
        assert_int_equal(since(before).free_bytes, bytes);
        track_flush(t);
    }
    give_back(t);
    assert_int_equal(sums_pending_bytes(), 0);
}

static void test_the_orphan_counts_too(void **state)
{
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    (void)state;
    lock(LOCK_ORPHAN);
    counters_add_alloc(counters_orphan(CONTEXT_ID_ROOT), 64, 50);
    counters_add_free(counters_orphan(CONTEXT_ID_ROOT), 64);
    unlock(LOCK_ORPHAN);
    assert_int_equal(since(before).alloc_requested_bytes, 50);
    assert_int_equal(since(before).free_objects, 1);
    assert_int_equal(since(before).free_bytes, 64);
}

/* Three readers give the same figures: of one context, of all contexts, and of each context in an array. */
static void test_readers_agree(void **state)
{
    uint32_t n = tree_end();
    (void)state;
    F(free)(F(malloc)(300));
    struct totals *sums = calloc(n, sizeof *sums), together = {0}, all = sums_of_all(n);
    sums_read(sums, 0, n);
    for (uint32_t id = 0; id < n; id++) {
        struct totals one = sums_of(id);
        assert_memory_equal(&one, &sums[id], offsetof(struct totals, opens));
        totals_add(&together, &one);
    }
    assert_memory_equal(&together, &all, offsetof(struct totals, opens));
    assert_true(all.free_objects > 0 && all.enters > 0);
    free(sums);
}

/* When it ends, its last few frees are still in its buffer. */
static void *allocate(void *unused)
{
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = F(malloc)(64);
    F(free)(objects[0]);
    objects[0] = F(malloc)(64);
    return unused;
}

static void run(void *(*function)(void *))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

static int blocks(void)
{
    int n = 0;
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        n++;
    return n;
}

/* The counts of an ended thread stay. The next thread goes on with its block. */
static void test_ended_threads_keep_counting(void **state)
{
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    uint32_t threads = thread_count();
    int had = 0;
    (void)state;
    give_back(track_thread());
    for (int round = 1; round <= 5; round++) {
        run(allocate);
        assert_int_equal(sums_pending_bytes(), depot_bytes()); /* the thread has left no more */
        assert_int_equal(since(before).alloc_objects, round * (OBJECTS + 1));
        assert_int_equal(since(before).enters, round);
        assert_int_equal(since(before).exits, round);
        assert_int_equal(thread_count(), threads);
        had = had ? had : blocks();
        assert_int_equal(blocks(), had);
        for (int i = 0; i < OBJECTS; i++)
            F(free)(objects[i]);
        give_back(track_thread());
        assert_int_equal(since(before).free_objects, round * (OBJECTS + 1));
        assert_int_equal(since(before).free_bytes, since(before).alloc_bytes);
    }
}

/* The clocks of two processors may differ by some ticks, and the thread that begins next has its block's sums. */
static void test_times_of_ended_threads_are_not_negative(void **state)
{
    struct thread *t = track_thread();
    const struct thread_sums before = t->before, then = {.alloc_bytes = 10, .busy = 100, .cpu = 100},
                             now = {.alloc_bytes = 30, .busy = 98, .cpu = 150};
    uint64_t n = load_relaxed(&thread_pasts.n);
    uint32_t lives = t->lives;
    (void)state;
    t->before = then;
    thread_past_add(t, &now);
    assert_int_equal(load_relaxed(&thread_pasts.n), n + 1);
    const struct thread_sums *past = &load_relaxed(&thread_pasts.chunks[0])[n].sums;
    assert_int_equal(past->alloc_bytes, 20);
    assert_int_equal(past->busy, 0);
    assert_int_equal(past->cpu, 50);
    t->before = before;
    t->lives = lives;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_are_made_when_first_used),
        cmocka_unit_test(test_each_figure_adds_and_subtracts),
        cmocka_unit_test(test_bytes_are_usable_and_requested),
        cmocka_unit_test(test_buffered_frees_are_counted),
        cmocka_unit_test(test_the_orphan_counts_too),
        cmocka_unit_test(test_readers_agree),
        cmocka_unit_test(test_ended_threads_keep_counting),
        cmocka_unit_test(test_times_of_ended_threads_are_not_negative),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
