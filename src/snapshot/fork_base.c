/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the snapshot that a forked child keeps of its fork. Its numbers are checked, as all of another process. */
#include "snapshot/fork_base.h"

#include <stdbool.h>
#include <stdlib.h>

#include "snapshot/space.h"
#include "snapshot/view_parts.h"

#define MOST_ROWS 4096

static bool copy(struct view *view, void *to, uint64_t from, size_t bytes)
{
    const struct piece piece = {to, from, bytes};
    return space_copy(&view->space, &piece, 1) == 0;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const struct snapshot_row *)a)->id, y = ((const struct snapshot_row *)b)->id;
    return x < y ? -1 : x > y;
}

/* Reads it into `base`, with rows in the order of ids, as snapshot_find() needs them, to be given to free(). */
static bool read_base(struct view *view, struct snapshot *base)
{
    uint64_t at;
    if (!copy(view, &at, space_address(view->books.of_fork), sizeof at) || !at || !copy(view, base, at, sizeof *base))
        return false;
    size_t bytes = base->n_rows * sizeof *base->rows;
    struct snapshot_row *rows = base->n_rows <= MOST_ROWS && base->n_stacks == 0 ? malloc(bytes + 1) : NULL;
    if (!rows || !copy(view, rows, space_address(base->rows), bytes)) {
        free(rows);
        return false;
    }
    qsort(rows, base->n_rows, sizeof *rows, by_id);
    base->rows = rows;
    base->places = NULL;
    return true;
}

/* The row of the same context in the other snapshot. NULL: there it is not made yet, or recycled. */
static const struct snapshot_row *find_same(const struct snapshot *in, const struct snapshot_row *row)
{
    const struct snapshot_row *found = snapshot_find(in, row->id);
    return found && found->generation == row->generation ? found : NULL;
}

/* What contexts had that were recycled since is part of what recycled contexts have now. */
static void add_recycled(struct totals *retired, const struct snapshot *base, const struct snapshot *s)
{
    for (uint32_t i = 0; i < base->n_rows; i++)
        if (!find_same(s, &base->rows[i]))
            totals_add(retired, &base->rows[i].totals);
}

void fork_base_apply(struct view *view, struct snapshot *s)
{
    struct snapshot base;
    if (s->n_stacks || !read_base(view, &base))
        return;
    add_recycled(&base.retired, &base, s);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct snapshot_row *row = (struct snapshot_row *)(uintptr_t)&s->rows[i];
        const struct snapshot_row *before = find_same(&base, row);
        row->totals = before ? before->totals : (struct totals){0};
        row->wall_ns = before ? before->wall_ns : 0;
    }
    s->retired = base.retired;
    s->all = base.all;
    s->time_unix_ns = base.time_unix_ns;
    free((void *)(uintptr_t)base.rows);
}
