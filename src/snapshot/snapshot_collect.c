/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies contexts with their labels, and at last the sum of recycled contexts. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/meta.h"
#include "snapshot/snapshot_builder.h"

static int copy_one(struct view *view, void *to, uint64_t from, size_t bytes)
{
    const struct piece piece = {to, from, bytes};
    return space_copy(&view->space, &piece, 1);
}

/* Without them, a peak is what is in use. */
static int find_peaks(struct snapshot_builder *b)
{
    struct peaks found;
    int error = copy_one(b->view, &found, space_address(b->view->books.peaks), sizeof found);
    uint64_t of = error ? 0 : space_address(load_relaxed(&found.of));
    b->peaks = of;
    b->peaks_changes = error ? 0 : load_relaxed(&found.changes);
    b->peaks_end = of && !(of & 7) ? (uint32_t)lesser(load_relaxed(&found.end), CONTEXTS_MAX) : 0;
    return error;
}

/* Finds the arrays and their end. Nothing was counted yet where there are none. */
static int find_arrays(struct snapshot_builder *b)
{
    const struct books *there = &b->view->books;
    const struct piece pieces[] = {{&b->sequence, space_address(&there->retired->sequence), sizeof b->sequence},
                                   {&b->contexts, space_address(there->contexts), sizeof b->contexts},
                                   {&b->lives, space_address(there->context_lives), sizeof b->lives},
                                   {&b->bases, space_address(there->context_bases), sizeof b->bases},
                                   {&b->pasts, space_address(there->context_pasts), sizeof b->pasts},
                                   {&b->end, space_address(there->context_end), sizeof b->end}};
    int error = space_copy(&b->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    atomic_thread_fence(memory_order_acquire);
    if (error)
        return error;
    if (!b->contexts || !b->lives || !b->bases || b->end <= CONTEXT_ID_UNSAMPLED)
        return -EAGAIN;
    if (b->end > CONTEXTS_MAX || (b->contexts | b->lives | b->bases | b->pasts) & 7)
        return -EBADMSG;
    return find_peaks(b);
}

int builder_begin(struct snapshot_builder *b)
{
    const struct view_reader *reader = b->view->reader;
    int error = find_arrays(b);
    if (error)
        return error;
    size_t places = b->end * sizeof *b->places, walls = b->end * sizeof *b->recycled_wall;
    size_t past = b->pasts ? b->end * sizeof *b->past : 0, block = round_up(sizeof *b->block, 8);
    size_t rest = reader->bytes(b->view, b->end);
    b->scratch_bytes = places + walls + past + block + rest;
    char *p = b->scratch = meta_emergency_alloc(b->scratch_bytes);
    if (!p)
        return -ENOMEM;
    b->places = (struct place *)p;
    b->recycled_wall = (uint64_t *)(p += places);
    b->past = b->pasts ? (struct totals *)(p += walls) : NULL;
    b->block = (struct block *)(p += b->pasts ? past : walls);
    view_grow(b->view, b->end);
    b->epoch = b->view->epoch + 1;
    b->scale = reader->scale(b->view);
    b->now = reader->ticks(b->view);
    b->time = b->view->times ? b->now : 0;
    return reader->begin(b->view, &b->reading, p + block, rest, b->end);
}

void builder_end(struct snapshot_builder *b)
{
    meta_return(b->scratch, b->scratch_bytes);
}

/* Texts are copied in whole words. */
static size_t text_room(const struct context *c)
{
    return round_up(c->label_bytes, LABEL_ALIGN);
}

static bool has_good_labels(const struct context *c)
{
    return c->labels && c->label_count && c->label_count <= JESPAN_MAX_LABELS && c->label_bytes &&
           c->label_bytes <= LABEL_TEXT_MAX;
}

/* Whether what was copied may be of another life. A context that is recycled between the copies of lives and of contexts has a new
 * context's labels here. Its row will be dropped. */
static bool is_other(const struct known *known, const struct context *c)
{
    return known && (known->label_bytes != c->label_bytes || known->label_count != c->label_count);
}

/* A label set that is freed stays a label set, so what is read of it too late is text, and its row is dropped. There is
 * room for the labels of the contexts that were counted, so those of a later life are not copied: they would take the room of
 * others. Texts that are known come out of the view's memory. Rows that are used again have theirs. */
static int copy_texts(struct snapshot_builder *b, uint32_t first, uint32_t n)
{
    struct block *block = b->block;
    uint32_t n_pieces = 0;
    uint8_t copied[BLOCK_IDS]; /* small, for small stacks */
    for (uint32_t i = 0; i < n; i++) {
        const struct context *c = &block->contexts[i];
        block->texts[i] = NULL;
        const struct place *place = &b->places[first + i];
        const struct known *known = view_known(b->view, first + i, place->life);
        if (!place_has_row(place) || block->lives[i] != place->life || !has_good_labels(c) || is_other(known, c) ||
            text_room(c) > (size_t)(b->text_end - b->text) || (b->is_again && !builder_is_new_row(b, place->row)))
            continue;
        block->texts[i] = b->text;
        const char *kept = known ? view_text(b->view, known) : NULL;
        uint64_t text = space_address(c->labels) + offsetof(struct label_set, text); /* of damaged books, it may be any number */
        copied[n_pieces] = (uint8_t)i;
        if (kept)
            memcpy(b->text, kept, text_room(c));
        else
            block->pieces[n_pieces++] = (struct piece){b->text, text, text_room(c)};
        b->text += text_room(c);
    }
    int error = space_copy(&b->view->space, block->pieces, n_pieces);
    for (uint32_t i = 0; !error && i < n_pieces; i++) {
        uint32_t at = copied[i];
        struct known *known = view_known(b->view, first + at, block->lives[at]);
        if (known)
            view_keep_text(b->view, known, block->texts[at], block->pieces[i].bytes);
    }
    return error;
}

int builder_copy_lives(struct snapshot_builder *b, uint32_t *lives, uint32_t first, uint32_t n)
{
    const struct piece piece = {lives, b->lives + first * sizeof *lives, n * sizeof *lives};
    int error = space_copy(&b->view->space, &piece, 1);
    atomic_thread_fence(memory_order_acquire);
    return error;
}

static struct piece piece_of_contexts(const struct snapshot_builder *b, uint32_t first, uint32_t n)
{
    struct context *to = b->block->contexts;
    return (struct piece){to, b->contexts + first * sizeof *to, n * sizeof *to};
}

/* Only the first three ids have contexts of these kinds. */
static bool has_good_kind(uint32_t id, unsigned kind)
{
    static const enum context_kind fixed[] = {
        [CONTEXT_ID_ROOT] = CONTEXT_ROOT, [CONTEXT_ID_SELF] = CONTEXT_SELF, [CONTEXT_ID_UNSAMPLED] = CONTEXT_UNSAMPLED};
    if (id <= CONTEXT_ID_UNSAMPLED)
        return kind == fixed[id];
    return kind == CONTEXT_SPAN || kind == CONTEXT_THREAD || kind == CONTEXT_PERIOD || kind == CONTEXT_STACK;
}

static void note_known(struct snapshot_builder *b, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct known *known = &b->block->known[i];
        const struct context *c = &b->block->contexts[i];
        if (!(b->block->lives[i] & 1) || known->life)
            continue;
        *known = (struct known){.life = b->block->lives[i], .label_bytes = c->label_bytes, .label_count = c->label_count,
                                .kind = has_good_kind(first + i, c->kind) ? (uint8_t)c->kind : KIND_DAMAGED};
        view_know(b->view, first + i, known);
    }
}

