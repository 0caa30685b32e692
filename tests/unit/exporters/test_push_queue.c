/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of periods. Periods are refused, too large, too old, or accepted in part. The accepted figures add up to
 * the program's, and memory in use is that of the newest period. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exporters/push_queue.h"

static const struct digest_shape shape = {.labels = ""};
static struct push_queue queue;
static uint64_t happened_bytes, happened_cpu, accepted_bytes, accepted_cpu, in_use;

static int set_up(void **state)
{
    (void)state;
    queue = (struct push_queue){.max_bytes = SIZE_MAX, .max_age_ns = UINT64_MAX};
    happened_bytes = happened_cpu = accepted_bytes = accepted_cpu = in_use = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    push_queue_free(&queue);
    assert_int_equal(queue.n, 0);
    assert_int_equal(queue.bytes, 0);
    return 0;
}

/* Makes a period in which one span allocated and freed so many bytes. */
static void add_period_of(const char *name, uint64_t allocated, uint64_t freed, uint64_t now_ns)
{
    static uint64_t epoch;
    const struct snapshot_row rows[] = {
        {.id = 1, .name = "(root)", .target = "", .file = ""},
        {.id = 2, .name = name, .target = "", .file = "", .kind = CONTEXT_SPAN},
    };
    const struct snapshot s = {.epoch = ++epoch, .n_rows = 2, .rows = rows};
    struct totals t = {.alloc_bytes = allocated, .free_bytes = freed, .cpu = allocated / 2};
    t.credited_in_bytes = in_use;
    in_use += allocated - freed;
    struct digest *d = digest_make(&shape);
    assert_non_null(d);
    digest_add(d, &s, 1, &t);
    happened_bytes += t.alloc_bytes;
    happened_cpu += t.cpu;
    assert_true(push_queue_add(&queue, d, now_ns));
}

static void add_period(uint64_t allocated, uint64_t freed, uint64_t now_ns)
{
    add_period_of("span", allocated, freed, now_ns);
}

static struct totals totals_of(struct digest *d)
{
    const struct snapshot *view = digest_view(d);
    struct totals sum = {0};
    for (uint32_t i = 0; i < view->n_rows; i++)
        totals_add(&sum, &view->rows[i].totals);
    return sum;
}

static void accept_profile(int profile)
{
    struct waiting *w = push_queue_first(&queue);
    assert_non_null(w);
    assert_false(w->accepted[profile]);
    struct totals t = totals_of(w->digest);
    if (push_profiles[profile].figures == DIGEST_ALLOCATIONS)
        accepted_bytes += t.alloc_bytes;
    if (push_profiles[profile].figures == DIGEST_CPU)
        accepted_cpu += t.cpu;
    w->accepted[profile] = true;
}

static void accept_rest(void)
{
    struct waiting *w = push_queue_first(&queue);
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        if (!w->accepted[i])
            accept_profile(i);
    push_queue_remove(&queue);
}

static void accept_all(void)
{
    while (push_queue_first(&queue) != NULL)
        accept_rest();
    assert_int_equal(accepted_bytes, happened_bytes);
    assert_int_equal(accepted_cpu, happened_cpu);
}

static uint64_t in_use_of_first(void)
{
    struct totals t = totals_of(push_queue_first(&queue)->digest);
    return totals_inuse_bytes(&t);
}

static void test_order(void **state)
{
    (void)state;
    add_period(100, 0, 1);
    add_period(50, 20, 2);
    assert_int_equal(queue.n, 2);
    assert_int_equal(in_use_of_first(), 100);
    accept_rest();
    assert_int_equal(in_use_of_first(), 130);
    accept_all();
    assert_int_equal(queue.merged, 0);
}

static void test_refused_waits_for_next(void **state)
{
    (void)state;
    add_period(100, 0, 1);
    push_queue_refuse(&queue);
    assert_null(push_queue_first(&queue));
    assert_int_equal(queue.n, 1);
    add_period(10, 60, 2);
    assert_int_equal(queue.n, 1);
    assert_int_equal(queue.merged, 1);
    assert_int_equal(in_use_of_first(), 50);
    accept_all();
}

static void test_refused_after_a_part(void **state)
{
    (void)state;
    add_period(100, 0, 1);
    accept_profile(0); /* memory */
    push_queue_refuse(&queue);
    add_period(10, 60, 2);
    assert_int_equal(in_use_of_first(), 50);
    accept_all();
}

static void test_merged_gets_an_id_of_its_own(void **state)
{
    (void)state;
    unsigned char first[16], second[16];
    add_period(1, 0, 1);
    memcpy(first, queue.first->id, 16);
    add_period(1, 0, 2);
    memcpy(second, queue.last->id, 16);
    assert_memory_not_equal(first, second, 16);
    push_queue_refuse(&queue);
    assert_memory_not_equal(queue.first->id, first, 16);
    assert_memory_not_equal(queue.first->id, second, 16);
}

static void test_bytes(void **state)
{
    (void)state;
    add_period(1, 0, 1);
    size_t one = queue.bytes;
    queue.max_bytes = 10 * one;
    for (unsigned i = 0; i < 100; i++) {
        add_period(i, i / 2, i);
        push_queue_limit(&queue, i, false);
        assert_true(queue.bytes <= queue.max_bytes);
    }
    assert_in_range(queue.n, 5, 10);
    assert_int_equal(queue.merged, 101 - queue.n);
    accept_all();
}

