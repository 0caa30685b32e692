/* SPDX-License-Identifier: BSD-2-Clause */
/* The difference between a snapshot and what a reader was told before, context by context.
 *
 * A reader has one struct snapshot_delta and goes through each new snapshot in a round: snapshot_delta_begin(), then
 * snapshot_delta_close() for contexts that are gone, snapshot_delta_open() for new ones, and the differences of all
 * rows and of "(retired)". All that was told then adds up to the snapshot's sum, so nothing is told twice and nothing
 * is lost.
 *
 * A total can be lower than what was told: for a moment while threads count (snapshot.h), or when the clock's rate is
 * corrected. It counts as unchanged until it has caught up, so no difference is negative.
 *
 * The functions are inline, since modules have them too.
 */
#ifndef JESPAN_SNAPSHOT_DELTA_H
#define JESPAN_SNAPSHOT_DELTA_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

/* The figures of one context that were told. */
struct snapshot_told {
    struct totals totals;
    uint64_t round;      /* the last one in which a snapshot had the context */
    uint32_t generation; /* of the context: the number may be given to another one */
    bool open;           /* the reader knows of the context */
};

struct snapshot_delta {
    struct snapshot_told *told; /* by the context's number; the reader's memory, all 0 at first */
    uint32_t end;      /* the memory is for numbers below */
    uint64_t round;
    struct totals closed;  /* told of contexts that are gone */
    struct totals retired; /* told of "(retired)" */
};

/* Begins a round. All numbers in the snapshot are below d->end. */
static inline void snapshot_delta_begin(struct snapshot_delta *d, const struct snapshot *s)
{
    d->round++;
    for (const struct snapshot_row *row = s->rows; row < s->rows + s->n_rows; row++)
        if (d->told[row->id].generation == row->generation)
            d->told[row->id].round = d->round;
}

/* Whether the context was recycled: this snapshot does not have it, or its number is another context's now. */
static inline bool snapshot_delta_is_gone(const struct snapshot_delta *d, uint32_t id)
{
    return d->told[id].open && d->told[id].round != d->round;
}

static inline void snapshot_delta_close(struct snapshot_delta *d, uint32_t id)
{
    totals_add(&d->closed, &d->told[id].totals);
    d->told[id] = (struct snapshot_told){0};
}

static inline void snapshot_delta_open(struct snapshot_delta *d, const struct snapshot_row *row)
{
    struct snapshot_told *told = &d->told[row->id];
    told->round = d->round;
    told->generation = row->generation;
    told->open = true;
}

/* Returns the figures that the context has added since the last call, and marks them as told. */
static inline struct totals snapshot_delta_of_row(struct snapshot_delta *d, const struct snapshot_row *row)
{
    return totals_grow(&d->told[row->id].totals, &row->totals);
}

/* The same for "(retired)". Figures of recycled contexts that were told while they lived are not told again. */
static inline struct totals snapshot_delta_of_retired(struct snapshot_delta *d, const struct snapshot *s)
{
    struct totals rest = s->retired;
    totals_subtract(&rest, &d->closed);
    return totals_grow(&d->retired, &rest);
}

#endif