int builder_find_known(struct snapshot_builder *b, uint32_t first)
{
    uint32_t n = b->end - first < BLOCK_IDS ? b->end - first : BLOCK_IDS;
    bool all = true;
    int error = builder_copy_lives(b, b->block->lives, first, n);
    for (uint32_t i = 0; !error && i < n; i++) {
        const struct known *known = b->block->lives[i] & 1 ? view_known(b->view, first + i, b->block->lives[i]) : NULL;
        b->block->known[i] = known ? *known : (struct known){.life = 0};
        all &= known || !(b->block->lives[i] & 1);
    }
    if (error || all)
        return error;
    const struct piece piece = piece_of_contexts(b, first, n);
    error = space_copy(&b->view->space, &piece, 1);
    if (!error)
        note_known(b, first, n);
    return error;
}

/* Lives come first: a context whose life stays the same from then on is copied whole. */
int builder_copy_block(struct snapshot_builder *b, uint32_t first)
{
    struct block *block = b->block;
    uint32_t n = b->end - first < BLOCK_IDS ? b->end - first : BLOCK_IDS;
    struct piece pieces[4] = {piece_of_contexts(b, first, n)};
    uint32_t used = 1, n_peaks = b->peaks_end <= first ? 0 : (uint32_t)lesser(b->peaks_end - first, n);
    int error = builder_copy_lives(b, b->block->lives, first, n);
    bool recycled = false;
    for (uint32_t i = 0; i < n; i++)
        recycled |= block->lives[i] > 2;
    if (recycled) /* otherwise there are no bases, and their memory was never touched */
        pieces[used++] = (struct piece){block->bases, b->bases + first * sizeof *block->bases, n * sizeof *block->bases};
    if (b->pasts)
        pieces[used++] = (struct piece){block->pasts, b->pasts + first * sizeof *block->pasts, n * sizeof *block->pasts};
    if (b->peaks_end > first)
        pieces[used++] = (struct piece){block->peaks, b->peaks + first * sizeof *block->peaks, n_peaks * sizeof *block->peaks};
    memset(block->peaks + n_peaks, 0, (n - n_peaks) * sizeof *block->peaks);
    if (!error)
        error = space_copy(&b->view->space, pieces, used);
    return error ? error : copy_texts(b, first, n);
}

