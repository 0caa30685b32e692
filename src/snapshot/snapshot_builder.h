/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot while it is built. snapshot.c has the steps.
 *
 * Contexts may be recycled, and others may get their ids, while they are copied. So the builder first notes the life of
 * each id (tree.h), and then copies contexts and reads counters. At last it copies the sum of recycled contexts, and
 * removes the rows whose life has changed since: that sum contains their figures. Until then such rows may contain
 * anything, so each number that was copied is checked before it is used.
 */
#ifndef JESPAN_SNAPSHOT_BUILDER_H
#define JESPAN_SNAPSHOT_BUILDER_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/number.h"
#include "heap/timing.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"
#include "snapshot/view_parts.h"

/* The state of an id at the first look. An id with an even life has no row. */
struct place {
    uint32_t life;
    uint32_t row : 26; /* for a period, an index into ages; for a stack, into stacks */
    uint32_t kind : 6; /* enum context_kind */
};

/* What the peaks of a row are computed from. */
struct below {
    uint64_t inuse;                /* bytes that it and all rows below it have in use */
    uint64_t own;                  /* the part of it that the row itself has */
    uint64_t own_peak, total_peak; /* those that looks have seen */
    bool had_handles;              /* its spans were opened with handles: the context says when the last of them closed */
    uint64_t opened, raised;       /* the snapshots (their epochs) that changed the row and its peaks: snapshot_again.c */
};

/* Wall times of a row, in ns, before they are raised to what was shown. */
struct walls {
    uint64_t own; /* a part of its parent's `children` */
    uint64_t children;
    uint32_t parent_row, n_children; /* for snapshot_again.c, as `own` and `children` */
};

/* The mapping of a snapshot. Rows, labels, ages, stacks, what is below rows, places and the text of labels follow the
 * public part. Sites are kept for good, so rows point to their strings; labels are copied. */
struct snapshot_mapping {
    struct snapshot public;
    size_t bytes;
    struct below *below;     /* by row */
    struct walls *walls;     /* by row */
    struct place *places;    /* by id */
    uint32_t *list;          /* room for two numbers by id */
    /* For the next snapshot in this memory: snapshot_again.c. */
    uint64_t kept; /* kept_number of the view whose sums the rows are of; 0: rows cannot be used again */
    uint64_t scale, peaks_changes;
    uint32_t end, last_special_row;
    bool is_peak;
    bool parents_first; /* each context has a higher id than its parent */
    struct totals rows_sum; /* of all rows */
    uint32_t rows_room, ids_room;              /* of the arrays */
    struct snapshot_label *label, *labels_end; /* room that is left for labels of more rows, and for their texts */
    char *text, *text_end;
};

/* Contexts are copied a block at a time. */
#define BLOCK_IDS 256u
struct block {
    uint32_t lives[BLOCK_IDS];
    struct context contexts[BLOCK_IDS];
    struct totals bases[BLOCK_IDS], pasts[BLOCK_IDS];
    struct context_peaks peaks[BLOCK_IDS];
    char *texts[BLOCK_IDS]; /* the copies of the labels' texts */
    struct known known[BLOCK_IDS];
    struct piece pieces[BLOCK_IDS];
};

struct snapshot_builder {
    struct view *view;
    uint64_t contexts, lives, bases, pasts; /* addresses there; pasts: 0 without periods */
    uint64_t peaks;
    uint32_t peaks_end; /* contexts from there on have no peaks */
    uint64_t peaks_changes;                 /* how often any was changed */
    uint64_t epoch;                         /* of this snapshot */
    uint32_t end;                           /* of ids */
    uint32_t sequence;                      /* of contexts_retired, at the beginning */
    uint64_t now;                           /* in ticks, when the reading began */
    uint64_t time;                          /* the same, but 0 where times are not tracked */
    struct snapshot_mapping *mapping;
    struct snapshot_row *rows;
    struct snapshot_label *label, *labels_end; /* where the next goes */
    struct snapshot_age *ages;
    struct snapshot_stack *stacks;
    char *text, *text_end; /* where the next label's text goes */
    bool owes_frees;       /* a context has negative frees before buffered ones are added, or then still: builder_floor_frees() */
    bool is_again;         /* rows are those of an earlier snapshot: snapshot_again.c */
    bool has_dropped;      /* rows without id, and ages of row NO_ROW, are to be removed */
    void *scratch;         /* memory that is needed only while the snapshot is built */
    size_t scratch_bytes;
    struct place *places;    /* by id */
    struct walls *walls;     /* by row */
    uint64_t *recycled_wall; /* by row; there are no more rows than ids. The part of recycled children, in ticks */
    struct below *below;     /* by row */
    uint32_t *list;          /* as in the mapping */
    uint32_t n_opened;       /* rows in the second half of the list: snapshot_again.c */
    uint32_t *begun, n_begun; /* new contexts: snapshot_changes.c */
    uint64_t steps;          /* from rows to those above them there */
    struct totals *past;     /* by row, in ticks: the figures of recycled periods; NULL without periods. In both of
                                these the last one, of no row, is that of unsampled spans */
    struct block *block;
    uint32_t last_special_row; /* the last row that is no span */
    uint64_t scale;            /* of clock.h */
    uint64_t sample_bytes;     /* as in struct stacks_stats */
    struct reading *reading;
};
#define NO_ROW UINT32_MAX

