/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot while it is built, shared by snapshot.c and snapshot_ages.c. All under LOCK_TREE. */
#ifndef JESPAN_SNAPSHOT_BUILDER_H
#define JESPAN_SNAPSHOT_BUILDER_H

#include <stdbool.h>

#include "base/clock.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"

/* The mapping of a snapshot. The public part is followed by rows, labels, ages, and the text of labels. Sites are kept
 * for good, so rows point to their strings; labels are copied. */
struct snapshot_mapping {
    struct snapshot public;
    size_t bytes;
};

struct snapshot_builder {
    uint32_t end; /* of ids */
    struct snapshot_mapping *mapping;
    struct snapshot_row *rows;
    struct snapshot_label *label; /* where the next goes */
    struct snapshot_age *ages;
    char *text;                   /* where the next label's text goes */
    bool owes_frees;              /* a context has negative frees: floor_all_frees() */
    void *scratch; /* memory that is needed only while the snapshot is built */
    size_t scratch_bytes;
    uint32_t *row_of;        /* by id; for a period, an index into ages */
    uint64_t *children_wall; /* by row; there are no more rows than ids */
    uint32_t last_special_row; /* the last row that is no span */
    uint64_t scale;          /* of clock.h */
    struct reading *reading;
};

static inline uint64_t builder_to_ns(const struct snapshot_builder *b, uint64_t ticks)
{
    return clock_ticks_to_ns(ticks, b->scale);
}

/* Figures of one context without its periods, with times in nanoseconds, from the sum of its counters. */
struct totals builder_own_figures(struct snapshot_builder *b, uint32_t id, const struct totals *sum);

/* Sets a row's live objects of closed spans, without those of periods. Called again when a free is found in a
 * buffer. */
void builder_fill_outlived(struct snapshot_row *row);

/* Sets the figures of a period. */
void ages_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum);

/* Adds periods to the rows that they belong to, when all frees are known. */
void ages_fold(struct snapshot_builder *b);

#endif