/* ---- At last ---- */

static void drop(struct snapshot_builder *b, uint32_t id)
{
    struct place *place = &b->places[id];
    b->has_dropped = true;
    if (place->kind == CONTEXT_PERIOD) {
        b->ages[place->row].row = NO_ROW;
    } else if (place->kind == CONTEXT_STACK) {
        b->stacks[place->row].row = NO_ROW;
    } else {
        struct snapshot_row *row = &b->rows[place->row];
        if (row->id && row->kind == CONTEXT_SPAN)
            b->walls[row->parent_row].children -= row->wall_ns;
        row->id = 0;
    }
    place->life = 0;
}

void builder_note_recycled(struct snapshot_builder *b, uint32_t id)
{
    uint32_t row = id == CONTEXT_ID_UNSAMPLED ? b->end - 1 : b->places[id].row;
    b->recycled_wall[row] = load_relaxed(&b->block->contexts[id % BLOCK_IDS].children_wall);
    if (b->past)
        b->past[row] = b->block->pasts[id % BLOCK_IDS];
}

/* Drops rows whose context has another life now. The figures of recycled children and periods of the other rows may
 * have grown. */
static int look_again(struct snapshot_builder *b, uint32_t first)
{
    uint32_t n = b->end - first < BLOCK_IDS ? b->end - first : BLOCK_IDS;
    int error = builder_copy_block(b, first);
    for (uint32_t i = 0; !error && i < n; i++) {
        struct place *place = &b->places[first + i];
        if (!(place->life & 1))
            continue;
        if (b->block->lives[i] != place->life && first + i > CONTEXT_ID_UNSAMPLED)
            drop(b, first + i);
        else if (place_has_row(place))
            builder_note_recycled(b, first + i);
    }
    return error;
}

static int copy_retired(struct snapshot_builder *b, uint32_t *sequence)
{
    struct contexts_retired retired;
    struct context_peaks of_retired = {0};
    int error = copy_one(b->view, &retired, space_address(b->view->books.retired), sizeof retired);
    if (!error)
        error = copy_one(b->view, &of_retired, space_address(&b->view->books.peaks->retired), sizeof of_retired);
    atomic_thread_fence(memory_order_acquire);
    *sequence = load_relaxed(&retired.sequence);
    b->mapping->public.retired = retired.totals;
    b->mapping->public.retired_peaks = builder_peaks(&of_retired);
    return error;
}

static int sequence_now(struct snapshot_builder *b, uint32_t *sequence)
{
    atomic_thread_fence(memory_order_acquire);
    return copy_one(b->view, sequence, space_address(&b->view->books.retired->sequence), sizeof *sequence);
}

int builder_validate_rest(struct snapshot_builder *b, bool *rests)
{
    uint32_t before, after = 0;
    int error = copy_retired(b, &before);
    if (!error)
        error = sequence_now(b, &after);
    *rests = before == after && before == b->sequence;
    return error;
}

/* Usually no context was recycled, and there is nothing to do. Otherwise all contexts are compared again, until none is
 * recycled meanwhile. A process may have been stopped while it recycled a context: that context may then be missing. */
int builder_validate(struct snapshot_builder *b)
{
    enum { TRIES = 40 };
    struct snapshot_mapping *mapping = b->mapping;
    uint32_t before, after = 0;
    bool rests = false, done = false;
    int error = 0;
    for (unsigned i = 0; !done && !error && i < TRIES; i++) {
        if (i)
            rests = b->view->reader->wait(i);
        error = copy_retired(b, &before);
        bool is_same = before == b->sequence && !(before & 1);
        b->text = b->text_end; /* labels are not copied again */
        for (uint32_t first = 0; !is_same && !error && first < b->end; first += BLOCK_IDS)
            error = look_again(b, first);
        if (!error)
            error = sequence_now(b, &after);
        done = rests || (before == after && !(before & 1));
        if (rests)
            b->view->reader->end_wait();
    }
    b->mapping = mapping;
    return error;
}
