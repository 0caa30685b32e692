/* SPDX-License-Identifier: BSD-2-Clause */
/* The last steps, when all rows are filled: removes rows that are gone, and corrects times. */
#include <string.h>

#include "snapshot/snapshot_builder.h"

/* ---- Rows that are gone ---- */

/* The new numbers of rows lie where the places were. */
static uint32_t pack_rows(struct snapshot_builder *b)
{
    uint32_t *now = (uint32_t *)b->places, n = 0;
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++) {
        now[i] = b->rows[i].id ? n : NO_ROW;
        if (!b->rows[i].id)
            continue;
        b->children_wall[n] = b->children_wall[i];
        b->recycled_wall[n] = b->recycled_wall[i];
        if (b->past)
            b->past[n] = b->past[i];
        b->rows[n++] = b->rows[i];
    }
    return n;
}

/* If a row's parent is gone, the row is usually gone too. If the process was stopped between the two, the row moves to
 * the root. */
static void drop_rows(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    const uint32_t *now = (const uint32_t *)b->places;
    uint32_t last_special = 0, n_ages = 0, n_stacks = 0;
    s->n_rows = pack_rows(b);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct snapshot_row *row = &b->rows[i];
        row->parent_row = now[row->parent_row] == NO_ROW ? 0 : now[row->parent_row];
        if (row->kind != CONTEXT_SPAN)
            last_special = i;
    }
    b->last_special_row = last_special;
    for (uint32_t i = 0; i < s->n_ages; i++) {
        struct snapshot_age *age = &b->ages[i];
        if (age->row == NO_ROW || now[age->row] == NO_ROW)
            continue;
        age->row = now[age->row];
        b->ages[n_ages++] = *age;
    }
    s->n_ages = n_ages;
    for (uint32_t i = 0; i < s->n_stacks; i++) {
        struct snapshot_stack *stack = &b->stacks[i];
        if (stack->row == NO_ROW || now[stack->row] == NO_ROW)
            continue;
        stack->row = now[stack->row];
        b->stacks[n_stacks++] = *stack;
    }
    s->n_stacks = n_stacks;
}

/* Only damaged books have paths that go in a circle. The circle is cut at the root. */
static void cut_circles(struct snapshot_builder *b)
{
    uint32_t *walk = (uint32_t *)b->places; /* by row: the row from which it was reached first, plus 1 */
    memset(walk, 0, b->mapping->public.n_rows * sizeof *walk);
    b->rows[0].parent_row = 0;
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++) {
        uint32_t row = i, last = i;
        for (; !walk[row]; row = b->rows[row].parent_row) {
            walk[row] = i + 1;
            last = row;
        }
        if (row && walk[row] == i + 1)
            b->rows[last].parent_row = 0;
    }
}

void builder_remove_dropped(struct snapshot_builder *b)
{
    if (b->has_dropped)
        drop_rows(b);
    if (b->view->outside)
        cut_circles(b);
}

/* ---- Times ---- */

static void set_self_wall(struct snapshot_row *row, uint64_t wall)
{
    row->totals.wall = wall;
    row->totals.idle = totals_idle(&row->totals);
}

/* Subtracts the wall time of its children from the row. The wall time of a row that is no span is its own busy time and its
 * children's wall time; there are few such rows, and their parents come before them. */
static void subtract_children_wall(struct snapshot_builder *b, uint32_t i)
{
    struct snapshot_row *row = &b->rows[i];
    uint64_t children = b->children_wall[i] + builder_to_ns(b, b->recycled_wall[i]);
    bool is_special = i <= b->last_special_row && row->kind != CONTEXT_SPAN;
    if (!children && !is_special)
        return;
    if (is_special) {
        row->wall_ns = row->totals.busy + children;
        b->children_wall[row->parent_row] += i ? row->wall_ns : 0;
    }
    set_self_wall(row, row->wall_ns - lesser(children, row->wall_ns));
}

/* Times that are shown never go back. A time may fall for three reasons: not all times are read at the same moment, the
 * clock's rate becomes known better, and wall time less that of the spans below shrinks where these overlap. Then the
 * former time is shown until the new one has caught up. */
static void raise_to(uint64_t *shown, uint64_t *now)
{
    if (*shown < *now)
        *shown = *now;
    *now = *shown;
}

static void keep_shown(struct shown *shown, struct totals *t)
{
    raise_to(&shown->wall, &t->wall);
    raise_to(&shown->busy, &t->busy);
    raise_to(&shown->cpu, &t->cpu);
    raise_to(&shown->cpu_user, &t->cpu_user);
    raise_to(&shown->cpu_system, &t->cpu_system);
    raise_to(&shown->idle, &t->idle);
    raise_to(&shown->lifetimes, &t->lifetimes);
}

/* ---- Peaks ---- */

static void raise_peaks(struct snapshot_row *row, uint64_t total, bool is_peak)
{
    uint64_t inuse = totals_inuse_bytes(&row->totals);
    if (row->peaks.own_bytes < inuse)
        row->peaks.own_bytes = inuse;
    if (row->peaks.total_bytes < total)
        row->peaks.total_bytes = total;
    if (is_peak)
        row->peaks.at_peak_bytes = inuse;
}

static void raise_stack_peaks(struct snapshot_stack *stack, bool is_peak)
{
    uint64_t inuse = totals_inuse_bytes(&stack->totals);
    if (stack->peak_bytes < inuse)
        stack->peak_bytes = inuse;
    if (is_peak)
        stack->at_peak_bytes = inuse;
}

/* ---- All rows ---- */

/* From the last row to the first. */
static void finish_walls(struct snapshot_builder *b)
{
    memset(b->inuse_below, 0, b->mapping->public.n_rows * sizeof *b->inuse_below);
    for (uint32_t i = b->mapping->public.n_rows; i--;) {
        uint64_t inuse = totals_inuse_bytes(&b->rows[i].totals);
        for (uint32_t row = i; inuse && row; row = b->rows[row].parent_row)
            b->inuse_below[row] += inuse;
        b->inuse_below[0] += inuse;
        subtract_children_wall(b, i);
    }
}

static void finish_row(struct snapshot_builder *b, uint32_t i, bool is_peak)
{
    struct snapshot_row *row = &b->rows[i];
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    keep_shown(&seen->shown, &row->totals);
    raise_to(&seen->shown.wall_inclusive, &row->wall_ns);
    raise_peaks(row, b->inuse_below[i], is_peak);
}

static void finish_retired(struct snapshot_builder *b, bool is_peak)
{
    struct snapshot *s = &b->mapping->public;
    totals_floor_times(&s->retired);
    builder_times_to_ns(b, &s->retired);
    keep_shown(&b->view->retired_shown, &s->retired);
    if (is_peak)
        s->retired_peaks.at_peak_bytes = 0;
}

/* The rows of many contexts fill more memory than the caches have, so there are as few passes as possible. */
void builder_finish(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    finish_walls(b);
    bool is_peak = b->inuse_below[0] > b->rows[0].peaks.total_bytes;
    finish_retired(b, is_peak);
    s->all = s->retired;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        finish_row(b, i, is_peak);
        totals_add(&s->all, &b->rows[i].totals);
    }
    keep_shown(&b->view->all_shown, &s->all);
    for (uint32_t i = 0; i < s->n_stacks; i++)
        raise_stack_peaks(&b->stacks[i], is_peak);
}
