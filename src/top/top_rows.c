/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of `jespan top`: which contexts, threads or items are shown, and in which order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "top.h"

#define PATH_BYTES 1024

static int64_t key_of(enum top_sort sort, const struct top_figures *f)
{
    switch (sort) {
    case TOP_GROWTH:
        return f->growth;
    case TOP_ALLOC:
        return f->alloc;
    case TOP_OBJECTS:
        return (int64_t)f->objects;
    default:
        return (int64_t)f->inuse_bytes;
    }
}

static int compare(const void *a, const void *b, void *sort)
{
    const struct top_row *x = a, *y = b;
    int64_t u = key_of(*(enum top_sort *)sort, &x->figures), v = key_of(*(enum top_sort *)sort, &y->figures);
    return u != v ? (u < v ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

static bool fits(const struct top *top, uint32_t row)
{
    char path[PATH_BYTES];
    if (top->filter[0] == '\0')
        return true;
    row_path(path, sizeof path, top->snapshot, row);
    return strcasestr(path, top->filter);
}

void top_add(struct top_figures *to, const struct top_figures *more)
{
    to->inuse_bytes += more->inuse_bytes;
    to->objects += more->objects;
    to->alloc_bytes += more->alloc_bytes;
    to->growth += more->growth;
    to->alloc += more->alloc;
}

static bool is_empty(const struct top_figures *f)
{
    return f->inuse_bytes == 0 && f->alloc == 0 && f->growth == 0;
}

/* The root is shown as any other context; contexts below it are on the outermost level. */
static bool is_outermost(const struct snapshot *s, uint32_t i)
{
    return i == 0 || s->rows[i].parent_row == 0 || s->rows[i].parent_row >= s->n_rows;
}

struct tree {
    struct top_row *nodes; /* by row of the snapshot */
    bool *shown;           /* it, or a context below it, fits */
    uint32_t *first, *next; /* children, the largest last; index + 1 */
};

/* A parent may have a higher number than its child. A path has at most as many steps as there are rows. */
static void sum_up(struct top *top, struct tree *tree)
{
    const struct snapshot *s = top->snapshot;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        bool is_shown = fits(top, i) && !is_empty(&top->figures[i]);
        uint32_t at = i, steps = 0;
        for (; steps++ < s->n_rows; at = s->rows[at].parent_row) {
            top_add(&tree->nodes[at].figures, &top->figures[i]);
            tree->nodes[at].row = at;
            tree->nodes[at].has_below |= at != i;
            tree->shown[at] |= is_shown;
            if (is_outermost(s, at))
                break;
        }
    }
}

static void put_rows(struct top *top, const struct tree *tree, uint32_t first, uint32_t depth)
{
    for (uint32_t i = first; i != 0; i = tree->next[i - 1]) {
        struct top_row *row = &top->rows[top->n_rows];
        uint32_t id = top->snapshot->rows[i - 1].id;
        *row = tree->nodes[i - 1];
        row->depth = depth;
        row->peak_bytes = top->snapshot->rows[i - 1].peaks.total_bytes;
        row->is_collapsed = row->has_below && top->collapsed[id];
        top->n_rows++;
        if (row->is_collapsed)
            row->depth = depth;
        else if (depth < 1000)
            put_rows(top, tree, tree->first[i - 1], depth + 1);
    }
}

/* Puts all nodes below their parents: the smallest first, so that each list begins with the largest. */
static void arrange_tree(struct top *top, struct tree *tree, struct top_row *sorted)
{
    const struct snapshot *s = top->snapshot;
    uint32_t n = 0, outermost = 0;
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (tree->shown[i])
            sorted[n++] = tree->nodes[i];
    if (n > 0)
        qsort_r(sorted, n, sizeof *sorted, compare, &top->sort);
    while (n-- > 0) {
        uint32_t i = sorted[n].row;
        uint32_t *list = is_outermost(s, i) ? &outermost : &tree->first[s->rows[i].parent_row];
        tree->next[i] = *list;
        *list = i + 1;
    }
    put_rows(top, tree, outermost, 0);
}

static int arrange_contexts(struct top *top)
{
    uint32_t n = top->snapshot->n_rows;
    struct tree tree = {calloc((size_t)n + 1, sizeof *tree.nodes), calloc((size_t)n + 1, sizeof *tree.shown),
                        calloc((size_t)n + 1, sizeof *tree.first), calloc((size_t)n + 1, sizeof *tree.next)};
    struct top_row *sorted = calloc((size_t)n + 1, sizeof *sorted);
    bool is_complete = tree.nodes && tree.shown && tree.first && tree.next && sorted;
    if (is_complete && top->tree) {
        sum_up(top, &tree);
        arrange_tree(top, &tree, sorted);
    }
    for (uint32_t i = 0; i < n && is_complete && !top->tree; i++)
        if (!is_empty(&top->figures[i]) && fits(top, i))
            top->rows[top->n_rows++] = (struct top_row){.row = i, .figures = top->figures[i],
                                                            .peak_bytes = top->snapshot->rows[i].peaks.own_bytes};
    if (is_complete && !top->tree && top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof *top->rows, compare, &top->sort);
    free(tree.nodes);
    free(tree.shown);
    free(tree.first);
    free(tree.next);
    free(sorted);
    return is_complete ? 0 : -ENOMEM;
}

/* Live threads. Their growth is what they allocate less what they free. */
static void arrange_threads(struct top *top)
{
    for (uint32_t i = 0; i < top->threads.n_threads; i++) {
        const struct view_thread *t = &top->threads.threads[i];
        const struct top_before *b = top_thread_before(top, t);
        if (!t->live || (top->filter[0] != '\0' && !strcasestr(t->name, top->filter)))
            continue;
        struct top_row *row = &top->rows[top->n_rows++];
        *row = (struct top_row){.row = i, .figures = {.inuse_bytes = t->alloc_bytes, .objects = t->alloc_objects}};
        if (b->alloc_bytes > t->alloc_bytes || b->free_bytes > t->free_bytes || b->cpu_ns > t->cpu_ns)
            continue;
        row->figures.alloc = top_rate(top->threads_period_ns, t->alloc_bytes, b->alloc_bytes);
        row->free_rate = top_rate(top->threads_period_ns, t->free_bytes, b->free_bytes);
        row->figures.growth = row->figures.alloc - row->free_rate;
        row->share = top->threads_period_ns == 0 ? 0 : (double)(t->cpu_ns - b->cpu_ns) / (double)top->threads_period_ns;
    }
    if (top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof *top->rows, compare, &top->sort);
}

/* Whether the text has that part, whatever the case of its letters. */
static bool has_part(const struct top_item *item, const struct text *part)
{
    for (size_t i = 0; i + part->n <= item->n_chars; i++) {
        size_t n = 0;
        while (n < part->n && towlower((wint_t)item->chars[i + n]) == towlower((wint_t)part->chars[n]))
            n++;
        if (n == part->n)
            return true;
    }
    return false;
}

static void arrange_items(struct top *top)
{
    static struct text part;
    text_clear(&part);
    text_add_bytes(&part, top->filter, strlen(top->filter), sizeof top->filter);
    for (uint32_t i = 0; i < top->items.n; i++)
        if (has_part(&top->items.items[i], &part))
            top->rows[top->n_rows++] = top->items.items[i].row;
    if (top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof *top->rows, compare, &top->sort);
}

int top_arrange(struct top *top)
{
    uint32_t most = top->snapshot->n_rows > top->threads.n_threads ? top->snapshot->n_rows : top->threads.n_threads;
    most = top->items.n > most ? top->items.n : most;
    struct top_row *rows = reallocarray(top->rows, (size_t)most + 1, sizeof *rows);
    if (!rows)
        return -ENOMEM;
    top->rows = rows;
    top->n_rows = 0;
    if (top->view == TOP_CONTEXTS)
        return arrange_contexts(top);
    if (top->view == TOP_THREADS)
        arrange_threads(top);
    else if (top->view == top->items.view)
        arrange_items(top);
    return 0;
}
