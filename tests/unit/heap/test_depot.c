/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: whose batches a thread gets, and what the depot keeps. The objects here are made up: the depot does not look at them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/one_processor.h"
#include "heap/classes.h"
#include "heap/depot.h"
#include "malloc/track.h"

#define ALL_BYTES ((uint64_t)4 << 20)
#define CLASS_BYTES ((uint64_t)1 << 20)

static unsigned here, elsewhere, class;

static bool put(unsigned shard)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    for (unsigned i = 0; i < DEPOT_BATCH_MAX; i++)
        objects[i] = (struct free_object){.p = (void *)(uintptr_t)(shard * 1000 + i + 1)};
    lock(LOCK_DEPOT + shard);
    bool is_put = depot_put(shard, class, objects);
    unlock(LOCK_DEPOT + shard);
    return is_put;
}

static uint32_t take(unsigned shard, struct free_object *objects)
{
    lock(LOCK_DEPOT + shard);
    uint32_t n = depot_take(shard, class, objects);
    unlock(LOCK_DEPOT + shard);
    return n;
}

static void take_all(void)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    for (unsigned shard = 0; shard < DEPOT_SHARDS; shard++)
        for (unsigned c = 1; c < CLASSES_MAX; c++) {
            class = c;
            while (take(shard, objects))
                continue;
            store_relaxed(&depot.shards[shard].runs[c], 0);
            store_relaxed(&depot.wanted[c], 0);
        }
    assert_int_equal(depot_bytes(), 0);
}

static int begin(void **state)
{
    (void)state;
    track_thread();
    take_all();
    here = depot_shard_here();
    elsewhere = (here + 3) % DEPOT_SHARDS;
    class = CODE_CLASS(class_of(64).code);
    return 0;
}

static void test_a_batch_comes_back_whole(void **state)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    (void)state;
    assert_true(put(here));
    assert_int_equal(depot_count(class), 1);
    assert_int_equal(depot_bytes(), depot_batch_objects(class) * class_bytes[class]);
    assert_int_equal(depot_find(class), here);
    assert_int_equal(take(here, objects), depot_batch_objects(class));
    for (unsigned i = 0; i < depot_batch_objects(class); i++)
        assert_int_equal((uintptr_t)objects[i].p, here * 1000 + i + 1);
    assert_int_equal(take(here, objects), 0);
    assert_int_equal(depot_bytes(), 0);
}

/* A thread takes from another processor's shard when that has had 12 batches, until it has 4. */
static void test_only_a_rich_shard_gives_to_others(void **state)
{
    struct free_object objects[DEPOT_BATCH_MAX];
    (void)state;
    for (int n = 1; n < 12; n++) {
        assert_true(put(elsewhere));
        assert_int_equal(depot_find(class), DEPOT_SHARDS);
        assert_int_equal(depot_find_any(class), elsewhere);
    }
    assert_true(put(elsewhere));
    for (int n = 12; n > 4; n--) {
        assert_int_equal(depot_find(class), elsewhere);
        assert_true(take(elsewhere, objects));
    }
    assert_int_equal(depot_find(class), DEPOT_SHARDS);
    assert_true(put(here));
    assert_int_equal(depot_find(class), here);
}

/* The next one after this processor's, around the end too. */
static void test_which_rich_shard(void **state)
{
    (void)state;
    for (unsigned distance = DEPOT_SHARDS - 1; distance; distance--) {
        for (int n = 0; n < 12; n++)
            assert_true(put((here + distance) % DEPOT_SHARDS));
        assert_int_equal(depot_find(class), (here + distance) % DEPOT_SHARDS);
    }
}

/* Without an allocation that finds a magazine empty, a shard takes no more after 512 KiB or 4,096 objects. */
static void test_a_long_run(void **state)
{
    uint32_t objects = 4096;
    (void)state;
    depot_add_run(here, class, objects);
    assert_false(depot_run_is_long(here, class));
    assert_true(put(here));
    depot_add_run(here, class, 1);
    assert_true(depot_run_is_long(here, class));
    assert_false(put(here));
    assert_false(depot_run_is_long(elsewhere, class));
    assert_true(put(elsewhere));
    depot_want(class);
    assert_true(put(here));
    assert_false(depot_run_is_long(here, class));
    assert_int_equal(load_relaxed(&depot.wanted[class]), 0);
    class = CODE_CLASS(class_of(2048).code);
    depot_add_run(here, class, (512 << 10) / 2048);
    assert_true(put(here));
    depot_add_run(here, class, 1);
    assert_false(put(here));
}

static unsigned fill(unsigned shard)
{
    unsigned n = 0;
    while (put(shard))
        n++;
    return n;
}

static void test_a_class_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(fill(here), 128);
    assert_int_equal(fill(elsewhere), 128);
    class = CODE_CLASS(class_of(512).code);
    assert_int_equal(fill(here), CLASS_BYTES / (depot_batch_objects(class) * 512));
}

/* All shards together have 4 MiB at most, whichever has them, and none that is empty withholds much from the others. */
static void test_all_are_bounded(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2 * DEPOT_SHARDS; round++) {
        unsigned shard = round % DEPOT_SHARDS;
        take_all();
        for (class = 1; class_bytes[class]; class++)
            if (depot_batch_objects(class))
                fill(shard);
        assert_in_range(depot_bytes(), ALL_BYTES / 2, ALL_BYTES);
    }
    for (unsigned shard = 0; shard < DEPOT_SHARDS; shard++)
        for (class = 1; class_bytes[class]; class++)
            if (depot_batch_objects(class))
                fill(shard);
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
        cmocka_unit_test_setup(test_only_a_rich_shard_gives_to_others, begin),
        cmocka_unit_test_setup(test_which_rich_shard, begin),
        cmocka_unit_test_setup(test_a_long_run, begin),
        cmocka_unit_test_setup(test_a_class_is_bounded, begin),
        cmocka_unit_test_setup(test_all_are_bounded, begin),
        cmocka_unit_test_setup(test_closed, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
