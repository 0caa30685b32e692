/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: what is in one, that it stays as it is, and that it takes nothing from the heap. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/no_memory.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/meta.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "snapshot/snapshot.h"
#include "span/tree.h"

static const struct jespan_site outer = {"outer", "target", "outer.c", 10}, inner = {"inner", NULL, NULL, 20};
static const struct jespan_label labels[] = {{"tenant", "blue"}, {"route", ""}, JESPAN_LABEL_INT("shard", -7)};

static int boot(void **state)
{
    (void)state;
    snapshot_start_clock();
    return track_thread() ? 0 : -1;
}

/* Opens and enters; the caller leaves with leave(). */
static jespan_context_t enter(const struct jespan_site *site, size_t n_labels, jespan_span_t **span)
{
    *span = jespan_open(site, JESPAN_CURRENT, labels, n_labels);
    assert_int_equal(jespan_enter(*span), 0);
    return jespan_current();
}

static void leave(jespan_span_t *span)
{
    assert_int_equal(jespan_exit(span), 0);
    jespan_close(span);
}

static struct snapshot *take(void)
{
    struct snapshot *s = snapshot_take();
    assert_non_null(s);
    return s;
}

static void test_a_row_says_what_its_context_is(void **state)
{
    jespan_span_t *a, *b;
    (void)state;
    jespan_context_t in_a = enter(&outer, 3, &a), in_b = enter(&inner, 0, &b);
    void *p = F(malloc)(100);
    struct snapshot *s = take();
    const struct snapshot_row *row_a = snapshot_find(s, in_a), *row_b = snapshot_find(s, in_b);
    leave(b);
    leave(a);
    assert_string_equal(row_a->name, "outer");
    assert_string_equal(row_a->target, "target");
    assert_string_equal(row_a->file, "outer.c");
    assert_int_equal(row_a->line, 10);
    assert_int_equal(row_a->kind, CONTEXT_SPAN);
    assert_int_equal(row_a->parent_row, 0);
    assert_int_equal(row_a->n_labels, 3);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(row_a->labels[i].key, labels[i].key);
        assert_string_equal(row_a->labels[i].value, labels[i].value);
        assert_false(row_a->labels[i].is_integer);
    }
    assert_string_equal(row_a->labels[2].key, "shard");
    assert_string_equal(row_a->labels[2].value, "-7");
    assert_int_equal(row_a->labels[2].integer, -7);
    assert_true(row_a->labels[2].is_integer);
    assert_string_equal(row_b->target, "");
    assert_string_equal(row_b->file, "");
    assert_int_equal(row_b->n_labels, 0);
    assert_ptr_equal(&s->rows[row_b->parent_row], row_a);
    assert_int_equal(totals_inuse_objects(&row_b->totals), 1);
    assert_int_equal(totals_inuse_bytes(&row_b->totals), F(malloc_usable_size)(p));
    assert_int_equal(row_b->totals.alloc_requested_bytes, 100);
    assert_int_equal(row_b->totals.enters - row_b->totals.exits, 1);
    assert_int_equal(row_a->totals.alloc_objects, 0);
    F(free)(p);
    snapshot_free(s);
}

static void test_rows_are_ordered_and_found(void **state)
{
    (void)state;
    struct snapshot *s = take();
    assert_int_equal(s->rows[0].id, CONTEXT_ID_ROOT);
    assert_string_equal(s->rows[0].name, "(root)");
    assert_int_equal(s->rows[0].parent_row, 0);
    assert_int_equal(s->rows[1].kind, CONTEXT_SELF);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        assert_true(i == 0 || s->rows[i].id > s->rows[i - 1].id);
        assert_ptr_equal(snapshot_find(s, s->rows[i].id), &s->rows[i]);
        assert_in_range(s->rows[i].parent_row, 0, s->n_rows - 1);
        assert_string_not_equal(s->rows[i].name, "");
    }
    assert_null(snapshot_find(s, 0));
    assert_null(snapshot_find(s, s->rows[s->n_rows - 1].id + 1));
    assert_null(snapshot_find(s, UINT32_MAX));
    snapshot_free(s);
}

