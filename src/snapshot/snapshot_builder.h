/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: what their making shares between files. All under LOCK_TREE. */
#ifndef JESPAN_SNAPSHOT_MAKING_H
#define JESPAN_SNAPSHOT_MAKING_H

#include <stdbool.h>

#include "base/clock.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"

/* What follows the public part in the same mapping: rows, then labels, then their text. Sites are kept for good, so
 * rows point to their strings; labels are copied. */
struct made {
    struct snapshot public;
    size_t bytes;
};

/* A snapshot in the making, and memory for that time only. */
struct snapshot_builder {
    uint32_t end; /* of ids */
    struct made *made;
    struct snapshot_row *rows;
    struct snapshot_label *label; /* where the next goes */
    struct snapshot_age *ages;
    char *text;                   /* likewise */
    bool owes_frees;              /* see settle() */
    void *scratch;
    size_t scratch_bytes;
    uint32_t *row_of;        /* by id; of a period, index into ages */
    uint64_t *children_wall; /* by row; no more rows than ids */
    uint32_t last_special_row; /* the last one that is no span */
    uint64_t scale;          /* of clock.h */
    struct reading *reading;
};

static inline uint64_t builder_to_ns(const struct snapshot_builder *m, uint64_t ticks)
{
    return clock_ticks_to_ns(ticks, m->scale);
}

/* What one context has, times in nanoseconds, from the sum of its counters; without its periods. */
struct totals builder_own_figures(struct snapshot_builder *m, uint32_t id, const struct totals *sum);

/* What is live of spans that are closed, of a row without periods. Again when a free is found in a buffer. */
void builder_fill_outlived(struct snapshot_row *row);

/* The figures of a period. */
void ages_fill(struct snapshot_builder *m, uint32_t id, const struct totals *sum);

/* When all frees are known: adds periods to the rows that they belong to. */
void ages_fold(struct snapshot_builder *m);

#endif