/* A period that is being sent is not changed. */
static void test_busy(void **state)
{
    (void)state;
    add_period(7, 0, 1);
    struct waiting *first = queue.first;
    queue.max_bytes = 1;
    for (unsigned i = 0; i < 10; i++) {
        add_period(i, 0, i);
        push_queue_limit(&queue, i, true);
    }
    assert_ptr_equal(queue.first, first);
    assert_int_equal(queue.n, 2);
    struct totals t = totals_of(first->digest);
    assert_int_equal(t.alloc_bytes, 7);
    push_queue_limit(&queue, 10, false);
    assert_int_equal(queue.n, 1);
    accept_all();
}

/* The server may have a period that was sent, so only age removes it. */
static void test_sent(void **state)
{
    (void)state;
    unsigned char id[16];
    queue.max_age_ns = 100;
    queue.max_bytes = 1;
    add_period(7, 0, 1);
    queue.first->sent = true;
    memcpy(id, queue.first->id, 16);
    for (unsigned i = 2; i < 10; i++) {
        add_period(i, 0, i);
        push_queue_limit(&queue, i, false);
        assert_int_equal(queue.n, 2);
    }
    assert_memory_equal(queue.first->id, id, 16);
    assert_int_equal(in_use_of_first(), 7);
    push_queue_limit(&queue, 101, true);
    assert_memory_equal(queue.first->id, id, 16);
    push_queue_limit(&queue, 101, false);
    assert_int_equal(queue.n, 1);
    assert_memory_not_equal(queue.first->id, id, 16);
    accept_all();
}

/* At the end, all periods are merged into one, except those that are being sent or may be at the server. */
static void test_gather(void **state)
{
    (void)state;
    push_queue_gather(&queue, false);
    for (unsigned i = 1; i <= 5; i++)
        add_period(i, 0, i);
    push_queue_gather(&queue, true);
    assert_int_equal(queue.n, 2);
    assert_int_equal(in_use_of_first(), 1);
    accept_rest();
    for (unsigned i = 1; i <= 5; i++)
        add_period(i, 0, i);
    queue.first->sent = true;
    push_queue_gather(&queue, false);
    assert_int_equal(queue.n, 2);
    push_queue_rename(&queue);
    push_queue_gather(&queue, false);
    assert_int_equal(queue.n, 1);
    accept_all();
}

/* If a period is merged that was to tell memory in use, the result tells it, unless it was told already. */
static void test_inuse(void **state)
{
    (void)state;
    add_period(1, 0, 1);
    queue.last->inuse = true;
    add_period(2, 0, 2);
    add_period(3, 0, 3);
    push_queue_gather(&queue, false);
    assert_true(queue.first->inuse);
    accept_profile(PUSH_MEMORY);
    add_period(4, 0, 4);
    push_queue_gather(&queue, false);
    assert_int_equal(queue.n, 1);
    assert_false(queue.first->inuse);
    accept_all();
}

/* Labels of single periods do not fill the queue. */
static void test_merged_is_folded(void **state)
{
    (void)state;
    queue.max_bytes = 1;
    queue.max_nodes = 20;
    for (unsigned i = 0; i < 100; i++) {
        char name[8];
        snprintf(name, sizeof name, "%u", i);
        add_period_of(name, 10, 10, i);
        push_queue_limit(&queue, i, false);
        assert_true(digest_nodes(queue.first->digest) <= 20 + 1);
    }
    assert_int_equal(queue.n, 1);
    assert_in_range(queue.folded, 80, 99);
    accept_all();
}

static void test_age(void **state)
{
    (void)state;
    queue.max_age_ns = 100;
    for (unsigned i = 1; i <= 5; i++)
        add_period(i, 0, 50 * i);
    push_queue_limit(&queue, 250, false);
    assert_int_equal(queue.n, 2); /* of 200 and 250; the other periods are 100 or more old */
    push_queue_limit(&queue, 1000, false);
    assert_int_equal(queue.n, 1); /* the newest stays */
    accept_all();
}

/* All operations in a random order. */
static void test_random(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (unsigned i = 0; i < 20000; i++) {
        struct waiting *first = push_queue_first(&queue);
        int profile = (int)(rand_r(&seed) % PUSH_N_PROFILES);
        switch (rand_r(&seed) % 5) {
        case 0:
            add_period(rand_r(&seed) % 1000, in_use > 0 ? rand_r(&seed) % in_use : 0, i);
            break;
        case 1:
            if (first != NULL && !first->accepted[profile])
                accept_profile(profile);
            break;
        case 2:
            if (first != NULL)
                push_queue_refuse(&queue);
            break;
        case 3:
            queue.max_bytes = rand_r(&seed) % 20000;
            queue.max_age_ns = rand_r(&seed) % 100 + 1;
            push_queue_limit(&queue, i, rand_r(&seed) % 2 != 0);
            break;
        default:
            if (first != NULL && rand_r(&seed) % 2 != 0)
                accept_rest();
            else if (first != NULL)
                first->sent = true;
        }
    }
    add_period(1, 0, 20000);
    queue.max_age_ns = 0;
    push_queue_limit(&queue, 20000, false);
    assert_int_equal(in_use_of_first(), in_use);
    accept_all();
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_order), TEST(test_refused_waits_for_next), TEST(test_refused_after_a_part),
        TEST(test_merged_gets_an_id_of_its_own), TEST(test_bytes), TEST(test_busy), TEST(test_sent),
        TEST(test_gather), TEST(test_inuse),
        TEST(test_merged_is_folded), TEST(test_age), TEST(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