static inline uint64_t builder_to_ns(const struct snapshot_builder *b, uint64_t ticks)
{
    return clock_ticks_to_ns(ticks, b->scale);
}

static inline struct snapshot_peaks builder_peaks(const struct context_peaks *p)
{
    return (struct snapshot_peaks){load_relaxed(&p->own_bytes), load_relaxed(&p->total_bytes), load_relaxed(&p->at_peak_bytes)};
}

/* The place of a context, without a row yet. */
static inline struct place builder_place(const struct known *known)
{
    bool is_live = known->life & 1 && known->kind != KIND_DAMAGED;
    return (struct place){.life = is_live ? known->life : 0, .kind = is_live ? known->kind & 7 : 0};
}

/* The room that the texts of its labels take at most. */
static inline size_t builder_text_room(const struct known *known)
{
    return lesser(known->label_bytes, LABEL_TEXT_MAX) + LABEL_ALIGN;
}

static inline bool place_has_row(const struct place *p)
{
    return p->life & 1 && !tree_is_part((enum context_kind)p->kind);
}

/* Whether the wall time of a context passes: it has open spans, or its word (heap/timing.h) is just being changed. */
static inline bool builder_is_open(uint32_t handles, uint64_t wall)
{
    return handles || !timing_is_over(wall);
}

/* ---- snapshot_collect.c ---- */

/* Allocates what is needed while building, and begins the reading. Returns 0 or a negative errno. */
int builder_begin(struct snapshot_builder *b);
void builder_end(struct snapshot_builder *b);

/* Copies the lives of contexts from `first` on, and sets what is known of them, in the block. */
int builder_find_known(struct snapshot_builder *b, uint32_t first);

/* Copies contexts from `first` on, with the texts of their labels where there is room for these. */
int builder_copy_block(struct snapshot_builder *b, uint32_t first);

/* Copies the lives of n contexts. */
int builder_copy_lives(struct snapshot_builder *b, uint32_t *lives, uint32_t first, uint32_t n);

/* Notes the figures of children of a context that were recycled, from the block. */
void builder_note_recycled(struct snapshot_builder *b, uint32_t id);

/* Copies the sum of recycled contexts, and drops rows that were recycled. */
int builder_validate(struct snapshot_builder *b);

/* The same, where no context was recycled since the beginning. Otherwise *rests becomes false. */
int builder_validate_rest(struct snapshot_builder *b, bool *rests);

/* ---- snapshot_rows.c ---- */

void builder_times_to_ns(const struct snapshot_builder *b, struct totals *t);

/* Figures of one context without its periods, with times in nanoseconds, from the sum of its counters. */
struct totals builder_own_figures(struct snapshot_builder *b, uint32_t id, const struct totals *sum);

/* Sets *sums to those of a chunk of contexts, with these lives. They lie in `memory`, or where the view keeps them. */
int builder_read_sums(struct snapshot_builder *b, uint32_t first, const uint32_t *lives, struct totals memory[READING_CHUNK],
                      const struct totals **sums);

/* Fills the rows of a chunk with the sums. The block has the contexts. */
int builder_fill_chunk(struct snapshot_builder *b, uint32_t first, const struct totals *sums);

/* Fills all rows, without buffered frees and without figures that need all rows. Returns 0 or a negative errno. */
int builder_fill_rows(struct snapshot_builder *b);

/* Adds a buffered free. Frees of a context that was recycled meanwhile are in its base already. */
void builder_add_buffered(void *builder, uint32_t id, uint32_t bytes);

