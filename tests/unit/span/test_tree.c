/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: when two contexts are the same, when one is recycled, what remains of it, and the bound of the
 * tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "base/lock.h"
#include "heap/counters.h"
#include "malloc/track.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:64";

static const struct jespan_site site = {"name", "target", "file", 1};

/* Recycles all contexts that no test keeps in use. */
static int recycle_all(void **state)
{
    (void)state;
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
    assert_int_equal(tree_stats().contexts, 2);
    return 0;
}

static uint32_t intern(uint32_t parent, const char *key, const char *value)
{
    struct jespan_label label = {key, value};
    return intern_with(parent, &site, &label, key ? 1 : 0);
}

static uint32_t recycle(bool unlabelled_too)
{
    lock(LOCK_TREE);
    uint32_t n = tree_recycle(unlabelled_too);
    unlock(LOCK_TREE);
    return n;
}

static struct counters *counters_of(uint32_t id)
{
    return counters_get(track_thread(), id);
}

static void test_the_first_three_are_fixed(void **state)
{
    (void)state;
    assert_string_equal(contexts[CONTEXT_ID_ROOT].site->name, "(root)");
    assert_int_equal(contexts[CONTEXT_ID_ROOT].parent, CONTEXT_ID_ROOT);
    assert_string_equal(contexts[CONTEXT_ID_SELF].site->name, "(jespan)");
    assert_int_equal(contexts[CONTEXT_ID_SELF].kind, CONTEXT_SELF);
    assert_string_equal(contexts[CONTEXT_ID_UNSAMPLED].site->name, "(unsampled)");
    assert_int_equal(contexts[CONTEXT_ID_UNSAMPLED].kind, CONTEXT_UNSAMPLED);
    assert_false(tree_is_live(0));
    assert_false(tree_is_live(tree_end()));
    assert_false(tree_is_live(UINT32_MAX));
}

static void test_nothing_is_below_unsampled(void **state)
{
    uint64_t made = tree_stats().contexts;
    (void)state;
    assert_int_equal(intern(CONTEXT_ID_UNSAMPLED, NULL, NULL), CONTEXT_ID_UNSAMPLED);
    assert_int_equal(intern(CONTEXT_ID_UNSAMPLED, "key", "value"), CONTEXT_ID_UNSAMPLED);
    union label_draft draft; /* adds a label to a span */
    assert_int_equal(labels_draft(&draft, (struct jespan_label[]){{"key", "value"}}, 1), 0);
    lock(LOCK_TREE);
    assert_int_equal(tree_intern(CONTEXT_ID_ROOT, CONTEXT_UNSAMPLED, &site, &draft.set), CONTEXT_ID_UNSAMPLED);
    unlock(LOCK_TREE);
    assert_int_equal(tree_stats().contexts, made);
    assert_int_equal(tree_stats().overflow, 0);
    recycle(true);
    assert_true(tree_is_live(CONTEXT_ID_UNSAMPLED));
}

static void test_equal_contents_are_the_same_context(void **state)
{
    char name[] = "name", key[] = "key", value[] = "value";
    struct jespan_site copy = {name, "target", "file", 1};
    struct jespan_label label = {key, value};
    (void)state;
    uint32_t id = intern(CONTEXT_ID_ROOT, "key", "value");
    assert_int_equal(intern_with(CONTEXT_ID_ROOT, &copy, &label, 1), id);
    memset(name, 'x', sizeof name - 1);
    memset(value, 'x', sizeof value - 1);
    assert_int_equal(intern(CONTEXT_ID_ROOT, "key", "value"), id);
    assert_string_equal(contexts[id].site->name, "name");
    assert_memory_equal(contexts[id].labels->text, "key\0value", 10);
}

