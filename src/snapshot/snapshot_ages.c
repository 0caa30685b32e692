/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods in a snapshot: they are listed by themselves, and their figures are part of their contexts' rows. */
#include "base/meta.h"
#include "snapshot/snapshot_builder.h"
#include "span/tree.h"

void ages_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &contexts[id];
    struct snapshot_age *age = &b->ages[b->row_of[id]];
    *age = (struct snapshot_age){.row = b->row_of[c->parent],
                                 .oldest_ns = builder_to_ns(b, clock_ticks() - c->born),
                                 .totals = builder_own_figures(b, id, sum)};
    age->open = c->open_spans || age->totals.enters != age->totals.exits;
}

static void fold(struct snapshot_builder *b, const struct snapshot_age *age)
{
    struct snapshot_row *row = &b->rows[age->row];
    b->mapping->public.all.idle -= row->totals.idle + age->totals.idle;
    totals_add(&row->totals, &age->totals);
    row->totals.idle = totals_idle(&row->totals);
    b->mapping->public.all.idle += row->totals.idle;
    row->wall_ns += age->totals.wall;
    row->open_spans += (uint32_t)(age->totals.enters - age->totals.exits);
    if (row->kind == CONTEXT_SPAN)
        b->children_wall[row->parent_row] += age->totals.wall;
}

/* An object of a period has outlived its span for certain if each open span of the context was opened in a later
 * period. */
static void add_outlived(struct snapshot_builder *b, const struct snapshot_age *age, const uint64_t *oldest_open_ns)
{
    struct snapshot_row *row = &b->rows[age->row];
    struct totals *all = &b->mapping->public.all;
    if (row->kind != CONTEXT_SPAN || age->oldest_ns <= oldest_open_ns[age->row])
        return;
    row->totals.outlived_objects += totals_inuse_objects(&age->totals);
    row->totals.outlived_bytes += totals_inuse_bytes(&age->totals);
    all->outlived_objects += totals_inuse_objects(&age->totals);
    all->outlived_bytes += totals_inuse_bytes(&age->totals);
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
        fold(b, &s->ages[i]);
    }
    meta_unmap(oldest_open_ns, bytes);
}