/* Raises negative frees to 0. The base of a recycled id contains frees that were buffered then. If this reading found
 * such a free neither in the buffer nor in the counter, because the thread was just moving it, the new context has
 * negative frees. */
void builder_floor_frees(struct snapshot_builder *b);

/* Where the spans of a row had no handles, the time of this snapshot is when the last of them closed, if more have closed. */
void builder_note_exits(struct snapshot_builder *b, struct snapshot_row *row);

/* Sets the figures of memory that has outlived its span, from the figures that the row has now. */
void builder_fill_outlived(struct snapshot_builder *b, struct snapshot_row *row);

/* ---- snapshot_finish.c ---- */

/* Removes rows whose context was recycled, and cuts the circles of damaged books. */
void builder_remove_dropped(struct snapshot_builder *b);

/* Times that are shown never go back. A time may fall for three reasons: not all times are read at the same moment, the
 * clock's rate becomes known better, and wall time less that of the spans below shrinks where these overlap. Then the
 * former time is shown until the new one has caught up. */
static inline void builder_raise_to(uint64_t *shown, uint64_t *now)
{
    if (*shown < *now)
        *shown = *now;
    *now = *shown;
}
void builder_keep_shown(struct shown *shown, struct shown_walls *walls, struct totals *t);

/* Whether the process has more in use than ever before. */
static inline bool builder_is_peak(const struct snapshot_builder *b)
{
    return b->below[0].inuse > b->below[0].total_peak;
}
void builder_raise_peaks(struct snapshot_builder *b, uint32_t row, bool is_peak);

/* Notes times of a row as they are before they are raised to what was shown. */
void builder_note_times(struct snapshot_builder *b, uint32_t row);

/* The figures of recycled contexts, and of all. */
void builder_finish_retired(struct snapshot_builder *b, bool is_peak);
void builder_finish_all(struct snapshot_builder *b);

/* The last step, when all rows and stacks are filled and have their places: subtracts the wall time of children, keeps
 * times from falling, raises peaks to what is in use, and sums up all rows. */
void builder_finish(struct snapshot_builder *b);

/* ---- snapshot_changes.c ---- */

/* Brings the rows of an earlier snapshot to the contexts that there are now, with these lives. Rows of new contexts are to be filled:
 * until then they have no name. `room` is for two numbers by id. Returns 1, 0 if that is not possible, or a negative errno. */
int builder_change_rows(struct snapshot_builder *b, uint32_t *lives, uint32_t *room);

static inline bool builder_is_new_row(const struct snapshot_builder *b, uint32_t row)
{
    return b->is_again && !b->rows[row].name;
}

/* The row has so many bytes more in use, so the row and all above it have more below them. */
void builder_add_below(struct snapshot_builder *b, uint32_t row, uint64_t more);

/* Many rows below each other take less time together, where the snapshot is built from the beginning. */
static inline bool builder_takes_too_long(const struct snapshot_builder *b)
{
    return b->steps > 8 * (uint64_t)b->mapping->public.n_rows;
}

/* ---- snapshot_again.c ---- */

/* Makes the snapshot out of an earlier one (or NULL): only rows that may have changed are filled again. Returns 1, 0 if that is
 * not possible, or a negative errno. */
int builder_again(struct snapshot_builder *b, struct snapshot *old);

/* Notes what builder_again() needs: the room that labels have left, and all else at the end. */
void builder_note_room(struct snapshot_builder *b);
void builder_keep_rows(struct snapshot_builder *b);

/* A row is about to get other figures of memory, where rows are used again. */
void builder_open_row(struct snapshot_builder *b, uint32_t row);

/* ---- snapshot_parts.c ---- */

/* Finds the frames of all stacks. Returns 0 or a negative errno. */
int stacks_begin(struct snapshot_builder *b);

/* Sets the figures of a stack. */
void stacks_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum);

/* Adds stacks to the rows and ages that they belong to, when all frees are known, and rows that are gone are still in
 * their places. */
void stacks_fold(struct snapshot_builder *b);

/* Makes a list of the stacks of each row, when rows have their final places. */
void stacks_link(struct snapshot_builder *b);

/* Estimates what samples stand for, when all figures of rows are known. */
void stacks_estimate(struct snapshot_builder *b);

/* Sets the figures of a period. */
void ages_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum);

/* Adds periods to the rows that they belong to, when all frees are known. */
void ages_fold(struct snapshot_builder *b);

#endif
