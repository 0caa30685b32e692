/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: each is one mapping that holds rows, labels, ages and strings. */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/row_order.h"
#include "snapshot/snapshot_builder.h"

struct extent {
    uint32_t rows, labels, ages, stacks;
    size_t text_bytes;
};

/* ---- Which rows there are ---- */

static void count_row(struct snapshot_builder *b, struct extent *n, uint32_t id, const struct known *known)
{
    struct place *place = &b->places[id];
    if (id == CONTEXT_ID_UNSAMPLED) {
        place->row = 0; /* the root's */
    } else if (place->kind == CONTEXT_PERIOD) {
        place->row = n->ages++;
    } else if (place->kind == CONTEXT_STACK) {
        place->row = n->stacks++;
    } else {
        if (place->kind != CONTEXT_SPAN)
            b->last_special_row = n->rows;
        place->row = n->rows++;
        n->labels += known->label_count;
        n->text_bytes += builder_text_room(known);
    }
}

/* Numbers the rows, and counts the memory that they and their labels take. */
static int count_rows(struct snapshot_builder *b, struct extent *n)
{
    int error = 0;
    b->places[0] = (struct place){.life = 0}; /* no context has this id */
    for (uint32_t first = 0; !error && first < b->end; first += BLOCK_IDS) {
        error = builder_find_known(b, first);
        for (uint32_t i = first ? 0 : 1; !error && i < BLOCK_IDS && first + i < b->end; i++) {
            const struct known *known = &b->block->known[i];
            struct place *place = &b->places[first + i];
            *place = builder_place(known);
            if (place->life)
                count_row(b, n, first + i, known);
            else if (first + i <= CONTEXT_ID_UNSAMPLED)
                return -EBADMSG;
        }
    }
    view_tidy_texts(b->view, n->text_bytes);
    return error;
}

/* ---- A snapshot ---- */

/* Reuses an old snapshot's memory if its size is about right, which saves page faults. */
static struct snapshot_mapping *get_mapping(struct snapshot_mapping *old, size_t bytes)
{
    if (old && old->bytes >= bytes && old->bytes / 2 <= bytes)
        return old;
    bytes += bytes / 8; /* so that it fits the next snapshots too; untouched pages take no memory */
    struct snapshot_mapping *mapping = meta_emergency_alloc(bytes);
    if (mapping)
        mapping->bytes = bytes;
    return mapping;
}

/* With room for contexts that come later, if the rows can be used again. */
static struct extent with_room(const struct snapshot_builder *b, const struct extent *n)
{
    enum { PART = 8, LEAST = 64 };
    struct extent room = *n;
    if (!b->view->kept)
        return room;
    room.rows += n->rows / PART + LEAST;
    room.labels += n->labels / PART + LEAST;
    room.text_bytes += round_up(n->text_bytes / PART + LEAST * LEAST, LABEL_ALIGN);
    return room;
}

static bool lay_out(struct snapshot_builder *b, const struct extent *n, struct snapshot *old)
{
    struct extent room = with_room(b, n);
    uint32_t ids_room = b->end + (room.rows - n->rows);
    b->mapping = get_mapping((struct snapshot_mapping *)old,
                             sizeof *b->mapping + room.rows * (sizeof *b->rows + sizeof *b->below + sizeof *b->walls) +
                                 ids_room * (sizeof *b->places + 2 * sizeof *b->list) + room.labels * sizeof *b->label +
                                 n->ages * sizeof *b->ages + n->stacks * sizeof *b->stacks + room.text_bytes);
    if (!b->mapping)
        return false;
    b->rows = (struct snapshot_row *)(b->mapping + 1);
    b->label = (struct snapshot_label *)(b->rows + room.rows);
    b->ages = (struct snapshot_age *)(b->label + room.labels);
    b->labels_end = (struct snapshot_label *)b->ages;
    b->stacks = (struct snapshot_stack *)(b->ages + n->ages);
    b->below = (struct below *)(b->stacks + n->stacks);
    b->walls = (struct walls *)(b->below + room.rows);
    struct place *places = (struct place *)(b->walls + room.rows);
    b->list = (uint32_t *)(places + ids_room);
    b->text = (char *)(b->list + 2 * (size_t)ids_room);
    b->text_end = b->text + room.text_bytes;
    *b->mapping = (struct snapshot_mapping){
        .bytes = b->mapping->bytes, .below = b->below, .walls = b->walls, .places = places, .list = b->list,
        .rows_room = room.rows, .ids_room = ids_room,
        .public = {.n_rows = n->rows, .rows = b->rows, .n_ages = n->ages, .ages = b->ages, .n_stacks = n->stacks, .stacks = b->stacks,
                   .epoch = b->epoch, .ticks = b->time, .scale = b->scale, .pid = b->view->pid,
                   .from_outside = b->view->outside}};
    memset(b->walls, 0, n->rows * sizeof *b->walls);
    b->view->epoch = b->epoch;
    return true;
}

