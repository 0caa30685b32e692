/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows in the order of a tree: each is followed by those below it, the largest first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct links {
    uint32_t first, last, next; /* children, and the next child of the same parent */
    uint32_t position;          /* in the new order */
    bool shown;
};

/* Marks the first `n` rows, and all above them. */
static void mark(const struct report_rows *rows, struct links *links, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t row = i; row != REPORT_NONE && !links[row].shown; row = rows->items[row].parent)
            links[row].shown = true;
}

/* The last entry is that of the rows at the top. */
static void link_children(const struct report_rows *rows, struct links *links)
{
    for (uint32_t i = 0; i <= rows->n; i++)
        links[i] = (struct links){REPORT_NONE, REPORT_NONE, REPORT_NONE, REPORT_NONE, false};
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t parent = rows->items[i].parent == REPORT_NONE ? rows->n : rows->items[i].parent;
        if (links[parent].first == REPORT_NONE)
            links[parent].first = i;
        else
            links[links[parent].last].next = i;
        links[parent].last = i;
    }
}

/* Copies rows in their order. Returns their number. */
static uint32_t walk(const struct report_rows *rows, struct links *links, struct report_row *to)
{
    uint32_t n = 0, depth = 0, at = links[rows->n].first;
    while (at != REPORT_NONE) {
        const struct report_row *row = &rows->items[at];
        if (links[at].shown) {
            to[n] = *row;
            to[n].parent = row->parent == REPORT_NONE ? REPORT_NONE : links[row->parent].position;
            to[n].depth = depth;
            links[at].position = n++;
        }
        if (links[at].shown && links[at].first != REPORT_NONE) {
            at = links[at].first;
            depth++;
            continue;
        }
        while (at != REPORT_NONE && links[at].next == REPORT_NONE) {
            at = rows->items[at].parent;
            depth -= depth > 0;
        }
        at = at == REPORT_NONE ? at : links[at].next;
    }
    return n;
}

/* Parents become numbers of the sorted rows. */
static int renumber(struct report_rows *rows)
{
    uint32_t *numbers = malloc((rows->n + 1) * sizeof *numbers);
    if (!numbers)
        return -ENOMEM;
    for (uint32_t i = 0; i < rows->n; i++)
        numbers[rows->items[i].last] = i;
    for (uint32_t i = 0; i < rows->n; i++)
        if (rows->items[i].parent != REPORT_NONE)
            rows->items[i].parent = numbers[rows->items[i].parent];
    free(numbers);
    return 0;
}

static bool has_same_values(const struct report_row *a, const struct report_row *b)
{
    return memcmp(a->values, b->values, sizeof a->values) == 0;
}

/* Puts the only row below a row in its place. The text of a row has the part of the path that the row above does not
 * show. */
static int join_chains(struct report_rows *rows)
{
    uint32_t *only = malloc((rows->n + 1) * sizeof *only), n = 0;
    if (!only)
        return -ENOMEM;
    for (uint32_t i = 0; i < rows->n; i++)
        only[i] = REPORT_NONE; /* no row below; rows->n stands for several */
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t parent = rows->items[i].parent;
        if (parent != REPORT_NONE)
            only[parent] = only[parent] == REPORT_NONE ? i : rows->n;
    }
    for (uint32_t i = 0; i < rows->n; i++) { /* a row that goes has `depth` 1 */
        bool goes = only[i] < rows->n && has_same_values(&rows->items[i], &rows->items[only[i]]);
        rows->items[i].depth = goes;
    }
    for (uint32_t i = 0; i < rows->n; i++)
        while (rows->items[i].parent != REPORT_NONE && rows->items[rows->items[i].parent].depth == 1)
            rows->items[i].parent = rows->items[rows->items[i].parent].parent;
    for (uint32_t i = 0; i < rows->n; i++)
        only[i] = rows->items[i].depth == 1 ? REPORT_NONE : n++;
    for (uint32_t i = 0; i < rows->n; i++)
        if (only[i] != REPORT_NONE) {
            uint32_t parent = rows->items[i].parent;
            rows->items[only[i]] = rows->items[i];
            rows->items[only[i]].parent = parent == REPORT_NONE ? REPORT_NONE : only[parent];
        }
    rows->n = n;
    free(only);
    return 0;
}

int report_tree_order(struct report_rows *rows, const struct report_options *options)
{
    struct links *links = malloc(((size_t)rows->n + 1) * sizeof *links);
    struct report_row *ordered = malloc(((size_t)rows->n + 1) * sizeof *ordered);
    int error = links && ordered ? renumber(rows) : -ENOMEM;
    if (error == 0 && options->chains)
        error = join_chains(rows);
    if (error == 0) {
        link_children(rows, links);
        mark(rows, links, report_n_shown(options, rows->items, rows->n));
        uint32_t n = walk(rows, links, ordered);
        struct report_row *sorted = rows->items;
        rows->items = ordered;
        ordered = sorted;
        rows->n_left_out = rows->n - n;
        rows->n = n;
    }
    free(links);
    free(ordered);
    return error;
}
