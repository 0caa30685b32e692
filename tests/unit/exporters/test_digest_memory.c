/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods and digests without memory: each allocation in turn fails, alone or with all that follow. Figures may move
 * to an ancestor. No figure is lost or counted twice, folding keeps its bound, and all memory is freed. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/check.h"
#include "../../support/failing_malloc.h"
#include "../../support/made_snapshot.h"
#include "exporters/digest_nodes.h"
#include "exporters/period.h"

static const struct digest_shape shape = {.labels = "id|route"};

static struct totals sum_of(const struct digest *d)
{
    struct totals sum = {0};
    for (uint32_t i = 0; i < d->n_nodes; i++)
        totals_add(&sum, &d->nodes[i].totals);
    return sum;
}

static uint32_t count_figures(const struct digest *d)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < d->n_nodes; i++)
        n += digest_has_figures(&d->nodes[i]);
    return n;
}

static struct totals told;

static void add(void *digest, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    totals_add(&told, totals);
    digest_add(digest, s, row, totals);
}

/* Puts a period into a digest: all of it, or nothing. Returns NULL if there is no digest. */
static struct digest *next(struct period *p, const struct snapshot *s)
{
    struct digest *d = digest_make(&shape);
    if (d == NULL)
        return NULL;
    told = (struct totals){0};
    int error = period_next(p, s, add, d);
    CHECK(error == 0 || error == -ENOMEM);
    struct totals sum = sum_of(d), all = s->retired;
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(&all, &s->rows[i].totals);
    CHECK(memcmp(&sum, &told, sizeof sum) == 0);
    CHECK_EQ(told.alloc_bytes, error == 0 ? all.alloc_bytes : 0);
    return d;
}

static void merge_and_fold(struct digest *newer, struct digest *older, uint32_t max)
{
    struct totals a = sum_of(older), b = sum_of(newer);
    digest_merge(newer, older);
    struct totals sum = sum_of(newer);
    CHECK_EQ(sum.alloc_bytes, a.alloc_bytes + b.alloc_bytes);
    CHECK_EQ(sum.cpu, a.cpu + b.cpu);
    CHECK_EQ(totals_inuse_bytes(&sum), totals_inuse_bytes(&b));
    digest_fold(newer, max);
    struct totals after = sum_of(newer);
    CHECK(memcmp(&sum, &after, sizeof sum) == 0);
    CHECK(count_figures(newer) <= max);
    const struct snapshot *view = digest_view(newer);
    CHECK(view == NULL || view->n_rows >= count_figures(newer));
}

static void run(const struct snapshot *first, const struct snapshot *second, uint32_t max)
{
    struct period *p = period_make(), *q = period_make();
    struct digest *older = p != NULL ? next(p, first) : NULL;
    struct digest *newer = q != NULL ? next(q, second) : NULL;
    if (older != NULL && newer != NULL)
        merge_and_fold(newer, older, max);
    digest_free(older);
    digest_free(newer);
    period_free(p);
    period_free(q);
}

struct periods {
    const struct snapshot *first, *second;
    uint32_t max;
};

static void run_failing(const void *what, long failing)
{
    const struct periods *periods = what;
    start_failing(failing);
    run(periods->first, periods->second, periods->max);
    stop_failing();
    CHECK_EQ(n_live, 0);
}

static void check_kinds(const char *one, const char *other, uint32_t n, uint32_t max)
{
    struct snapshot *first = made_snapshot(one, n), *second = made_snapshot(other, n / 2);
    CHECK(fail_each(run_failing, &(struct periods){first, second, max}) > 20);
    made_snapshot_free(first);
    made_snapshot_free(second);
}

/* Figures that were not delivered for lack of memory are part of the next period. */
static void nothing_is_told_without_memory(void)
{
    struct snapshot *s = made_snapshot("rows", 1000);
    struct period *p = period_make();
    struct digest *d = digest_make(&shape);
    start_failing(1);
    CHECK_EQ(period_next(p, s, add, d), -ENOMEM);
    stop_failing();
    struct totals none = {0}, sum = sum_of(d);
    CHECK(memcmp(&none, &sum, sizeof sum) == 0);
    CHECK_EQ(period_next(p, s, add, d), 0);
    sum = sum_of(d);
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(&none, &s->rows[i].totals);
    CHECK(memcmp(&none, &sum, sizeof sum) == 0);
    digest_free(d);
    period_free(p);
    made_snapshot_free(s);
}

int main(void)
{
    check_kinds("small", "small", 0, 3);
    check_kinds("rows", "chain", 600, 20);
    check_kinds("chain", "rows", 600, 700);
    nothing_is_told_without_memory();
    return check_result();
}
