/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: whose batches a thread gets, and what the depot keeps. The objects here are made up: the depot does not look at them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/give_back.h"
#include "../../support/one_processor.h"
#include "heap/classes.h"
#include "heap/depot.h"
#include "malloc/track.h"

#define ALL_BYTES ((uint64_t)4 << 20)
#define CLASS_BYTES ((uint64_t)1 << 20)

static unsigned own, class; /* the thread's shard */
static struct depot_list of_own, here, elsewhere; /* `here` is that of this processor */

static bool put(struct depot_list list)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    for (unsigned i = 0; i < DEPOT_BATCH_MAX; i++)
        objects[i] = (struct free_object){.p = (void *)(uintptr_t)(list.shard * 1000 + i + 1)};
    lock(LOCK_DEPOT + list.shard);
    bool is_put = depot_put(list, own, class, objects);
    unlock(LOCK_DEPOT + list.shard);
    return is_put;
}

static uint32_t take(struct depot_list list, struct free_object *objects)
{
    lock(LOCK_DEPOT + list.shard);
    uint32_t n = depot_take(list, class, objects);
    unlock(LOCK_DEPOT + list.shard);
    return n;
}

static bool is_list(struct depot_list list, struct depot_list expected)
{
    return list.shard == expected.shard && list.is_own == expected.is_own;
}

static struct depot_list at(unsigned distance)
{
    return (struct depot_list){(here.shard + distance) % DEPOT_SHARDS, false};
}

static void take_all(void)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    for (unsigned i = 0; i < DEPOT_LISTS; i++)
        for (unsigned c = 1; c < CLASSES_MAX; c++) {
            class = c;
            while (take(depot_list_at(i), objects))
                continue;
            store_relaxed(&depot.shards[depot_list_at(i).shard].runs[c], 0);
            store_relaxed(&depot.wanted[c], 0);
        }
    assert_int_equal(depot_bytes(), 0);
}

static int begin(void **state)
{
    (void)state;
    own = track_thread()->depot_shard;
    take_all();
    here = (struct depot_list){(unsigned)sched_getcpu() % DEPOT_SHARDS, false};
    elsewhere = at(3);
    of_own = (struct depot_list){own, true};
    class = CODE_CLASS(class_of(64).code);
    return 0;
}

static void test_a_batch_comes_back_whole(void **state)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    (void)state;
    for (unsigned i = 0; i < DEPOT_LISTS; i++) {
        const struct depot_list list = depot_list_at(i);
        assert_false(depot_has(class));
        assert_true(put(list));
        assert_true(depot_has(class));
        assert_int_equal(batches_of(class), 1);
        assert_int_equal(depot_bytes(), depot_batch_objects(class) * class_bytes[class]);
        assert_true(is_list(depot_to_empty(class), list));
        assert_int_equal(take(list, objects), depot_batch_objects(class));
        for (unsigned n = 0; n < depot_batch_objects(class); n++)
            assert_int_equal((uintptr_t)objects[n].p, list.shard * 1000 + n + 1);
        assert_int_equal(take(list, objects), 0);
        assert_int_equal(depot_bytes(), 0);
    }
    assert_true(is_list(depot_to_empty(class), DEPOT_NO_LIST));
    assert_false(depot_has(class));
    assert_true(put(of_own));
    assert_true(put(elsewhere));
    assert_int_equal(take(of_own, objects), depot_batch_objects(class));
    assert_true(depot_has(class));
}

/* A thread has two batches of a class to itself. The next ones are for all threads of the processor. */
static void test_own_batches_come_first(void **state)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    (void)state;
    for (int n = 0; n < 2; n++) {
        assert_true(is_list(depot_to_put(own, class), of_own));
        assert_true(put(of_own));
        assert_true(is_list(depot_to_take(own, class), of_own));
        assert_true(is_list(depot_to_take((own + 1) % DEPOT_SHARDS, class), DEPOT_NO_LIST));
    }
    assert_true(is_list(depot_to_put(own, class), here));
    assert_true(put(here));
    assert_true(is_list(depot_to_take(own, class), of_own));
    assert_true(is_list(depot_to_take((own + 1) % DEPOT_SHARDS, class), here));
    for (int n = 0; n < 2; n++)
        assert_true(take(of_own, objects));
    assert_true(is_list(depot_to_take(own, class), here));
    assert_true(is_list(depot_to_put(own, class), of_own));
}

