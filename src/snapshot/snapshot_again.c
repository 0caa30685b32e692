/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot out of an earlier one: rows stay where they are, and only those whose figures may have changed are filled again.
 *
 * That is possible where the view keeps sums of counters (sums_kept.h), and no peak was raised by a look. Contexts may have come and
 * gone: snapshot_changes.c. A row stands if its chunk does, from that snapshot on (kept_chunk.since), so the memory may be that of
 * any earlier snapshot of the view. What passes by itself, the wall time of open spans, is computed out of their begins in struct
 * passing. What a row adds to others, to times and peaks above it and to the sum of all rows, is corrected by the difference. The
 * result is, to the byte, what snapshot.c builds in its steps: tests/unit/snapshot/test_again.c.
 *
 * Periods and stacks add to several rows. With them, the snapshot is built from the beginning. */
#include <string.h>

#include "heap/timing.h"
#include "snapshot/snapshot_builder.h"

static bool note_parents(const struct snapshot_builder *b)
{
    bool parents_first = true;
    for (uint32_t i = 1; i < b->mapping->public.n_rows; i++) {
        b->walls[i].parent_row = b->rows[i].parent_row;
        b->walls[b->rows[i].parent_row].n_children++;
        parents_first &= b->rows[i].parent_row < i;
    }
    return parents_first;
}

void builder_note_room(struct snapshot_builder *b)
{
    struct snapshot_mapping *m = b->mapping;
    m->label = b->label;
    m->labels_end = b->labels_end;
    m->text = b->text;
    m->text_end = b->text_end;
}

/* Whether there is room for what is remembered of all contexts. */
static bool has_room(const struct snapshot_builder *b)
{
    return b->view->seen_room >= b->end && b->view->passing_room >= b->end;
}

void builder_keep_rows(struct snapshot_builder *b)
{
    struct snapshot_mapping *m = b->mapping;
    struct view *view = b->view;
    bool can = view->kept && has_room(b) && !b->has_dropped && !b->owes_frees && !b->pasts && !m->public.n_ages &&
               !m->public.n_stacks;
    if (!can)
        return;
    memcpy(m->places, b->places, b->end * sizeof *m->places);
    m->kept = view->kept_number;
    m->scale = b->scale;
    m->peaks_changes = b->peaks_changes;
    m->end = b->end;
    m->last_special_row = b->last_special_row;
    m->is_peak = builder_is_peak(b);
    m->parents_first = note_parents(b);
}

static bool fits(const struct snapshot_builder *b, const struct snapshot_mapping *m)
{
    const struct view *view = b->view;
    return m && m->kept && view->kept && m->kept == view->kept_number && m->end <= b->end && b->end <= m->ids_room &&
           !(b->sequence & 1) && m->scale == b->scale && m->peaks_changes == b->peaks_changes && !b->pasts && has_room(b);
}

/* ---- Rows that may have changed ---- */

/* Adds a row to the sum of all rows, or subtracts it, but for what set_self() adds. */
static void change_sum(struct snapshot_builder *b, void (*change)(struct totals *, const struct totals *), const struct totals *row)
{
    struct totals *sum = &b->mapping->rows_sum;
    uint64_t wall = sum->wall, idle = sum->idle;
    change(sum, row);
    sum->wall = wall;
    sum->idle = idle;
}

void builder_open_row(struct snapshot_builder *b, uint32_t row)
{
    if (b->below[row].opened == b->epoch || !b->is_again)
        return;
    b->below[row].opened = b->epoch;
    b->list[b->end + b->n_opened++] = row;
    change_sum(b, totals_subtract, &b->rows[row].totals);
}

/* A new row was filled. */
static void add_to_parent(struct snapshot_builder *b, uint32_t at)
{
    const struct snapshot_row *row = &b->rows[at];
    b->walls[at].parent_row = row->parent_row;
    b->walls[row->parent_row].n_children++;
    b->mapping->parents_first &= b->rows[row->parent_row].id < row->id;
}

/* Labels and times stay as they are, but for rows that are new. Only damaged books have another parent now. */
static int fill_again(struct snapshot_builder *b, uint32_t first, const struct totals *sums)
{
    struct kept_row {
        const struct snapshot_label *labels;
        uint32_t n_labels, parent_row;
        uint64_t wall, idle;
        bool is_new;
    } kept[READING_CHUNK];
    uint32_t n = (uint32_t)lesser(READING_CHUNK, b->end - first);
    for (uint32_t i = 0; i < n; i++) {
        const struct place *place = &b->places[first + i];
        const struct snapshot_row *row = &b->rows[place->row];
        if (!place_has_row(place))
            continue;
        builder_open_row(b, place->row);
        kept[i] = (struct kept_row){row->labels, row->n_labels, row->parent_row, row->totals.wall, row->totals.idle,
                                    builder_is_new_row(b, place->row)};
    }
    int error = builder_fill_chunk(b, first, sums);
    for (uint32_t i = 0; !error && !b->has_dropped && i < n; i++) {
        const struct place *place = &b->places[first + i];
        struct snapshot_row *row = &b->rows[place->row];
        if (!place_has_row(place))
            continue;
        if (kept[i].is_new) {
            add_to_parent(b, place->row);
        } else {
            row->labels = kept[i].labels;
            row->n_labels = kept[i].n_labels;
            b->has_dropped |= row->parent_row != kept[i].parent_row;
        }
        builder_note_times(b, place->row);
        row->totals.wall = kept[i].wall;
        row->totals.idle = kept[i].idle;
    }
    return error;
}