static void test_any_difference_is_another_context(void **state)
{
    static const struct jespan_site sites[] = {
        {"name", "target", "file", 1}, {"Name", "target", "file", 1},  {"name", "Target", "file", 1},
        {"name", "target", "File", 1}, {"name", "target", "file", 2},  {"name", "target", NULL, 1},
        {"nametarget", "", "file", 1}, {"", "nametarget", "file", 1},
    };
    static const struct jespan_label labels[] = {{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}, {"a", "bc"}};
    uint32_t ids[16], n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        ids[n++] = intern_with(CONTEXT_ID_ROOT, &sites[i], NULL, 0);
    for (size_t i = 0; i + 1 < sizeof labels / sizeof *labels; i++)
        ids[n++] = intern_with(CONTEXT_ID_ROOT, &site, &labels[i], 1);
    ids[n++] = intern_with(CONTEXT_ID_ROOT, &site, &labels[3], 2);
    ids[n++] = intern(ids[0], NULL, NULL);
    ids[n++] = intern(CONTEXT_ID_SELF, NULL, NULL);
    lock(LOCK_TREE);
    ids[n++] = tree_intern(CONTEXT_ID_ROOT, CONTEXT_THREAD, &site, NULL);
    unlock(LOCK_TREE);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(ids[i], ids[k]);
    assert_int_equal(tree_stats().contexts, n + 2);
    assert_int_equal(intern(ids[n - 1], "below", "a thread"), intern(CONTEXT_ID_ROOT, "below", "a thread"));
}

/* The two sites have the same hash, and so have the two labels. */
static void test_equal_hashes_are_no_equality(void **state)
{
    static const struct jespan_site a = {.name = "n139928"}, b = {.name = "n276166"};
    static const struct jespan_label in_a = {"n144927", ""}, in_b = {"n154291", ""};
    (void)state;
    uint32_t id_a = intern_with(CONTEXT_ID_ROOT, &a, NULL, 0), id_b = intern_with(CONTEXT_ID_ROOT, &b, NULL, 0);
    assert_int_equal(contexts[id_a].hash, contexts[id_b].hash);
    assert_int_not_equal(id_a, id_b);
    id_a = intern_with(CONTEXT_ID_ROOT, &site, &in_a, 1);
    id_b = intern_with(CONTEXT_ID_ROOT, &site, &in_b, 1);
    assert_int_equal(contexts[id_a].hash, contexts[id_b].hash);
    assert_int_not_equal(id_a, id_b);
}

/* Each reason that keeps a context, one at a time. */
static void test_what_is_in_use_stays(void **state)
{
    (void)state;
    uint32_t open = intern(CONTEXT_ID_ROOT, "open", ""), entered = intern(CONTEXT_ID_ROOT, "entered", ""),
             live = intern(CONTEXT_ID_ROOT, "live", ""), parent = intern(CONTEXT_ID_ROOT, "parent", ""),
             child = intern(parent, NULL, NULL), idle = intern(CONTEXT_ID_ROOT, "idle", "");
    contexts[open].open_spans = contexts[child].open_spans = 1;
    own_add(&counters_of(entered)->enters, 1);
    counters_add_alloc(counters_of(live), 64, 64);
    uint32_t generation = load_relaxed(&context_heads[live].generation), of_parent = load_relaxed(&context_heads[parent].generation);
    assert_int_equal(recycle(true), 1);
    assert_false(tree_is_live(idle));
    assert_true(tree_is_live(open) && tree_is_live(entered) && tree_is_live(live) && tree_is_live(parent));
    assert_int_equal(contexts[parent].children, 1);
    assert_int_equal(intern(CONTEXT_ID_ROOT, "live", ""), live);
    assert_int_not_equal(load_relaxed(&context_heads[live].generation), generation + 1);
    assert_int_equal(load_relaxed(&context_heads[parent].generation), of_parent); /* it is still the same context */
    contexts[open].open_spans = contexts[child].open_spans = 0;
    own_add(&counters_of(entered)->exits, 1);
    counters_add_free(counters_of(live), 64);
    assert_int_equal(recycle(true), 5);
}

