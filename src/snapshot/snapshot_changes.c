/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of contexts that have come and gone since an earlier snapshot, where its rows are used again: snapshot_again.c.
 *
 * A row that goes is subtracted from what it was added to: the sum of all rows, what its ancestors have below them, and the wall time
 * of its parent. Its parent's row is filled again, since the parent's context has that wall time now. The place of the row is for a
 * new one; if there is none, the last row moves there. So the rows are not ordered by id any more, and the snapshot has their places. */
#include <string.h>

#include "snapshot/snapshot_builder.h"

struct changes {
    uint32_t *gone, n_gone;   /* rows */
    uint32_t *begun, n_begun; /* ids */
    uint64_t labels, text_bytes; /* of new contexts */
};

void builder_add_below(struct snapshot_builder *b, uint32_t row, uint64_t more)
{
    for (; more && row && !builder_takes_too_long(b); row = b->rows[row].parent_row, b->steps++)
        b->below[row].inuse += more;
    b->below[0].inuse += more;
}

/* ---- What has changed ---- */

/* The first ids always have contexts, in one life. */
static bool note_change(struct snapshot_builder *b, struct changes *c, uint32_t id)
{
    const struct known *known = &b->block->known[id % BLOCK_IDS];
    struct place *place = &b->places[id], now = builder_place(known);
    if (place->life == now.life)
        return true;
    if (id <= CONTEXT_ID_UNSAMPLED || (now.life && !place_has_row(&now)))
        return false;
    if (place->life)
        c->gone[c->n_gone++] = place->row;
    *place = now;
    if (!now.life)
        return true;
    c->begun[c->n_begun++] = id;
    c->labels += known->label_count;
    c->text_bytes += builder_text_room(known);
    return true;
}

static bool has_changed(const struct snapshot_builder *b, const uint32_t *lives, uint32_t first, uint32_t n)
{
    uint32_t other = 0;
    for (uint32_t i = 0; i < n; i++)
        other |= b->places[first + i].life ^ (lives[i] & 1 ? lives[i] : 0);
    return other;
}

/* What is known of a context is read after its life, so that life counts from here on. */
static int note_changes(struct snapshot_builder *b, struct changes *c, uint32_t *lives)
{
    for (uint32_t first = 0; first < b->end; first += BLOCK_IDS) {
        uint32_t n = (uint32_t)lesser(BLOCK_IDS, b->end - first);
        if (!has_changed(b, lives + first, first, n))
            continue;
        int error = builder_find_known(b, first);
        if (error)
            return error;
        memcpy(lives + first, b->block->lives, n * sizeof *lives);
        for (uint32_t i = first ? 0 : 1; i < n; i++)
            if (!note_change(b, c, first + i))
                return 0;
    }
    return 1;
}

/* ---- Rows that go ---- */

static void subtract_row(struct snapshot_builder *b, uint32_t at)
{
    const struct snapshot_row *row = &b->rows[at];
    struct walls *parent = &b->walls[row->parent_row];
    uint64_t own = b->below[at].own;
    totals_subtract(&b->mapping->rows_sum, &row->totals);
    builder_add_below(b, at, 0 - own);
    parent->children -= b->walls[at].own;
    parent->n_children--;
    sums_kept_chunk(b->view, b->rows[row->parent_row].id)->since = b->epoch;
}

/* Contexts below a recycled one were recycled before it. */
static bool subtract_rows(struct snapshot_builder *b, const struct changes *c)
{
    bool is_used = false;
    for (uint32_t i = 0; i < c->n_gone; i++)
        subtract_row(b, c->gone[i]);
    for (uint32_t i = 0; i < c->n_gone; i++)
        is_used |= b->walls[c->gone[i]].n_children != 0;
    return !is_used && !builder_takes_too_long(b);
}

/* ---- Rows that come ---- */

static bool has_room(const struct snapshot_builder *b, const struct changes *c)
{
    uint64_t more = c->n_begun > c->n_gone ? c->n_begun - c->n_gone : 0;
    return b->mapping->public.n_rows + more <= b->mapping->rows_room && c->labels <= (uint64_t)(b->labels_end - b->label) &&
           c->text_bytes <= (uint64_t)(b->text_end - b->text);
}

static void add_rows(struct snapshot_builder *b, const struct changes *c)
{
    struct snapshot *s = &b->mapping->public;
    for (uint32_t i = 0; i < c->n_begun; i++) {
        uint32_t at = i < c->n_gone ? c->gone[i] : s->n_rows++;
        b->places[c->begun[i]].row = at;
        b->rows[at] = (struct snapshot_row){.id = c->begun[i]};
        b->below[at] = (struct below){.inuse = 0};
        b->walls[at] = (struct walls){.own = 0};
    }
}

/* ---- Rows that move ---- */

/* Those that had a row above which has moved. */
static void find_parents_again(struct snapshot_builder *b, const uint32_t *moved)
{
    uint32_t n = b->mapping->public.n_rows;
    for (uint32_t i = 1; i < n; i++)
        if (b->walls[i].parent_row >= n && b->rows[i].name)
            b->rows[i].parent_row = b->walls[i].parent_row = moved[b->walls[i].parent_row - n];
}

/* The last rows move to places where there is none. */
static void close_places(struct snapshot_builder *b, const struct changes *c)
{
    struct snapshot *s = &b->mapping->public;
    uint32_t *moved = b->list + b->end, last = s->n_rows;
    bool any_has_children = false;
    for (uint32_t i = c->n_begun; i < c->n_gone; i++)
        b->rows[c->gone[i]].id = 0;
    s->n_rows -= c->n_gone - c->n_begun;
    for (uint32_t i = c->n_begun; i < c->n_gone; i++) {
        uint32_t to = c->gone[i];
        if (to >= s->n_rows)
            continue;
        do
            last--;
        while (!b->rows[last].id);
        moved[last - s->n_rows] = to;
        b->rows[to] = b->rows[last];
        b->below[to] = b->below[last];
        b->walls[to] = b->walls[last];
        b->places[b->rows[to].id].row = to;
        any_has_children |= b->walls[to].n_children != 0;
    }
    if (any_has_children)
        find_parents_again(b, moved);
}

int builder_change_rows(struct snapshot_builder *b, uint32_t *lives, uint32_t *room)
{
    struct changes c = {.gone = room, .begun = room + b->end};
    struct snapshot *s = &b->mapping->public;
    int fits = note_changes(b, &c, lives);
    if (fits <= 0 || !(c.n_gone | c.n_begun))
        return fits;
    if (!has_room(b, &c) || !subtract_rows(b, &c))
        return 0;
    add_rows(b, &c);
    if (c.n_gone > c.n_begun)
        close_places(b, &c);
    s->places = b->places;
    b->begun = c.begun;
    b->n_begun = c.n_begun;
    return 1;
}