/* *block is the first id of those that the block has. */
static int refresh_chunk(struct snapshot_builder *b, uint32_t first, const uint32_t *lives, uint64_t epoch, uint32_t *block)
{
    const struct totals *sums;
    int error = builder_read_sums(b, first, lives, NULL, &sums);
    if (error || sums_kept_chunk(b->view, first)->since <= epoch)
        return error;
    if (*block != first - first % BLOCK_IDS)
        error = builder_copy_block(b, *block = first - first % BLOCK_IDS);
    return error ? error : fill_again(b, first, sums);
}

/* ---- What passes by itself ---- */

/* The time that spans of a context were open. */
static uint64_t wall_of(const struct snapshot_builder *b, uint32_t id)
{
    const struct passing *passing = &b->view->passing[id];
    uint64_t ticks = timing_resolve_open(passing->wall, passing->handles & ~PASSING_HAS_REST, b->time);
    if (unlikely(passing->handles & PASSING_HAS_REST))
        ticks += b->view->seen[id].wall_rest;
    return builder_to_ns(b, at_least_0(ticks));
}

static void set_wall(struct snapshot_builder *b, uint32_t at, uint64_t wall)
{
    struct walls *walls = &b->walls[at];
    uint64_t more = wall - walls->own;
    walls->own = wall;
    if (at)
        b->walls[walls->parent_row].children += more;
}

/* The wall time less that of spans below, and of a row that is no span, the wall time. Its parent is the root. */
static void set_self(struct snapshot_builder *b, uint32_t at, struct passing *passing, bool is_span)
{
    struct snapshot_row *row = &b->rows[at];
    struct totals *sum = &b->mapping->rows_sum;
    uint64_t children = b->walls[at].children + passing->recycled;
    if (!is_span)
        set_wall(b, at, passing->busy + children);
    uint64_t wall = b->walls[at].own, self = wall - lesser(children, wall), idle = self > passing->busy ? self - passing->busy : 0;
    builder_raise_to(&passing->shown.wall, &self);
    builder_raise_to(&passing->shown.idle, &idle);
    builder_raise_to(&passing->shown.wall_inclusive, &wall);
    sum->wall += self - row->totals.wall;
    sum->idle += idle - row->totals.idle;
    row->totals.wall = self;
    row->totals.idle = idle;
    row->wall_ns = wall;
}

static bool passes(uint32_t id, const struct passing *passing)
{
    return id <= CONTEXT_ID_UNSAMPLED || builder_is_open(passing->handles & ~PASSING_HAS_REST, passing->wall);
}

/* All rows of a chunk that was filled, and those with open spans of one that stands. Other spans stay as they are.
 * Time that passes below a span only makes its own time less, and times that were shown never become less. The contexts of the root
 * and of jespan itself are no spans, and have spans below them. The time of these spans is theirs too. */
static void pass_chunk(struct snapshot_builder *b, uint32_t first, uint64_t epoch, bool sets_wall, bool sets_self)
{
    const struct kept_chunk *kept = sums_kept_chunk(b->view, first);
    bool is_filled = kept->since > epoch;
    if (!is_filled && !kept->has_open && first)
        return;
    for (uint32_t id = (uint32_t)lesser(b->end, first + READING_CHUNK); id-- > (first ? first : CONTEXT_ID_ROOT);) {
        const struct place *place = &b->places[id];
        struct passing *passing = &b->view->passing[id];
        bool is_span = place->kind == CONTEXT_SPAN;
        if (!place->life || id == CONTEXT_ID_UNSAMPLED || !(is_filled || passes(id, passing)))
            continue;
        if (is_span && sets_wall)
            set_wall(b, place->row, wall_of(b, id));
        if (sets_self)
            set_self(b, place->row, passing, is_span);
    }
}

/* `epoch` is that of the former snapshot. From the last to the first: so children come before their parents, unless ids were
 * recycled, and the root comes last. */
static void pass_time(struct snapshot_builder *b, uint64_t epoch)
{
    bool parents_first = b->mapping->parents_first;
    uint32_t chunks = (b->end + READING_CHUNK - 1) / READING_CHUNK;
    for (uint32_t chunk = chunks; !parents_first && chunk--;)
        pass_chunk(b, chunk * READING_CHUNK, epoch, true, false);
    for (uint32_t chunk = chunks; chunk--;)
        pass_chunk(b, chunk * READING_CHUNK, epoch, parents_first, true);
}

/* ---- All together ---- */

