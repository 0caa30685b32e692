/* SPDX-License-Identifier: BSD-2-Clause */
/* Readings, chunk by chunk: the same figures as context by context, each buffered free once, threads that come in the
 * middle of one, and snapshots while contexts are as good as empty, so that any wrong order shows below nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/check.h"
#include "../../support/family.h"
#include "../../support/give_back.h"
#include "heap/sums.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false";

enum { SPANS = 100, CROWD = 20, HAMMERS = 3, MAX_CHUNKS = 8 };
static jespan_span_t *spans[SPANS]; /* in four chunks, of which the last is not full */

static int boot(void **state)
{
    static const struct jespan_site site = {.name = "span"};
    (void)state;
    for (int i = 0; i < SPANS; i++) {
        char text[8];
        const struct jespan_label number = {"n", text};
        snprintf(text, sizeof text, "%d", i);
        if (!(spans[i] = jespan_open(&site, JESPAN_ROOT, &number, 1)))
            return -1;
    }
    return track_thread() && tree_end() % READING_CHUNK ? 0 : -1;
}

/* ---- Threads that stay until they are let go ---- */

static pthread_barrier_t counted, leave;

/* Leaves some chunks out, and counts different numbers in different places. */
static void *count(void *number)
{
    struct thread *t = track_thread();
    uint32_t me = (uint32_t)(uintptr_t)number;
    for (uint32_t id = me % 5 * 7; id < tree_end(); id += id / READING_CHUNK % 4 == me % 4 ? READING_CHUNK : 3) {
        struct counters *c = counters_get(t, id);
        own_add(&c->enters, id + me);
        counters_add_alloc(c, id * me + 10, id + 1);
        counters_add_alloc(c, 16, me);
        counters_add_free(c, 16);
        own_add_release(&c->exits, id + me);
    }
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&leave);
    return NULL;
}

static void start(pthread_t *threads, uint32_t n, void *(*function)(void *))
{
    pthread_barrier_init(&counted, NULL, n + 1);
    pthread_barrier_init(&leave, NULL, n + 1);
    for (uintptr_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, function, (void *)i), 0);
    pthread_barrier_wait(&counted);
}

static void finish(pthread_t *threads, uint32_t n)
{
    pthread_barrier_wait(&leave);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- One reading ---- */

static struct reading *reading;
static struct totals sums[MAX_CHUNKS][READING_CHUNK];

static void begin(void)
{
    size_t bytes = reading_bytes();
    reading = reading_begin(malloc(bytes), bytes, tree_end());
}

static void read_chunks(void)
{
    for (uint32_t i = 0; i * READING_CHUNK < tree_end(); i++)
        reading_chunk(reading, i * READING_CHUNK, sums[i]);
}

static void add_free(void *to, uint32_t context, uint32_t bytes)
{
    struct totals *sum = (struct totals *)to + context;
    sum->free_objects++;
    sum->free_bytes += bytes;
}

static uint64_t end(void)
{
    uint64_t bytes = reading_end(reading, add_free, sums);
    free(reading);
    return bytes;
}

static struct totals *sum_of(uint32_t id)
{
    return &sums[0][0] + id;
}

/* More threads than fit into one batch, so that there are full ones and a rest; not all of them in each chunk. */
static void test_chunks_agree_with_single_sums(void **state)
{
    pthread_t threads[CROWD];
    (void)state;
    start(threads, CROWD, count);
    begin();
    read_chunks();
    assert_int_equal(end(), sums_pending_bytes());
    for (uint32_t id = 0; id < tree_end(); id++) {
        struct totals one = sums_of(id);
        assert_memory_equal(sum_of(id), &one, offsetof(struct totals, opens));
    }
    assert_true(sum_of(tree_end() - 1)->alloc_bytes > 100 && sum_of(40)->enters > 40);
    finish(threads, CROWD);
}

/* A free in the buffer counts, whether it is processed before its counter is read, after that, or not at all: once at
 * most. `when` is the step before which it happens. */
static uint64_t frees_read(int when)
{
    struct thread *t = track_thread();
    uint64_t before = sums_of(CONTEXT_ID_ROOT).free_objects;
    F(free)(F(malloc)(64));
    begin();
    if (when == 1)
        track_flush(t);
    read_chunks();
    if (when == 2)
        track_flush(t);
    end();
    give_back(t);
    assert_int_equal(sums_of(CONTEXT_ID_ROOT).free_objects, before + 1);
    return sum_of(CONTEXT_ID_ROOT)->free_objects - before;
}

static void test_a_buffered_free_counts_once(void **state)
{
    (void)state;
    assert_int_equal(frees_read(0), 1);
    assert_int_equal(frees_read(1), 1);
    assert_int_equal(frees_read(2), 0); /* it moved: next time */
}

static void test_pending_bytes(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    F(free)(F(malloc)(64));
    begin();
    assert_int_equal(end(), 64);
    begin();
    track_flush(t); /* into a magazine; not twice */
    assert_int_equal(end(), 64);
    give_back(t);
    begin();
    assert_int_equal(end(), 0);
}

static void *free_one(void *unused)
{
    F(free)(F(malloc)(3000));
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&leave);
    return unused;
}