static void set_clock(struct snapshot *s, uint64_t start_ns)
{
    s->time_unix_ns = clock_unix_ns();
    s->start_unix_ns = s->time_unix_ns - (clock_ns(CLOCK_BOOTTIME) - start_ns);
}

static int make(struct snapshot_builder *b)
{
    int error = builder_fill_rows(b);
    builder_note_room(b);
    if (!error)
        error = stacks_begin(b);
    if (error)
        return error;
    b->mapping->public.pending_bytes = b->view->reader->end(b->reading, builder_add_buffered, b);
    error = builder_validate(b);
    if (error)
        return error;
    stacks_fold(b);
    builder_remove_dropped(b);
    stacks_link(b);
    builder_floor_frees(b);
    ages_fold(b);
    stacks_estimate(b);
    builder_finish(b);
    builder_keep_rows(b);
    set_clock(&b->mapping->public, b->view->start_ns);
    return 0;
}

static int build(struct snapshot_builder *b, struct snapshot *old)
{
    struct extent n = {0};
    int error = count_rows(b, &n);
    if (error)
        return error;
    return lay_out(b, &n, old) ? make(b) : -ENOMEM;
}

int view_take(struct view *view, struct snapshot **old)
{
    struct snapshot_builder b = {.view = view};
    int error = builder_begin(&b), done = 0;
    if (!error)
        done = builder_again(&b, *old);
    if (done < 0)
        error = done;
    else if (done)
        set_clock(&b.mapping->public, view->start_ns);
    else if (!error)
        error = build(&b, *old);
    builder_end(&b);
    struct snapshot *s = b.mapping ? &b.mapping->public : NULL;
    if (error && s != *old)
        snapshot_free(s);
    if (error)
        return error;
    if (s != *old)
        snapshot_free(*old);
    *old = s;
    return 0;
}

void snapshot_free(struct snapshot *s)
{
    struct snapshot_mapping *mapping = (struct snapshot_mapping *)s;
    if (mapping)
        meta_return(mapping, mapping->bytes);
}

uint64_t snapshot_closed_ns(const struct snapshot *s, const struct snapshot_row *row)
{
    return row->closed_time ? clock_age_ns(s->ticks, row->closed_time, s->scale) : 0;
}

/* The context that stands for unsampled spans has the place of the root. */
static const struct snapshot_row *find_by_place(const struct snapshot *s, uint32_t id)
{
    const struct place *place = id < s->places_end ? &s->places[id] : NULL;
    return place && place->life && s->rows[place->row].id == id ? &s->rows[place->row] : NULL;
}

const struct snapshot_row *snapshot_next(const struct snapshot *s, const struct snapshot_row *row)
{
    const struct snapshot_row *next = !row ? s->rows : s->places ? NULL : row + 1;
    for (uint32_t id = row ? row->id + 1 : 0; !next && id < s->places_end; id++)
        next = find_by_place(s, id);
    return next < s->rows + s->n_rows ? next : NULL;
}

const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id)
{
    if (s->places)
        return find_by_place(s, id);
    uint32_t low = 0, high = s->n_rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_rows && s->rows[low].id == id ? &s->rows[low] : NULL;
}

/* Walks up from each row to one whose place is known, and notes the place of all rows on the way. Without memory for
 * that, the row alone is returned. */
struct totals snapshot_inclusive(const struct snapshot *s, uint32_t row)
{
    enum { UNKNOWN, BELOW, ELSEWHERE };
    struct totals sum = s->rows[row].totals;
    uint8_t *place = meta_map(s->n_rows);
    if (!place)
        return sum;
    place[0] = ELSEWHERE;
    place[row] = BELOW;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t top = i;
        while (place[top] == UNKNOWN)
            top = s->rows[top].parent_row;
        uint8_t found = place[top];
        for (uint32_t r = i; place[r] == UNKNOWN; r = s->rows[r].parent_row)
            place[r] = found;
        if (found == BELOW && i != row)
            totals_add(&sum, &s->rows[i].totals);
    }
    meta_unmap(place, s->n_rows);
    sum.wall = s->rows[row].wall_ns;
    sum.idle = totals_idle(&sum);
    return sum;
}

bool snapshot_inclusive_all(const struct snapshot *s, struct totals *sums)
{
    size_t bytes = s->n_rows * sizeof(uint32_t);
    uint32_t *children = meta_map(2 * bytes);
    if (!children)
        return false;
    row_order_sums(s->rows, s->n_rows, sums, children, children + s->n_rows);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        sums[i].wall = s->rows[i].wall_ns;
        sums[i].idle = totals_idle(&sums[i]);
    }
    meta_unmap(children, 2 * bytes);
    return true;
}
