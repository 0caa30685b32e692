/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts are recycled in the middle of a snapshot: after a view has copied lives, and before it copies the contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/spans.h"
#include "jespan/jespan.h"
#include "snapshot/view.h"
#include "snapshot/view_parts.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:256";

/* Contexts are copied to count the rows, and again to fill them. */
enum { SPANS = 240, LONG = 64, LONGEST = 100, INTERRUPT_AT = 2 };
static const struct jespan_site site = {"request", "target", "view.c", 7};

static jespan_span_t *open_span(unsigned number, int width)
{
    char text[LONGEST + 1];
    snprintf(text, sizeof text, "%0*u", width, number);
    const struct jespan_label label = {"a", text};
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
    assert_non_null(span);
    return span;
}

/* ---- The moment ---- */

static unsigned copies;

/* All contexts but those of open spans get longer labels. */
static void recycle_all(void)
{
    jespan_span_t *spans[SPANS];
    for (unsigned i = 0; i < SPANS - 1; i++)
        spans[i] = open_span(i, LONG);
    for (unsigned i = 0; i < SPANS - 1; i++)
        jespan_close(spans[i]);
}

/* Instead of the copies out of a core. */
static int copy_interrupted(struct core_file *there, const struct piece *pieces, size_t n)
{
    (void)there;
    for (const struct piece *p = pieces; p < pieces + n; p++) {
        if (p->from == space_address(contexts) && ++copies == INTERRUPT_AT)
            recycle_all();
        memcpy(p->to, (const void *)(uintptr_t)p->from, p->bytes);
    }
    return 0;
}

/* The labels that others have now would fill the room for those of the span that stays. */
static void test_a_span_that_stays_has_its_labels(void **state)
{
    jespan_span_t *spans[SPANS];
    struct view *view;
    struct snapshot *s = NULL;
    (void)state;
    for (unsigned i = 0; i < SPANS; i++)
        spans[i] = open_span(i, i < SPANS - 1 ? 1 : LONGEST);
    jespan_context_t stays = spans_context(spans[SPANS - 1]), first = spans_context(spans[0]);
    for (unsigned i = 0; i < SPANS - 1; i++)
        jespan_close(spans[i]);
    assert_int_equal(view_open(&view, getpid()), 0);
    view->space.copy = copy_interrupted;
    view->space.core = (struct core_file *)spans; /* it is used by copy_interrupted() only */
    uint32_t life = load_relaxed(&context_lives[first]);
    assert_int_equal(view_take(view, &s), 0);
    assert_true(copies > INTERRUPT_AT && load_relaxed(&context_lives[first]) != life);
    const struct snapshot_row *row = snapshot_find(s, (uint32_t)stays);
    assert_non_null(row);
    assert_int_equal(row->n_labels, 1);
    assert_int_equal(strlen(row->labels[0].value), LONGEST);
    jespan_close(spans[SPANS - 1]);
    view->space.core = NULL;
    snapshot_free(s);
    view_close(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_span_that_stays_has_its_labels)};
    return cmocka_run_group_tests(tests, boot, NULL);
}
