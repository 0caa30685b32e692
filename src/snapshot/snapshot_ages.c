/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods in a snapshot: they are listed by themselves, and their figures are part of their contexts' rows. */
#include "base/meta.h"
#include "snapshot/snapshot_builder.h"

/* A period whose context is gone, or was not there yet when ids were looked at, has no row. */
void ages_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    struct snapshot_age *age = &b->ages[b->places[id].row];
    *age = (struct snapshot_age){.row = NO_ROW};
    if (b->block->lives[id % BLOCK_IDS] != b->places[id].life || !parent || !place_has_row(parent)) {
        b->places[id].life = 0;
        b->has_dropped = true;
        return;
    }
    age->row = parent->row;
    age->oldest_ns = builder_age_ns(b, b->now, c->born);
    age->totals = builder_own_figures(b, id, sum);
    age->open = c->open_spans || age->totals.enters != age->totals.exits;
}

static void fold_totals(struct snapshot_builder *b, uint32_t i, const struct totals *t)
{
    struct snapshot_row *row = &b->rows[i];
    totals_add(&row->totals, t);
    row->totals.idle = totals_idle(&row->totals);
    row->wall_ns += t->wall;
    row->open_spans += (uint32_t)(t->enters - t->exits);
    if (row->kind == CONTEXT_SPAN)
        b->children_wall[row->parent_row] += t->wall;
}

static void fold_past(struct snapshot_builder *b, uint32_t row, struct totals *past)
{
    totals_floor_times(past);
    builder_times_to_ns(b, past);
    fold_totals(b, row, past);
}

static void fold_pasts(struct snapshot_builder *b)
{
    if (!b->past)
        return;
    struct totals *unsampled = &b->past[b->end - 1];
    unsampled->wall = 0; /* as in their own figures */
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++)
        fold_past(b, i, &b->past[i]);
    fold_past(b, 0, unsampled);
}

/* An object of a period has outlived its span for certain if each open span of the context was opened in a later
 * period. */
static void add_outlived(struct snapshot_builder *b, const struct snapshot_age *age, const uint64_t *oldest_open_ns)
{
    struct snapshot_row *row = &b->rows[age->row];
    if (row->kind != CONTEXT_SPAN || age->oldest_ns <= oldest_open_ns[age->row])
        return;
    row->totals.outlived_objects += totals_inuse_objects(&age->totals);
    row->totals.outlived_bytes += totals_inuse_bytes(&age->totals);
}

/* Returns by row how long ago the period began in which the oldest open span was opened; 0: no span is open. */
static uint64_t *find_oldest_open(const struct snapshot_builder *b, size_t bytes)
{
    uint64_t *oldest_ns = meta_map(bytes);
    const struct snapshot *s = &b->mapping->public;
    for (uint32_t i = 0; oldest_ns && i < s->n_ages; i++) {
        const struct snapshot_age *age = &s->ages[i];
        if (age->open && age->oldest_ns > oldest_ns[age->row])
            oldest_ns[age->row] = age->oldest_ns;
    }
    return oldest_ns;
}

void ages_fold(struct snapshot_builder *b)
{
    const struct snapshot *s = &b->mapping->public;
    size_t bytes = s->n_rows * sizeof(uint64_t);
    uint64_t *oldest_open_ns = s->n_ages ? find_oldest_open(b, bytes) : NULL;
    for (uint32_t i = 0; i < s->n_ages; i++) {
        if (oldest_open_ns)
            add_outlived(b, &s->ages[i], oldest_open_ns);
        fold_totals(b, s->ages[i].row, &s->ages[i].totals);
    }
    fold_pasts(b);
    meta_unmap(oldest_open_ns, bytes);
}