static void test_head(void **state)
{
    (void)state;
    struct snapshot *first = take(), *second = take();
    assert_int_equal(second->epoch, first->epoch + 1);
    assert_int_equal(first->pid, getpid());
    assert_true(first->start_unix_ns > 1600000000000000000u);
    assert_true(first->time_unix_ns >= first->start_unix_ns && second->time_unix_ns >= first->time_unix_ns);
    snapshot_free(first);
    snapshot_free(second);
}

/* The clock that a user sets. */
static int64_t set_forward_s;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int error = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME)
        time->tv_sec += (time_t)set_forward_s;
    return error;
}

static uint64_t age(const struct snapshot *s)
{
    return s->time_unix_ns - s->start_unix_ns;
}

/* The time between two snapshots is the elapsed time, whatever the clock was set to: the present time is that of the
 * clock, and the start moves with it. */
static void test_a_clock_that_is_set(void **state)
{
    static const int64_t hours[] = {-24, 24, 0};
    uint64_t last = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        set_forward_s = hours[i] * 3600;
        struct snapshot *s = take();
        assert_true(s->time_unix_ns > s->start_unix_ns && age(s) >= last && age(s) < 3600u * 1000000000u);
        assert_true(s->time_unix_ns <= clock_unix_ns());
        last = age(s);
        snapshot_free(s);
    }
}

#define BUSY_NS 20000000

static int sample_none(const struct jespan_site *site, const struct jespan_label *of, size_t n, void *user)
{
    (void)site, (void)of, (void)n, (void)user;
    return 0;
}

/* They have no row; the root's has what they did, frees that are still buffered too. */
static void test_unsampled_spans_are_the_roots(void **state)
{
    jespan_span_t *span;
    (void)state;
    struct snapshot *before = take();
    jespan_set_sampler(sample_none, NULL);
    assert_int_equal(enter(&outer, 2, &span), CONTEXT_ID_UNSAMPLED);
    void *p = F(malloc)(100), *q = F(malloc)(3000);
    F(free)(q);
    for (uint64_t start = clock_ns(CLOCK_MONOTONIC); clock_ns(CLOCK_MONOTONIC) - start < BUSY_NS;)
        ;
    struct snapshot *s = take();
    uint64_t elapsed = s->time_unix_ns - before->time_unix_ns;
    leave(span);
    jespan_set_sampler(NULL, NULL);
    const struct totals *root = &s->rows[0].totals, *was = &before->rows[0].totals;
    assert_null(snapshot_find(s, CONTEXT_ID_UNSAMPLED));
    assert_int_equal(s->n_rows, before->n_rows);
    assert_int_equal(root->alloc_objects, was->alloc_objects + 2);
    assert_int_equal(root->alloc_requested_bytes, was->alloc_requested_bytes + 3100);
    assert_int_equal(root->free_objects, was->free_objects + 1);
    assert_int_equal(totals_inuse_bytes(root), totals_inuse_bytes(was) + F(malloc_usable_size)(p));
    assert_int_equal(root->enters, was->enters + 1);
    assert_int_equal(root->opens, was->opens + 1);
    assert_int_equal(s->rows[0].open_spans, before->rows[0].open_spans + 2); /* open, and entered */
    assert_in_range(root->busy - was->busy, BUSY_NS - BUSY_NS / 50, elapsed + elapsed / 50);
    assert_int_equal(root->wall - was->wall, root->busy - was->busy);
    assert_int_equal(s->all.alloc_objects, before->all.alloc_objects + 2);
    assert_int_equal(s->all.opens, before->all.opens + 1);
    F(free)(p);
    snapshot_free(before);
    snapshot_free(s);
}

static struct totals rows_and_retired(const struct snapshot *s)
{
    struct totals sum = s->retired;
    uint64_t *to = (uint64_t *)&sum;
    for (uint32_t i = 0; i < s->n_rows; i++)
        for (size_t k = 0; k < sizeof sum / sizeof *to; k++)
            to[k] += ((const uint64_t *)&s->rows[i].totals)[k];
    return sum;
}

