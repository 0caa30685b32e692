/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of a thread: tag and counters follow the innermost entry, every enter gets its exit, and memory for
 * deep nesting is returned. The API is tested in tests/integration/spans.c. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lock.h"
#include "base/meta.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "span/span.h"

enum { A, B, C, SITES };
static uint32_t in[SITES];
static struct thread *self;

static int boot(void **state)
{
    static const struct jespan_site sites[SITES] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    (void)state;
    self = track_thread();
    for (int i = 0; i < SITES; i++) {
        lock(LOCK_TREE);
        in[i] = tree_intern(CONTEXT_ID_ROOT, CONTEXT_SPAN, &sites[i], NULL);
        contexts[in[i]].open_spans++;
        unlock(LOCK_TREE);
    }
    return self ? 0 : -1;
}

static void push(enum entry_kind kind, uint64_t key, uint32_t context)
{
    struct counters *c = span_count_enter(self, context);
    assert_non_null(c);
    assert_int_equal(span_push(self, kind, key, context, c), 0);
}

static void assert_current(uint32_t context)
{
    assert_int_equal(self->tag, context);
    assert_ptr_equal(self->current, counters_find(self, context));
}

static uint64_t inside(uint32_t context)
{
    struct totals t = sums_of(context);
    return t.enters - t.exits;
}

static int nothing_is_entered(void **state)
{
    (void)state;
    assert_int_equal(self->depth, 0);
    assert_current(self->base);
    for (int i = 0; i < SITES; i++)
        assert_int_equal(inside(in[i]), 0);
    return 0;
}

static void test_the_thread_has_its_names_context(void **state)
{
    char name[16] = "";
    (void)state;
    pthread_getname_np(pthread_self(), name, sizeof name);
    assert_int_equal(contexts[self->base].kind, CONTEXT_THREAD);
    assert_memory_equal(contexts[self->base].site->name, "thread:", 7);
    assert_string_equal(contexts[self->base].site->name + 7, name);
    assert_int_equal(inside(self->base), 1);
}

static void test_removal_in_any_order(void **state)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    (void)state;
    for (int o = 0; o < 6; o++) {
        for (int i = 0; i < 3; i++)
            push(ENTRY_SPAN, 100 + (uint64_t)i, in[i]);
        for (int i = 0; i < 3; i++) {
            int64_t index = span_find(self, ENTRY_SPAN, 100 + (uint64_t)orders[o][i]);
            assert_in_range(index, 0, self->depth - 1);
            span_remove(self, (uint32_t)index);
            assert_int_equal(span_find(self, ENTRY_SPAN, 100 + (uint64_t)orders[o][i]), -1);
            assert_current(self->depth ? self->entries[self->depth - 1].context : self->base);
            assert_int_equal(inside(in[orders[o][i]]), 0);
        }
    }
}

static void test_the_innermost_of_a_kind_and_key_is_found(void **state)
{
    (void)state;
    push(ENTRY_SPAN, 1, in[A]);
    push(ENTRY_BLOCK, 1, in[B]);
    push(ENTRY_SPAN, 1, in[A]);
    push(ENTRY_SPAN, 2, in[C]);
    assert_int_equal(span_find(self, ENTRY_SPAN, 1), 2);
    assert_int_equal(span_find(self, ENTRY_BLOCK, 1), 1);
    assert_int_equal(span_find(self, ENTRY_SPAN, 2), 3);
    assert_int_equal(span_find(self, ENTRY_BLOCK, 2), -1);
    assert_int_equal(inside(in[A]), 2);
    while (self->depth)
        span_remove(self, 0);
}

