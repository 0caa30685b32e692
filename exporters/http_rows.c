/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a snapshot as a tree. */
#include "http_rows.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- Sums over the tree ---- */

/* Rows without children are ready first. A row is ready when all its children were added to it. */
bool http_rows_sum(const struct snapshot *s, struct totals *sums)
{
    uint32_t n = s->n_rows, n_ready = 0;
    uint32_t *children = calloc(n + (size_t)1, sizeof *children), *ready = malloc((n + (size_t)1) * sizeof *ready);
    bool done = children && ready;
    for (uint32_t i = 0; done && i < n; i++) {
        sums[i] = s->rows[i].totals;
        if (s->rows[i].parent_row < n && s->rows[i].parent_row != i)
            children[s->rows[i].parent_row]++;
    }
    for (uint32_t i = 0; done && i < n; i++)
        if (children[i] == 0)
            ready[n_ready++] = i;
    for (uint32_t k = 0; done && k < n_ready; k++) {
        uint32_t row = ready[k], parent = s->rows[row].parent_row;
        if (parent >= n || parent == row)
            continue;
        totals_add(&sums[parent], &sums[row]);
        if (--children[parent] == 0)
            ready[n_ready++] = parent;
    }
    free(children);
    free(ready);
    return done;
}

/* ---- Which rows ---- */

struct size {
    uint64_t key;
    uint32_t row;
};

static int compare_sizes(const void *a, const void *b)
{
    const struct size *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key ? -1 : 1) : x->row < y->row ? -1 : x->row > y->row;
}

/* A chosen row has all its ancestors chosen. */
static void add_with_ancestors(const struct snapshot *s, uint32_t row, uint32_t *room, bool *chosen)
{
    uint32_t n = 0, at = row;
    for (; at < s->n_rows && !chosen[at] && n < *room; at = s->rows[at].parent_row, n++)
        chosen[at] = true;
    if (at >= s->n_rows || chosen[at]) {
        *room -= n;
        return;
    }
    for (; n > 0; n--, row = s->rows[row].parent_row)
        chosen[row] = false;
}

bool http_rows_choose(const struct snapshot *s, const struct totals *sums, uint64_t (*key)(const struct totals *sum), uint32_t limit,
                      uint32_t *room, bool *chosen)
{
    struct size *sizes = malloc((s->n_rows + (size_t)1) * sizeof *sizes);
    if (!sizes)
        return false;
    for (uint32_t i = 0; i < s->n_rows; i++)
        sizes[i] = (struct size){key(&sums[i]), i};
    qsort(sizes, s->n_rows, sizeof *sizes, compare_sizes);
    for (uint32_t i = 0; i < s->n_rows && i < limit; i++)
        add_with_ancestors(s, sizes[i].row, room, chosen);
    free(sizes);
    return true;
}
