/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods in a snapshot: part of the rows that they belong to, and listed by themselves. */
#include "base/meta.h"
#include "snapshot/snapshot_builder.h"
#include "span/tree.h"

void ages_fill(struct snapshot_builder *m, uint32_t id, const struct totals *sum)
{
    const struct context *c = &contexts[id];
    struct snapshot_age *age = &m->ages[m->row_of[id]];
    *age = (struct snapshot_age){.row = m->row_of[c->parent],
                                 .oldest_ns = builder_to_ns(m, clock_ticks() - c->born),
                                 .totals = builder_own_figures(m, id, sum)};
    age->open = c->open_spans || age->totals.enters != age->totals.exits;
}

static void fold(struct snapshot_builder *m, const struct snapshot_age *age)
{
    struct snapshot_row *row = &m->rows[age->row];
    m->made->public.all.idle -= row->totals.idle + age->totals.idle;
    totals_add(&row->totals, &age->totals);
    row->totals.idle = totals_idle(&row->totals);
    m->made->public.all.idle += row->totals.idle;
    row->wall_ns += age->totals.wall;
    row->open_spans += (uint32_t)(age->totals.enters - age->totals.exits);
    if (row->kind == CONTEXT_SPAN)
        m->children_wall[row->parent_row] += age->totals.wall;
}

/* Memory is of a closed span for certain if no span is open that was opened when it was born or before. */
static void add_outlived(struct snapshot_builder *m, const struct snapshot_age *age, const uint64_t *oldest_open_ns)
{
    struct snapshot_row *row = &m->rows[age->row];
    struct totals *all = &m->made->public.all;
    if (row->kind != CONTEXT_SPAN || age->oldest_ns <= oldest_open_ns[age->row])
        return;
    row->totals.outlived_objects += totals_inuse_objects(&age->totals);
    row->totals.outlived_bytes += totals_inuse_bytes(&age->totals);
    all->outlived_objects += totals_inuse_objects(&age->totals);
    all->outlived_bytes += totals_inuse_bytes(&age->totals);
}

/* By row, how long ago the period began in which the oldest span was opened that is still open; 0: none is open. */
static uint64_t *find_oldest_open(const struct snapshot_builder *m, size_t bytes)
{
    uint64_t *oldest_ns = meta_map(bytes);
    const struct snapshot *s = &m->made->public;
    for (uint32_t i = 0; oldest_ns && i < s->n_ages; i++) {
        const struct snapshot_age *age = &s->ages[i];
        if (age->open && age->oldest_ns > oldest_ns[age->row])
            oldest_ns[age->row] = age->oldest_ns;
    }
    return oldest_ns;
}

void ages_fold(struct snapshot_builder *m)
{
    const struct snapshot *s = &m->made->public;
    size_t bytes = s->n_rows * sizeof(uint64_t);
    uint64_t *oldest_open_ns = s->n_ages ? find_oldest_open(m, bytes) : NULL;
    for (uint32_t i = 0; i < s->n_ages; i++) {
        if (oldest_open_ns)
            add_outlived(m, &s->ages[i], oldest_open_ns);
        fold(m, &s->ages[i]);
    }
    meta_unmap(oldest_open_ns, bytes);
}
