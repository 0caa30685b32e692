/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks in a snapshot: they are listed by themselves, and their figures are part of their contexts' rows. */
#include "base/compiler.h"
#include "snapshot/snapshot_builder.h"

int stacks_begin(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    return s->n_stacks ? b->view->reader->frames(b->view, &s->frames, &s->n_frames, &s->stacks_ended_early) : 0;
}

/* The place of the context or period in which the stack allocates. */
static const struct place *parent_place(const struct snapshot_builder *b, const struct context *c)
{
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    return parent && parent->life & 1 && parent->kind != CONTEXT_STACK ? parent : NULL;
}

/* The ages of a row come before, since ids of parents may be higher only where books are damaged or ids were recycled.
 * So the row of a period is found when all are filled: stacks_fold(). Until then `row` is the place of the parent. */
void stacks_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    const struct place *parent = parent_place(b, c);
    struct snapshot_stack *stack = &b->stacks[b->places[id].row];
    *stack = (struct snapshot_stack){.row = NO_ROW};
    if (b->block->lives[id % BLOCK_IDS] != b->places[id].life || !parent) {
        b->places[id].life = 0;
        b->has_dropped = true;
        return;
    }
    stack->row = parent->row;
    stack->age = parent->kind == CONTEXT_PERIOD ? parent->row + 1 : 0;
    stack->frame = c->stack;
    stack->totals = builder_own_figures(b, id, sum);
    stack->totals.enters = stack->totals.exits = stack->totals.opens = 0; /* a thread is inside while it allocates */
}

static void fold(struct snapshot_builder *b, struct snapshot_stack *stack)
{
    if (b->owes_frees)
        totals_floor_frees(&stack->totals);
    if (stack->age) {
        struct snapshot_age *age = &b->ages[stack->age - 1];
        stack->row = age->row;
        stack->age = 0;
        if (age->row != NO_ROW)
            totals_add(&age->totals, &stack->totals);
        return;
    }
    struct snapshot_row *row = &b->rows[stack->row];
    if (!row->id) {
        stack->row = NO_ROW;
        return;
    }
    totals_add(&row->totals, &stack->totals);
    if (row->kind == CONTEXT_SPAN)
        builder_fill_outlived(b, row);
}

/* Damaged books may have any number. */
static bool has_good_frame(const struct snapshot *s, const struct snapshot_stack *stack)
{
    return stack->frame && stack->frame < s->n_frames;
}

void stacks_fold(struct snapshot_builder *b)
{
    const struct snapshot *s = &b->mapping->public;
    for (uint32_t i = 0; i < s->n_stacks; i++) {
        struct snapshot_stack *stack = &b->stacks[i];
        if (stack->row != NO_ROW)
            fold(b, stack);
        if (!has_good_frame(s, stack))
            stack->row = NO_ROW; /* its figures stay in the context */
        b->has_dropped |= stack->row == NO_ROW;
    }
}

void stacks_link(struct snapshot_builder *b)
{
    for (uint32_t i = b->mapping->public.n_stacks; i--;) {
        struct snapshot_row *row = &b->rows[b->stacks[i].row];
        b->stacks[i].next = row->first_stack;
        row->first_stack = i + 1;
    }
}
