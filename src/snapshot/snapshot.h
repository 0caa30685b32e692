/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot: an immutable sum of all threads' counters and the tree, complete in itself.
 *
 * Of every context all frees are read before its allocations, so nothing in use is ever negative. When no thread
 * allocates meanwhile the figures are exact. The snapshot lives in memory of its own, never in the program's heap, and
 * holds copies of all strings: contexts may be recycled while it is being read.
 */
#ifndef JESPAN_SNAPSHOT_H
#define JESPAN_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/kind.h"
#include "base/totals.h"

struct snapshot_label {
    const char *key, *value; /* an integer in decimal */
    int64_t integer;
    bool is_integer;
};

struct snapshot_row {
    uint32_t id;         /* the context's number, as in spans.<id>.* */
    uint32_t generation; /* how many contexts had the id before: with it, names this context and no other, ever */
    uint32_t parent_row; /* index into rows; the root's is its own */
    enum context_kind kind;
    uint32_t line;
    const char *name, *target, *file; /* never NULL; "" where unknown */
    const struct snapshot_label *labels; /* this context's own, not its ancestors' */
    uint32_t n_labels;
    uint32_t open_spans;  /* spans of it that are open, or entered on a thread, now */
    struct totals totals; /* this context alone, without its descendants */
    /* The time that its spans were open, which is its inclusive wall time; totals.wall is what of it was not that of
     * contexts below, nor less than 0. Of what is no span: its own busy time and its children's wall time. */
    uint64_t wall_ns;
    /* How long ago the last of its spans closed, 0 where none did; a scope's end is known as nearly as snapshots follow
     * each other. */
    uint64_t closed_ns;
};

/* What was born in a context within one period (age_period_s). Part of the row's own figures. */
struct snapshot_age {
    uint32_t row;
    bool open;            /* a span that was open then still is */
    uint64_t oldest_ns;   /* how long ago the period began: what was born in it is at most that old */
    struct totals totals;
};

struct snapshot {
    uint64_t epoch;           /* counts snapshots of this process, from 1 */
    uint64_t start_unix_ns;   /* when tracking began, as the clock goes now, which may have been set since */
    uint64_t time_unix_ns;    /* when this was taken */
    uint32_t n_rows;          /* ordered by id; row 0 is the root */
    uint32_t pid;
    uint32_t n_ages;
    bool labels_of_path; /* a row's labels are those of its path, where others made it (exporters/digest.h) */
    const struct snapshot_row *rows;
    const struct snapshot_age *ages; /* in no order */
    struct totals retired; /* contexts that were recycled; in use is 0 by construction */
    struct totals all;     /* rows and retired */
    uint64_t pending_bytes; /* freed by the program, not yet handed back to jemalloc */
};

/* Takes a snapshot. Free it with snapshot_free(). NULL when memory for it cannot be mapped. Any thread, not from a
 * signal handler; takes the tree lock. */
struct snapshot *snapshot_take(void);

/* The same in place of `old` (or NULL), which is gone afterwards, and in its memory if possible; when NULL is returned,
 * `old` is as it was. */
struct snapshot *snapshot_retake(struct snapshot *old);
void snapshot_free(struct snapshot *s);

/* The figures of a row together with all rows below it; wall is the row's wall_ns. */
struct totals snapshot_inclusive(const struct snapshot *s, uint32_t row);

/* Those figures' idle time is no less than it was shown before. Takes the tree lock. */
void snapshot_keep_idle(const struct snapshot_row *row, struct totals *inclusive);

/* Once, when tracking begins. */
void snapshot_start_clock(void);

/* The row of a context, or NULL. */
const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id);

#endif