/* A snapshot keeps its figures when the number goes to another context. */
static void test_a_snapshot_outlives_its_contexts(void **state)
{
    jespan_span_t *span;
    (void)state;
    jespan_context_t id = enter(&inner, 2, &span);
    F(free)(F(malloc)(500));
    leave(span);
    struct snapshot *before = take();
    lock(LOCK_TREE);
    assert_true(tree_recycle(true) > 0);
    unlock(LOCK_TREE);
    const struct jespan_label other = {"another", "label"};
    jespan_span_t *later = jespan_open(&outer, JESPAN_ROOT, &other, 1);
    struct snapshot *after = take();
    struct totals sum = rows_and_retired(after);
    assert_string_equal(snapshot_find(before, id)->name, "inner");
    assert_string_equal(snapshot_find(before, id)->labels[0].value, "blue");
    assert_int_equal(snapshot_find(before, id)->totals.alloc_requested_bytes, 500);
    assert_true(after->retired.alloc_requested_bytes >= before->retired.alloc_requested_bytes + 500);
    assert_int_equal(totals_inuse_bytes(&after->retired), 0);
    assert_memory_equal(&sum, &after->all, offsetof(struct totals, idle)); /* that of the whole never falls, its parts may */
    assert_int_equal(after->all.alloc_requested_bytes, before->all.alloc_requested_bytes);
    jespan_close(later);
    snapshot_free(before);
    snapshot_free(after);
}

static void recycle(void)
{
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
}

/* A context may be recycled while its last free waits in a buffer. No row has that free then. The number's next context
 * starts from 0, even if the free can be seen neither in the buffer nor in a counter. */
static void test_a_number_given_anew_starts_from_nothing(void **state)
{
    jespan_span_t *span;
    struct thread *t = track_thread();
    (void)state;
    recycle(); /* so that there is one number to take afterwards */
    jespan_context_t id = enter(&inner, 2, &span);
    void *p = F(malloc)(500);
    leave(span);
    track_flush(t);
    F(free)(p);
    struct snapshot *before = take();
    recycle();
    struct snapshot *between = take();
    assert_null(snapshot_find(between, id));
    assert_memory_equal(&between->all, &before->all, offsetof(struct totals, opens));
    for (uint32_t i = 0; i < between->n_rows; i++)
        assert_int_equal(between->rows[i].totals.free_objects,
                         snapshot_find(before, between->rows[i].id)->totals.free_objects);
    jespan_span_t *later = jespan_open(&outer, JESPAN_ROOT, NULL, 0);
    for (int odd = 0; odd < 2; odd++) {
        store_relaxed(&t->free_buffer_sequence, load_relaxed(&t->free_buffer_sequence) + 1); /* the owner is at it; done */
        struct snapshot *after = take();
        const struct totals none = {0}, sum = rows_and_retired(after);
        assert_memory_equal(&snapshot_find(after, id)->totals, &none, offsetof(struct totals, opens));
        assert_memory_equal(&sum, &after->all, sizeof sum);
        snapshot_free(after);
    }
    jespan_close(later);
    snapshot_free(before);
    snapshot_free(between);
}

/* Takes snapshots of a growing and shrinking number of contexts, each in place of the one before. */
static void test_one_in_place_of_another(void **state)
{
    enum { MANY = 2000 };
    static jespan_span_t *spans[MANY];
    uint64_t mapped = meta_map_bytes();
    (void)state;
    struct snapshot *few = take(), *s = snapshot_retake(take());
    uint64_t with_few = meta_map_bytes();
    for (int i = 0; i < MANY; i++) {
        char text[8];
        const struct jespan_label number = {"n", text};
        snprintf(text, sizeof text, "%d", i);
        spans[i] = jespan_open(&outer, JESPAN_ROOT, &number, 1);
    }
    uint64_t arrays_grew = meta_map_bytes() - with_few;
    s = snapshot_retake(s);
    assert_int_equal(s->n_rows, few->n_rows + MANY);
    uint64_t with_many = meta_map_bytes();
    struct snapshot *again = snapshot_retake(s);
    assert_ptr_equal(again, s);
    assert_int_equal(meta_map_bytes(), with_many);
    assert_int_equal(again->n_rows, few->n_rows + MANY);
    for (uint32_t i = 0; i < again->n_rows; i++)
        if (again->rows[i].n_labels == 1)
            jespan_close(spans[strtol(again->rows[i].labels->value, NULL, 10)]); /* each once, or they would not go */
    recycle();
    s = snapshot_retake(again);
    assert_true(s->n_rows <= few->n_rows && meta_map_bytes() < with_many);
    assert_int_equal(s->epoch, few->epoch + 5);
    snapshot_free(s);
    snapshot_free(few);
    assert_int_equal(meta_map_bytes(), mapped + arrays_grew);
}