/* What a row has itself now, the row and all above it have below them. */
static void add_below(struct snapshot_builder *b, uint32_t row)
{
    uint64_t own = totals_inuse_bytes(&b->rows[row].totals), more = own - b->below[row].own;
    b->below[row].own = own;
    builder_add_below(b, row, more);
}

static void close_rows(struct snapshot_builder *b)
{
    for (uint32_t i = 0; i < b->n_opened; i++) {
        uint32_t at = b->list[b->end + i];
        struct snapshot_row *row = &b->rows[at];
        builder_keep_shown(&b->view->seen[row->id].shown, &b->view->passing[row->id].shown, &row->totals);
        change_sum(b, totals_add, &row->totals);
        add_below(b, at);
    }
}

static void raise_peaks(struct snapshot_builder *b)
{
    for (uint32_t i = 0; i < b->n_opened; i++)
        for (uint32_t at = b->list[b->end + i]; b->below[at].raised != b->epoch; at = b->rows[at].parent_row) {
            builder_raise_peaks(b, at, b->mapping->is_peak);
            b->below[at].raised = b->epoch;
        }
}

/* Whether it is a peak is known when rows are closed. If that is not as it was, all rows change. */
static bool finish(struct snapshot_builder *b, uint64_t epoch)
{
    struct snapshot_mapping *m = b->mapping;
    pass_time(b, epoch);
    close_rows(b);
    if (builder_takes_too_long(b) || builder_is_peak(b) != m->is_peak)
        return false;
    raise_peaks(b);
    builder_finish_retired(b, m->is_peak);
    builder_finish_all(b);
    return true;
}

/* Whether a row has negative frees, now that buffered ones are added. They are seldom: builder_floor_frees(). */
static bool owes_frees(const struct snapshot_builder *b)
{
    bool owes = false;
    for (uint32_t i = 0; b->owes_frees && i < b->n_opened; i++)
        owes |= totals_owe_frees(&b->rows[b->list[b->end + i]].totals);
    return owes;
}

/* Only damaged books have new rows that were not filled, since nothing told so, or are not below the root. */
static bool are_in_tree(struct snapshot_builder *b)
{
    for (uint32_t i = 0; i < b->n_begun; i++)
        if (builder_is_new_row(b, b->places[b->begun[i]].row))
            return false;
    for (uint32_t i = 0; b->view->outside && i < b->n_begun; i++)
        for (uint32_t at = b->places[b->begun[i]].row; at && !builder_takes_too_long(b); at = b->rows[at].parent_row)
            b->steps++;
    return !builder_takes_too_long(b);
}

/* Returns 1, 0 if the snapshot has to be built from the beginning, or a negative errno. */
static int refresh(struct snapshot_builder *b, uint32_t *room)
{
    struct snapshot *s = &b->mapping->public;
    uint32_t *lives = b->list, block = UINT32_MAX;
    bool rests = false;
    uint64_t epoch = s->epoch;
    int error = builder_copy_lives(b, lives, 0, b->end);
    if (error)
        return error;
    int fit = builder_change_rows(b, lives, room);
    if (fit <= 0)
        return fit;
    for (uint32_t first = 0; !error && !b->has_dropped && first < b->end; first += READING_CHUNK)
        error = refresh_chunk(b, first, lives + first, epoch, &block);
    if (error || b->has_dropped || !are_in_tree(b))
        return error;
    uint64_t pending_bytes = b->view->reader->end(b->reading, builder_add_buffered, b);
    *s = (struct snapshot){.n_rows = s->n_rows, .rows = s->rows, .places = s->places, .places_end = s->places ? b->end : 0,
                           .ages = s->ages, .stacks = s->stacks, .epoch = b->epoch, .ticks = b->time,
                           .scale = b->scale, .pid = b->view->pid, .from_outside = s->from_outside, .pending_bytes = pending_bytes};
    error = builder_validate_rest(b, &rests);
    return error ? error : rests && !owes_frees(b) && finish(b, epoch);
}

int builder_again(struct snapshot_builder *b, struct snapshot *old)
{
    struct snapshot_mapping *m = (struct snapshot_mapping *)old;
    struct place *places = b->places;
    if (!fits(b, m))
        return 0;
    uint64_t kept = m->kept;
    m->kept = 0;
    memset(m->places + m->end, 0, (b->end - m->end) * sizeof *m->places);
    m->end = b->end;
    b->is_again = true;
    b->mapping = m;
    b->rows = (struct snapshot_row *)(m + 1);
    b->below = m->below;
    b->walls = m->walls;
    b->list = m->list;
    b->places = m->places;
    b->last_special_row = m->last_special_row;
    b->label = m->label;
    b->labels_end = m->labels_end;
    b->text = m->text;
    b->text_end = m->text_end;
    int done = refresh(b, (uint32_t *)places);
    if (done == 1) {
        m->kept = kept;
        builder_note_room(b);
        b->view->epoch = b->epoch;
        return 1;
    }
    b->mapping = NULL;
    b->places = places;
    b->is_again = b->has_dropped = b->owes_frees = false;
    memset(b->recycled_wall, 0, b->end * sizeof *b->recycled_wall);
    return done;
}
