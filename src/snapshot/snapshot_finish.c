/* SPDX-License-Identifier: BSD-2-Clause */
/* The last steps, when all rows are filled: removes rows that are gone, and corrects times. */
#include <string.h>

#include "snapshot/row_order.h"
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
        b->walls[n] = b->walls[i];
        b->recycled_wall[n] = b->recycled_wall[i];
        if (b->past)
            b->past[n] = b->past[i];
        b->below[n] = b->below[i];
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
    uint32_t *walk = b->list; /* by row: the row from which it was reached first, plus 1 */
    memset(walk, 0, b->mapping->public.n_rows * sizeof *walk);
    b->rows[0].parent_row = 0;
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++) {
        uint32_t row = i, last = i;
        for (; !walk[row]; row = b->rows[row].parent_row) {
            walk[row] = i + 1;
            last = row;
        }
        if (row && walk[row] == i + 1) {
            b->rows[last].parent_row = 0;
            b->has_dropped = true;
        }
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
    uint64_t children = b->walls[i].children + builder_to_ns(b, b->recycled_wall[i]);
    bool is_special = i <= b->last_special_row && row->kind != CONTEXT_SPAN;
    if (!children && !is_special)
        return;
    if (is_special) {
        b->walls[i].own = row->wall_ns = row->totals.busy + children;
        b->walls[row->parent_row].children += i ? row->wall_ns : 0;
    }
    set_self_wall(row, row->wall_ns - lesser(children, row->wall_ns));
}

void builder_keep_shown(struct shown *shown, struct shown_walls *walls, struct totals *t)
{
    builder_raise_to(&walls->wall, &t->wall);
    builder_raise_to(&walls->idle, &t->idle);
    builder_raise_to(&shown->busy, &t->busy);
    builder_raise_to(&shown->cpu, &t->cpu);
    builder_raise_to(&shown->cpu_user, &t->cpu_user);
    builder_raise_to(&shown->cpu_system, &t->cpu_system);
    builder_raise_to(&shown->lifetimes, &t->lifetimes);
}

/* ---- Peaks ---- */

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void builder_raise_peaks(struct snapshot_builder *b, uint32_t i, bool is_peak)
{
    struct snapshot_row *row = &b->rows[i];
    uint64_t inuse = totals_inuse_bytes(&row->totals);
    row->peaks.own_bytes = greater(b->below[i].own_peak, inuse);
    row->peaks.total_bytes = greater(b->below[i].total_peak, b->below[i].inuse);
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
    for (uint32_t i = b->mapping->public.n_rows; i--;)
        subtract_children_wall(b, i);
}

static void add_up_below(struct snapshot_builder *b)
{
    uint32_t n = b->mapping->public.n_rows, *children = b->list, *order = b->list + b->end;
    uint32_t n_order = row_order(b->rows, n, children, order);
    for (uint32_t i = 0; i < n; i++)
        b->below[i].inuse = b->below[i].own = totals_inuse_bytes(&b->rows[i].totals);
    for (uint32_t k = 0; k < n_order; k++)
        if (row_has_parent(b->rows, n, order[k]))
            b->below[b->rows[order[k]].parent_row].inuse += b->below[order[k]].inuse;
}

void builder_note_times(struct snapshot_builder *b, uint32_t i)
{
    const struct snapshot_row *row = &b->rows[i];
    struct passing spare, *passing = view_passing(b->view, row->id, &spare);
    passing->busy = row->totals.busy;
    passing->recycled = builder_to_ns(b, b->recycled_wall[i]);
}

static void finish_row(struct snapshot_builder *b, uint32_t i, bool is_peak)
{
    struct snapshot_row *row = &b->rows[i];
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    struct passing also_spare, *passing = view_passing(b->view, row->id, &also_spare);
    builder_note_times(b, i);
    builder_keep_shown(&seen->shown, &passing->shown, &row->totals);
    builder_raise_to(&passing->shown.wall_inclusive, &row->wall_ns);
    builder_raise_peaks(b, i, is_peak);
}

void builder_finish_retired(struct snapshot_builder *b, bool is_peak)
{
    struct snapshot *s = &b->mapping->public;
    totals_floor_times(&s->retired);
    builder_times_to_ns(b, &s->retired);
    builder_keep_shown(&b->view->retired_shown, &b->view->retired_walls, &s->retired);
    if (is_peak)
        s->retired_peaks.at_peak_bytes = 0;
}

void builder_finish_all(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    s->all = s->retired;
    totals_add(&s->all, &b->mapping->rows_sum);
    builder_keep_shown(&b->view->all_shown, &b->view->all_walls, &s->all);
}

/* The rows of many contexts fill more memory than the caches have, so there are as few passes as possible. */
void builder_finish(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    finish_walls(b);
    add_up_below(b);
    bool is_peak = builder_is_peak(b);
    builder_finish_retired(b, is_peak);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        finish_row(b, i, is_peak);
        totals_add(&b->mapping->rows_sum, &b->rows[i].totals);
    }
    builder_finish_all(b);
    for (uint32_t i = 0; i < s->n_stacks; i++)
        raise_stack_peaks(&b->stacks[i], is_peak);
}