/* a, attached b, c, attached b, c. Attachments end with the entry that they were made in. */
static void test_attachments_go_with_their_level(void **state)
{
    (void)state;
    push(ENTRY_SPAN, 1, in[A]);
    for (int i = 0; i < 3; i++) {
        push(ENTRY_ATTACHED, 0, in[B]);
        push(ENTRY_SPAN, 2, in[C]);
    }
    for (uint32_t depth = 5; depth >= 3; depth -= 2) {
        span_remove(self, 2);
        assert_int_equal(self->depth, depth);
        assert_current(in[C]);
    }
    assert_int_equal(inside(in[B]), 1);
    assert_int_equal(inside(in[C]), 1);
    push(ENTRY_ATTACHED, 0, in[A]);
    span_remove(self, 0);
    assert_int_equal(self->depth, 2); /* c and the attachment in it */
    assert_int_equal(inside(in[B]), 0);
    span_remove(self, 0);
    assert_int_equal(self->depth, 0);
}

static void test_deep_nesting_and_back(void **state)
{
    enum { DEPTH = 10000 };
    uint64_t mapped = meta_map_bytes();
    (void)state;
    for (uint64_t i = 0; i < DEPTH; i++)
        push(ENTRY_SPAN, i, in[i % SITES]);
    assert_int_equal(self->depth, DEPTH);
    for (uint64_t i = 0; i < DEPTH; i++) {
        assert_int_equal(self->entries[i].key, i);
        assert_int_equal(self->entries[i].context, in[i % SITES]);
    }
    assert_int_equal(inside(in[A]) + inside(in[B]) + inside(in[C]), DEPTH);
    assert_in_range(meta_map_bytes() - mapped, DEPTH * sizeof(struct entry), 2 * DEPTH * sizeof(struct entry));
    uint32_t base = self->base;
    span_leave_all(self);
    assert_int_equal(meta_map_bytes(), mapped);
    assert_ptr_equal(self->entries, self->entries_inline);
    assert_int_equal(self->capacity, ENTRIES_INLINE);
    assert_int_equal(inside(base), 0);
    assert_int_equal(self->base, 0);
    assert_int_equal(span_set_base(self, base), 0);
}

static uint32_t in_scope(void)
{
    JESPAN("cached");
    return jespan_current();
}

/* The thread remembers the scope's context. Meanwhile another context has got its number. */
static void test_a_remembered_context_may_be_recycled(void **state)
{
    (void)state;
    uint32_t id = in_scope(), other = 0;
    assert_int_equal(in_scope(), id);
    lock(LOCK_TREE);
    tree_recycle(true);
    assert_false(tree_is_live(id));
    for (uint32_t line = 1; other != id; line++) {
        const struct jespan_site site = {.name = "other", .line = line};
        other = tree_intern(CONTEXT_ID_ROOT, CONTEXT_SPAN, &site, NULL);
        contexts[other].open_spans++;
    }
    unlock(LOCK_TREE);
    assert_int_not_equal(in_scope(), id);
    assert_int_equal(inside(id), 0);
}

/* The entry is below the current one, and counts as an enter. */
static void test_another_base(void **state)
{
    uint32_t base = self->base;
    (void)state;
    push(ENTRY_SPAN, 1, in[A]);
    assert_int_equal(span_set_base(self, CONTEXT_ID_ROOT), 0);
    assert_current(in[A]);
    assert_int_equal(inside(base), 0);
    span_remove(self, 0);
    assert_current(CONTEXT_ID_ROOT);
    assert_int_equal(span_set_base_by_name(self, "a name that is longer than fifteen bytes"), 0);
    assert_string_equal(contexts[self->tag].site->name, "thread:a name that is ");
    assert_int_equal(span_set_base(self, 0), -ENOMEM);
    assert_int_equal(span_set_base(self, base), 0);
    assert_int_equal(inside(base), 1);
}

#define SPAN_TEST(function) cmocka_unit_test_setup_teardown(function, nothing_is_entered, nothing_is_entered)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPAN_TEST(test_the_thread_has_its_names_context),
        SPAN_TEST(test_removal_in_any_order),
        SPAN_TEST(test_the_innermost_of_a_kind_and_key_is_found),
        SPAN_TEST(test_attachments_go_with_their_level),
        SPAN_TEST(test_deep_nesting_and_back),
        SPAN_TEST(test_a_remembered_context_may_be_recycled),
        SPAN_TEST(test_another_base),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
