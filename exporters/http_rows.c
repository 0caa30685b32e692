/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a snapshot as a tree. */
#include "http_rows.h"

#include <stddef.h>
#include <stdlib.h>

#include "snapshot/row_order.h"

/* ---- Sums over the tree ---- */

bool http_rows_sum(const struct snapshot *s, struct totals *sums)
{
    uint32_t n = s->n_rows, *children = calloc(n + (size_t)1, sizeof *children), *order = calloc(n + (size_t)1, sizeof *order);
    bool has_room = children && order;
    if (has_room)
        row_order_sums(s->rows, n, sums, children, order);
    free(children);
    free(order);
    return has_room;
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
