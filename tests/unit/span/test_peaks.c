/* SPDX-License-Identifier: BSD-2-Clause */
/* A look for peaks: each context has what it and all contexts below it have in use, however deep they are nested, and whatever numbers
 * they got. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "span/peaks.h"
#include "span/tree.h"

enum { CONTEXTS = 600 };
static const struct jespan_site site = {"below", NULL, NULL, 1};
static jespan_span_t *spans[CONTEXTS];
static jespan_context_t ids[CONTEXTS];
static void *objects[CONTEXTS];
static int parents[CONTEXTS]; /* −1: the root */

static int boot(void **state)
{
    (void)state;
    return track_thread() ? 0 : -1;
}

static void open_one(int i, int parent)
{
    const struct jespan_label number = JESPAN_LABEL_INT("n", i);
    parents[i] = parent;
    spans[i] = jespan_open(&site, parent < 0 ? JESPAN_ROOT : ids[parent], &number, 1);
    assert_int_equal(jespan_enter(spans[i]), 0);
    ids[i] = jespan_current();
    objects[i] = i % 3 ? F(malloc)((size_t)(1 + rand() % 2000)) : NULL;
    assert_int_equal(jespan_exit(spans[i]), 0);
}

static void close_all(void)
{
    for (int i = 0; i < CONTEXTS; i++) {
        F(free)(objects[i]);
        jespan_close(spans[i]);
    }
    lock(LOCK_TREE);
    tree_recycle(true);
    unlock(LOCK_TREE);
}

static void check(void)
{
    uint64_t own[CONTEXTS], total[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++)
        total[i] = own[i] = objects[i] ? F(malloc_usable_size)(objects[i]) : 0;
    for (int i = CONTEXTS; i--;) /* parents were opened first */
        if (parents[i] >= 0)
            total[parents[i]] += total[i];
    peaks_reset();
    assert_int_equal(peaks_look(), PEAKS_RAISED);
    const struct context_peaks *of = load_relaxed(&all_peaks.of);
    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(load_relaxed(&of[ids[i]].own_bytes), own[i]);
        assert_int_equal(load_relaxed(&of[ids[i]].total_bytes), total[i]);
    }
}

static int parent_of(int i, int shape)
{
    const int some[] = {-1, i - 1, rand() % (i + 1) - 1, i - 1 - rand() % 3 % (i + 1)};
    return some[shape];
}

/* Side by side, below one another, and both; the second time with numbers that were given back. */
static void test_shapes(void **state)
{
    (void)state;
    for (int shape = 0; shape < 8; shape++) {
        for (int i = 0; i < CONTEXTS; i++)
            open_one(i, parent_of(i, shape % 4));
        check();
        close_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, boot, NULL);
}