/* Ours moves, another's does not, whichever comes first in the list. */
static void test_each_buffer_counts_alone(void **state)
{
    pthread_t threads[2];
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    (void)state;
    start(threads, 2, free_one);
    F(free)(F(malloc)(64));
    begin();
    read_chunks();
    track_flush(track_thread());
    end();
    totals_subtract(sum_of(CONTEXT_ID_ROOT), &before);
    assert_int_equal(sum_of(CONTEXT_ID_ROOT)->free_objects, 2);
    assert_int_equal(sum_of(CONTEXT_ID_ROOT)->free_bytes, 2 * 3072);
    give_back(track_thread());
    finish(threads, 2);
}

/* The owner is at it: what it has buffered is left alone. */
static void test_an_odd_buffer_is_left_alone(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    F(free)(F(malloc)(64));
    store_relaxed(&t->free_buffer_sequence, 1 + load_relaxed(&t->free_buffer_sequence));
    begin();
    assert_int_equal(end(), 0);
    begin();
    store_relaxed(&t->free_buffer_sequence, 1 + load_relaxed(&t->free_buffer_sequence));
    assert_int_equal(end(), 0);
    give_back(t);
}

static void *passed[CROWD + 10];

static void *allocate(void *number)
{
    passed[(uintptr_t)number] = F(malloc)(20000); /* large: counted at once */
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&leave);
    return NULL;
}

/* Some of these threads get thread blocks that were not there when the reading began; what they allocated is freed by us, who
 * were. */
static void test_threads_that_come_later_count(void **state)
{
    enum { MORE = CROWD + 10 };
    pthread_t threads[MORE];
    struct totals before = sums_of(CONTEXT_ID_ROOT);
    (void)state;
    begin();
    start(threads, MORE, allocate);
    for (int i = 0; i < MORE; i++)
        F(free)(passed[i]);
    read_chunks();
    end();
    totals_subtract(sum_of(CONTEXT_ID_ROOT), &before);
    assert_int_equal(sum_of(CONTEXT_ID_ROOT)->free_objects, MORE);
    assert_int_equal(sum_of(CONTEXT_ID_ROOT)->alloc_objects, MORE);
    finish(threads, MORE);
}

/* ---- Snapshots under fire ---- */

static _Atomic bool stop;
static _Atomic(void *) handed[SPANS];

/* Each context is empty again and again. Small objects wait in the buffer when they are freed, large ones do not. In a
 * few contexts every other one goes to whoever comes there next. */
static void *hammer(void *seed)
{
    uint32_t at = (uint32_t)(uintptr_t)seed;
    while (!load_relaxed(&stop)) {
        at = at * 1664525u + 1013904223u;
        uint32_t i = (at >> 8) % SPANS;
        jespan_enter(spans[i]);
        void *p = F(malloc)(at >> 31 ? 5000 : 64);
        if (i % 8 == 0) {
            void *q = atomic_exchange(&handed[i], at & 0x8000 ? p : NULL);
            F(free)(q);
            p = at & 0x8000 ? NULL : p;
        }
        F(free)(p);
        jespan_exit(spans[i]);
    }
    return NULL;
}

static bool is_sound(const struct snapshot *s)
{
    struct totals sum = s->retired;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct totals *t = &s->rows[i].totals;
        if (t->alloc_objects < t->free_objects || t->alloc_bytes < t->free_bytes || t->enters < t->exits)
            return false;
        totals_add(&sum, t);
    }
    return memcmp(&sum, &s->all, sizeof sum) == 0;
}

/* Asserts nothing while threads run, which would go on for ever. */
static void test_nothing_is_ever_negative(void **state)
{
    pthread_t threads[HAMMERS];
    struct snapshot *s = NULL;
    int sound = 0, n_snapshots = (int)check_rounds("READING_SNAPSHOTS", 10000);
    (void)state;
    for (uintptr_t i = 0; i < HAMMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int n = 0; n < n_snapshots; n++) {
        s = snapshot_retake(s);
        sound += s && is_sound(s);
    }
    store_relaxed(&stop, true);
    for (int i = 0; i < HAMMERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SPANS; i++)
        F(free)(handed[i]);
    assert_int_equal(sound, n_snapshots);
    assert_non_null(s = snapshot_retake(s));
    assert_true(is_sound(s));
    for (uint32_t i = CONTEXT_ID_SELF; i < s->n_rows; i++) {
        const struct totals *row = &s->rows[i].totals;
        struct totals one = tree_totals(s->rows[i].id);
        assert_memory_equal(row, &one, offsetof(struct totals, opens));
        assert_int_equal(row->alloc_bytes, row->free_bytes);
        assert_int_equal(row->enters, row->exits);
    }
    assert_true(s->all.free_objects > (uint64_t)n_snapshots);
    snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_ever_negative), /* before contexts get objects that stay */
        cmocka_unit_test(test_chunks_agree_with_single_sums),
        cmocka_unit_test(test_a_buffered_free_counts_once),
        cmocka_unit_test(test_each_buffer_counts_alone),
        cmocka_unit_test(test_pending_bytes),
        cmocka_unit_test(test_an_odd_buffer_is_left_alone),
        cmocka_unit_test(test_threads_that_come_later_count),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