/* The old one stays, and nothing is mapped for long. */
static void test_no_memory_for_another(void **state)
{
    struct snapshot *old = take();
    uint64_t mapped = meta_map_bytes(), epoch = old->epoch;
    (void)state;
    no_memory_begin();
    struct snapshot *next = snapshot_retake(old), *other = snapshot_take();
    no_memory_end();
    assert_null(next);
    assert_null(other);
    assert_int_equal(meta_map_bytes(), mapped);
    assert_string_equal(old->rows[0].name, "(root)");
    next = snapshot_retake(old);
    assert_int_equal(next->epoch, epoch + 1);
    snapshot_free(next);
}

/* Neither from ours nor from the C library's, which this build leaves in place. */
static void test_memory_is_its_own_and_goes_back(void **state)
{
    uint64_t mapped = meta_map_bytes(), small = meta_alloc_bytes();
    (void)state;
    struct mallinfo2 heap = mallinfo2();
    struct snapshot *first = take(), *second = take();
    assert_int_equal(mallinfo2().uordblks, heap.uordblks);
    assert_int_equal(mallinfo2().hblks, heap.hblks);
    assert_int_equal(second->all.alloc_objects, first->all.alloc_objects);
    assert_int_equal(meta_alloc_bytes(), small);
    snapshot_free(first);
    snapshot_free(second);
    snapshot_free(NULL);
    assert_int_equal(meta_map_bytes(), mapped);
}

/* ---- Nesting ---- */

enum { MANY = 8000, TRIES = 5 };
static jespan_span_t *spans[MANY];
static void *objects[MANY];

static void allocate(int k, size_t bytes)
{
    jespan_enter(spans[k]);
    F(free)(objects[k]);
    objects[k] = F(malloc)(bytes);
    jespan_exit(spans[k]);
}

/* The CPU time of a snapshot of which all rows have changed; the least of some. */
static uint64_t time_of_snapshot(void)
{
    uint64_t least = UINT64_MAX;
    struct snapshot *s = NULL;
    for (int i = 0; i < TRIES; i++) {
        for (int k = 0; k < MANY; k++)
            allocate(k, i % 2 ? 100 : 2000);
        uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        s = snapshot_retake(s);
        uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
        assert_non_null(s);
        least = took < least ? took : least;
    }
    snapshot_free(s);
    return least;
}

/* Opens many spans, below one another or side by side, and allocates in each. */
static uint64_t time_of_spans(bool is_deep)
{
    for (int k = 0; k < MANY; k++) {
        struct jespan_label number = JESPAN_LABEL_INT("n", k);
        spans[k] = jespan_open(&inner, JESPAN_CURRENT, &number, 1);
        assert_int_equal(jespan_enter(spans[k]), 0);
        if (!is_deep)
            jespan_exit(spans[k]);
    }
    uint64_t took = time_of_snapshot();
    for (int k = MANY; k--;) {
        F(free)(objects[k]);
        objects[k] = NULL;
        if (is_deep)
            jespan_exit(spans[k]);
        jespan_close(spans[k]);
    }
    return took;
}

/* With a square, it was some hundred times as long. */
static void test_deep_nesting_takes_about_as_long(void **state)
{
    (void)state;
    uint64_t flat = time_of_spans(false), deep = time_of_spans(true);
    printf("%d contexts: side by side %.3f ms, below one another %.3f ms\n", MANY, (double)flat / 1e6, (double)deep / 1e6);
    assert_true(deep < 20 * flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_says_what_its_context_is), cmocka_unit_test(test_rows_are_ordered_and_found),
        cmocka_unit_test(test_head), cmocka_unit_test(test_a_clock_that_is_set),
        cmocka_unit_test(test_a_snapshot_outlives_its_contexts),
        cmocka_unit_test(test_unsampled_spans_are_the_roots),
        cmocka_unit_test(test_a_number_given_anew_starts_from_nothing),
        cmocka_unit_test(test_one_in_place_of_another), cmocka_unit_test(test_no_memory_for_another),
        cmocka_unit_test(test_memory_is_its_own_and_goes_back),
        cmocka_unit_test(test_deep_nesting_takes_about_as_long),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