/* A thread takes from another processor's list when that has had 12 batches, until it has 4. */
static void test_only_a_rich_list_gives_to_others(void **state)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    (void)state;
    for (int n = 1; n < 12; n++) {
        assert_true(put(elsewhere));
        assert_true(is_list(depot_to_take(own, class), DEPOT_NO_LIST));
        assert_true(is_list(depot_to_empty(class), elsewhere));
    }
    assert_true(put(elsewhere));
    for (int n = 12; n > 4; n--) {
        assert_true(is_list(depot_to_take(own, class), elsewhere));
        assert_true(take(elsewhere, objects));
    }
    assert_true(is_list(depot_to_take(own, class), DEPOT_NO_LIST));
    assert_true(put(here));
    assert_true(is_list(depot_to_take(own, class), here));
}

/* The list of a shard's threads is theirs, however much is in it. */
static void test_own_batches_of_others(void **state)
{
    const struct depot_list others = {(own + 1) % DEPOT_SHARDS, true};
    (void)state;
    for (int n = 0; n < 20; n++)
        assert_true(put(others));
    assert_true(is_list(depot_to_take(own, class), DEPOT_NO_LIST));
    assert_true(is_list(depot_to_take(others.shard, class), others));
    assert_true(is_list(depot_to_empty(class), others));
}

/* The next one after this processor's, around the end too. */
static void test_which_rich_list(void **state)
{
    (void)state;
    for (unsigned distance = DEPOT_SHARDS - 1; distance; distance--) {
        for (int n = 0; n < 12; n++)
            assert_true(put(at(distance)));
        assert_true(is_list(depot_to_take(own, class), at(distance)));
    }
}

/* Without an allocation that finds a magazine empty, the threads of a shard put in no more after 512 KiB or 4,096 objects, wherever. */
static void test_a_long_run(void **state)
{
    uint32_t objects = 4096;
    (void)state;
    depot_add_run(own, class, objects);
    assert_false(depot_run_is_long(own, class));
    assert_true(put(here));
    depot_add_run(own, class, 1);
    assert_true(depot_run_is_long(own, class));
    assert_false(put(here));
    assert_false(put(of_own));
    assert_false(put(elsewhere));
    own = (own + 1) % DEPOT_SHARDS;
    assert_false(depot_run_is_long(own, class));
    assert_true(put(here));
    own = of_own.shard;
    depot_want(class);
    assert_true(put(here));
    assert_false(depot_run_is_long(own, class));
    assert_int_equal(load_relaxed(&depot.wanted[class]), 0);
    class = CODE_CLASS(class_of(2048).code);
    depot_add_run(own, class, (512 << 10) / 2048);
    assert_true(put(here));
    depot_add_run(own, class, 1);
    assert_false(put(here));
}

static unsigned fill(struct depot_list list)
{
    unsigned n = 0;
    while (put(list))
        n++;
    return n;
}

/* In both lists of a shard together. */
static void test_a_class_is_bounded(void **state)
{
    (void)state;
    assert_true(put((struct depot_list){here.shard, true}));
    assert_int_equal(fill(here), 127);
    assert_false(put((struct depot_list){here.shard, true}));
    assert_int_equal(fill(elsewhere), 128);
    class = CODE_CLASS(class_of(512).code);
    assert_int_equal(fill(here), CLASS_BYTES / (depot_batch_objects(class) * 512));
}

/* All shards together have 4 MiB at most, whichever has them, and none that is empty withholds much from the others. */
static void test_all_are_bounded(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2 * DEPOT_SHARDS; round++) {
        take_all();
        for (class = 1; class_bytes[class]; class++)
            if (depot_batch_objects(class))
                fill(at(round));
        assert_in_range(depot_bytes(), ALL_BYTES / 2, ALL_BYTES);
    }
    for (unsigned distance = 0; distance < DEPOT_SHARDS; distance++)
        for (class = 1; class_bytes[class]; class++)
            if (depot_batch_objects(class))
                fill(at(distance));
    assert_in_range(depot_bytes(), ALL_BYTES - DEPOT_SHARDS * 65536, ALL_BYTES);
}

static void test_closed(void **state)
{
    (void)state;
    depot_close();
    assert_false(put(here));
}

int main(void)
{
    stay_on_one_processor();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_batch_comes_back_whole, begin),
        cmocka_unit_test_setup(test_own_batches_come_first, begin),
        cmocka_unit_test_setup(test_only_a_rich_list_gives_to_others, begin),
        cmocka_unit_test_setup(test_own_batches_of_others, begin),
        cmocka_unit_test_setup(test_which_rich_list, begin),
        cmocka_unit_test_setup(test_a_long_run, begin),
        cmocka_unit_test_setup(test_a_class_is_bounded, begin),
        cmocka_unit_test_setup(test_all_are_bounded, begin),
        cmocka_unit_test_setup(test_closed, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
