/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of a snapshot, children first: what is below each row is added up in one pass, however deep they are nested. Modules use
 * it too, so it is inline. */
#ifndef JESPAN_ROW_ORDER_H
#define JESPAN_ROW_ORDER_H

#include <string.h>

#include "snapshot/snapshot.h"

static inline bool row_has_parent(const struct snapshot_row *rows, uint32_t n, uint32_t row)
{
    return rows[row].parent_row < n && rows[row].parent_row != row;
}

/* Sets `order` to the rows, each before its parent. Returns how many they are: fewer than n if paths of damaged books go in a
 * circle. `children` is room for the function. Both have n members. */
static inline uint32_t row_order(const struct snapshot_row *rows, uint32_t n, uint32_t *children, uint32_t *order)
{
    uint32_t n_ready = 0;
    memset(children, 0, n * sizeof *children);
    for (uint32_t i = 0; i < n; i++)
        if (row_has_parent(rows, n, i))
            children[rows[i].parent_row]++;
    for (uint32_t i = 0; i < n; i++)
        if (children[i] == 0)
            order[n_ready++] = i;
    for (uint32_t k = 0; k < n_ready; k++)
        if (row_has_parent(rows, n, order[k]) && --children[rows[order[k]].parent_row] == 0)
            order[n_ready++] = rows[order[k]].parent_row;
    return n_ready;
}

/* Sets sums[i] to the totals of row i and of all rows below it. `children` and `order` are room for the function, with n members. */
static inline void row_order_sums(const struct snapshot_row *rows, uint32_t n, struct totals *sums, uint32_t *children, uint32_t *order)
{
    uint32_t n_order = row_order(rows, n, children, order);
    for (uint32_t i = 0; i < n; i++)
        sums[i] = rows[i].totals;
    for (uint32_t k = 0; k < n_order; k++)
        if (row_has_parent(rows, n, order[k]))
            totals_add(&sums[rows[order[k]].parent_row], &sums[order[k]]);
}

#endif