/* Contexts without a label on their path are few. They stay while others can be recycled. */
static void test_labelled_ones_go_first(void **state)
{
    (void)state;
    uint32_t plain = intern(CONTEXT_ID_ROOT, NULL, NULL), labelled = intern(plain, "key", "value");
    uint32_t below = intern(labelled, NULL, NULL);
    assert_int_equal(recycle(false), 2);
    assert_true(tree_is_live(plain));
    assert_false(tree_is_live(labelled) || tree_is_live(below));
    assert_int_equal(contexts[plain].children, 0);
}

static void test_a_new_identity_starts_from_nothing(void **state)
{
    struct totals retired = tree_retired();
    uint64_t recycled = tree_stats().recycled;
    (void)state;
    uint32_t id = intern(CONTEXT_ID_ROOT, "tenant", "old");
    counters_add_alloc(counters_of(id), 64, 50);
    counters_add_free(counters_of(id), 64);
    assert_int_equal(tree_totals(id).alloc_requested_bytes, 50);
    assert_int_equal(recycle(false), 1);
    assert_int_equal(tree_stats().recycled, recycled + 1);
    struct totals more = tree_retired();
    assert_int_equal(more.alloc_objects - retired.alloc_objects, 1);
    assert_int_equal(more.alloc_requested_bytes - retired.alloc_requested_bytes, 50);
    assert_int_equal(more.free_bytes - retired.free_bytes, 64);
    assert_int_equal(intern(CONTEXT_ID_ROOT, "tenant", "new"), id);
    struct totals fresh = tree_totals(id), nothing = {0};
    assert_memory_equal(&fresh, &nothing, sizeof fresh);
    assert_memory_equal(contexts[id].labels->text, "tenant\0new", 11);
}

/* The tree is full: the nearest ancestor takes over, and is counted. One closed span makes room for one context. */
static void test_there_are_never_more_than_max_contexts(void **state)
{
    uint32_t ids[64], n = 0, parent = intern(CONTEXT_ID_ROOT, NULL, NULL);
    uint64_t overflow = tree_stats().overflow;
    (void)state;
    contexts[parent].open_spans = 1;
    for (uint32_t id; (id = intern(parent, "number", (char[]){(char)('0' + n), 0})) != parent; ids[n++] = id)
        contexts[id].open_spans = 1;
    assert_int_equal(n, 64 - 5); /* 0 is no context; root, own, unsampled, parent */
    for (uint32_t i = 0; i < n; i++) /* the table has grown meanwhile, and finds each of them */
        assert_int_equal(intern(parent, "number", (char[]){(char)('0' + i), 0}), ids[i]);
    assert_int_equal(tree_stats().contexts, 62);
    assert_int_equal(tree_stats().overflow, overflow + 1);
    assert_int_equal(intern(ids[5], "another", ""), ids[5]);
    assert_int_equal(tree_stats().overflow, overflow + 2);
    assert_int_equal(tree_end(), 64);
    for (uint32_t i = 0; i < n; i++)
        contexts[ids[i]].open_spans = 0;
    uint32_t again = parent;
    for (int tries = 0; again == parent && tries < 64; tries++)
        again = intern(parent, "again", "");
    assert_int_not_equal(again, parent);
    assert_in_range(tree_stats().contexts, 3, 62);
    contexts[parent].open_spans = 0;
}

#define TREE_TEST(function) cmocka_unit_test_setup(function, recycle_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(test_the_first_three_are_fixed),
        TREE_TEST(test_nothing_is_below_unsampled),
        TREE_TEST(test_equal_contents_are_the_same_context),
        TREE_TEST(test_any_difference_is_another_context),
        TREE_TEST(test_equal_hashes_are_no_equality),
        TREE_TEST(test_what_is_in_use_stays),
        TREE_TEST(test_labelled_ones_go_first),
        TREE_TEST(test_a_new_identity_starts_from_nothing),
        TREE_TEST(test_there_are_never_more_than_max_contexts),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
