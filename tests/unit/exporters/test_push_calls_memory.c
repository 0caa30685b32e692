/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls in pushed figures without memory: each allocation in turn fails, alone or with all that follow. Figures may stay with the span,
 * or wait for the next period. None is lost or counted twice, and all memory is freed. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/check.h"
#include "../../support/failing_malloc.h"
#include "../../support/made_snapshot.h"
#include "exporters/digest_nodes.h"
#include "exporters/push_calls.h"

enum { SPANS = 40, STACKS = 300, FRAMES = 60 };

static const struct digest_shape shape = {.labels = "id|route"};
static const struct service_host host; /* without names */
static struct stack_frame frames[FRAMES];
static struct snapshot_stack stacks[STACKS];

static void make_stacks(void)
{
    for (uint32_t i = 1; i < FRAMES; i++)
        frames[i] = (struct stack_frame){0x1000 * (uint64_t)i, i / 2, 0};
    for (uint32_t i = 0; i < STACKS; i++)
        stacks[i] = (struct snapshot_stack){.row = i % SPANS, .frame = 1 + i % (FRAMES - 1),
                                            .totals = {.alloc_objects = 1, .alloc_bytes = 100 + i, .free_objects = i % 2,
                                                       .free_bytes = i % 2 * (100 + i)}};
}

static struct snapshot *snapshot_of(uint64_t epoch, uint64_t times)
{
    struct snapshot *s = made_snapshot("rows", SPANS);
    struct snapshot_row *rows = (struct snapshot_row *)s->rows;
    s->epoch = epoch;
    s->frames = frames;
    s->n_frames = FRAMES;
    s->stacks = stacks;
    s->n_stacks = STACKS;
    for (uint32_t i = 0; i < STACKS; i++)
        for (uint64_t n = 0; n < times; n++)
            totals_add(&rows[stacks[i].row].totals, &stacks[i].totals);
    return s;
}

static void check_sum(struct digest *d, const struct snapshot *s, const struct totals *told)
{
    struct totals sum = *told, all = s->retired;
    for (uint32_t i = 0; i < d->n_nodes; i++)
        totals_add(&sum, &d->nodes[i].totals);
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(&all, &s->rows[i].totals);
    CHECK_EQ(sum.alloc_bytes, all.alloc_bytes);
    CHECK_EQ(sum.alloc_objects, all.alloc_objects);
    CHECK_EQ(sum.free_bytes, all.free_bytes);
    CHECK_EQ(sum.cpu, all.cpu);
}

static int end_period(struct digest *d, struct period *period, struct period_stacks *list, const struct snapshot *s, struct totals *told)
{
    struct push_calls calls;
    int error = push_calls_make(&calls, period, list, s);
    if (error == 0) {
        push_calls_find(&calls);
        push_calls_lack_names(&calls, &host);
        push_calls_add(&calls, &host, d);
        check_sum(d, s, told);
        for (uint32_t i = 0; i < d->n_nodes; i++)
            totals_add(told, &d->nodes[i].totals);
    }
    push_calls_free(&calls);
    return error;
}

/* Three periods. A first or second one that cannot be told is part of the third. */
static void run_failing(const void *snapshots, long failing)
{
    const struct snapshot *const *s = snapshots;
    struct period_stacks list = {0};
    struct totals told = {0};
    start_failing(failing);
    struct period *period = period_make();
    for (int i = 0; i < 3 && period; i++) {
        if (i == 2)
            fail_at = and_all_after = 0;
        struct digest *d = digest_make(&shape);
        int error = d ? end_period(d, period, &list, s[i], &told) : -ENOMEM;
        CHECK(error == 0 || (error == -ENOMEM && i < 2));
        digest_free(d);
    }
    period_stacks_free(&list);
    period_free(period);
    stop_failing();
    CHECK_EQ(n_live, 0);
}

int main(void)
{
    make_stacks();
    struct snapshot *s[] = {snapshot_of(1, 1), snapshot_of(2, 2), snapshot_of(3, 3)};
    CHECK(fail_each(run_failing, s) > 20);
    for (int i = 0; i < 3; i++)
        made_snapshot_free(s[i]);
    return check_result();
}
