/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a snapshot: the path, the labels and the figures of each context. */
#include <errno.h>
#include <string.h>

#include "heap/timing.h"
#include "heap/lifetimes.h"
#include "snapshot/snapshot_builder.h"

/* Only a damaged process has a text without its NUL. Such a text ends with the set. */
static void set_labels(struct snapshot_builder *b, struct snapshot_row *row, const struct context *c, char *text)
{
    char *end = text + c->label_bytes;
    end[-1] = '\0';
    row->labels = b->label;
    for (unsigned i = 0; i < c->label_count && text < end && b->label < b->labels_end; i++, b->label++) {
        char *value = text + strlen(text) + 1;
        if (value >= end)
            return;
        bool is_integer = c->label_integers >> i & 1;
        *b->label = (struct snapshot_label){.key = text, .value = value, .is_integer = is_integer,
                                            .integer = is_integer ? labels_integer(value) : 0};
        row->n_labels++;
        text = value + strlen(value) + 1;
    }
}

void builder_fill_outlived(struct snapshot_builder *b, struct snapshot_row *row)
{
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    uint64_t objects = totals_inuse_objects(&row->totals), bytes = totals_inuse_bytes(&row->totals);
    if (!row->open_spans) {
        seen->outlived_objects = objects;
        seen->outlived_bytes = bytes;
    }
    row->totals.outlived_objects = lesser(seen->outlived_objects, objects);
    row->totals.outlived_bytes = lesser(seen->outlived_bytes, bytes);
}

void builder_note_exits(struct snapshot_builder *b, struct snapshot_row *row)
{
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    struct passing also_spare, *passing = view_passing(b->view, row->id, &also_spare);
    if (b->below[row - b->rows].had_handles)
        return;
    if (row->totals.exits > seen->exits) {
        passing->closed_time = b->time;
        seen->exits = row->totals.exits;
    }
    row->closed_time = passing->closed_time;
}

/* jespan_close() stores when a span closed. The end of other spans is noticed here; with periods, when these are added. */
static void fill_closed(struct snapshot_builder *b, struct snapshot_row *row, const struct context *c)
{
    struct below *below = &b->below[row - b->rows];
    below->had_handles = load_relaxed(&c->opens);
    if (below->had_handles)
        row->closed_time = load_relaxed(&c->closed_time);
    else if (!b->pasts)
        builder_note_exits(b, row);
}

void builder_times_to_ns(const struct snapshot_builder *b, struct totals *t)
{
    t->wall = builder_to_ns(b, t->wall);
    t->busy = builder_to_ns(b, t->busy);
    t->cpu = b->view->cpu_times ? builder_to_ns(b, t->cpu) : 0; /* else it counts busy time */
    t->cpu_user = builder_to_ns(b, t->cpu_user);
    t->cpu_system = builder_to_ns(b, t->cpu_system);
    t->idle = builder_to_ns(b, t->idle);
    t->lifetimes = lifetimes_to_us(t->lifetimes, b->scale);
}

struct totals builder_own_figures(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    struct totals own = *sum;
    if (b->places[id].life > 1) {
        totals_subtract(&own, &b->block->bases[id % BLOCK_IDS]);
        b->owes_frees |= totals_owe_frees(&own);
    }
    own.opens += load_relaxed(&c->opens);
    own.wall += timing_resolve_open(load_relaxed(&c->wall), load_relaxed(&c->handles), b->time);
    totals_floor_times(&own);
    builder_times_to_ns(b, &own);
    own.idle = totals_idle(&own);
    return own;
}

/* For now all wall time is the row's own. builder_finish() corrects it when all rows are filled. Where rows are used again,
 * snapshot_again.c does all this. */
static void fill_wall(struct snapshot_builder *b, struct snapshot_row *row, struct walls *walls)
{
    row->wall_ns = row->totals.wall;
    if (row->kind != CONTEXT_SPAN || b->is_again)
        return;
    walls->own = row->wall_ns;
    b->walls[row->parent_row].children += row->wall_ns;
}

/* What the row's wall time is computed from while its counters stand. */
static void note_passing(struct snapshot_builder *b, const struct snapshot_row *row, const struct totals *sum)
{
    uint32_t i = row->id % BLOCK_IDS;
    const struct context *c = &b->block->contexts[i];
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    struct passing also_spare, *passing = view_passing(b->view, row->id, &also_spare);
    seen->wall_rest = sum->wall - (row->generation ? b->block->bases[i].wall : 0);
    passing->handles = load_relaxed(&c->handles) | (seen->wall_rest ? PASSING_HAS_REST : 0);
    passing->wall = load_relaxed(&c->wall);
}

/* Where rows are used again, what lies below a row is corrected by what changes. */
static void note_below(struct snapshot_builder *b, uint32_t row)
{
    struct below *below = &b->below[row];
    if (!b->is_again)
        *below = (struct below){.inuse = 0};
    below->own_peak = b->rows[row].peaks.own_bytes;
    below->total_peak = b->rows[row].peaks.total_bytes;
}

/* A row without id has no context any more. */
static int fill_row(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    struct place *place = &b->places[id];
    struct snapshot_row *row = &b->rows[place->row];
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    int error = 0;
    bool is_same = b->block->lives[id % BLOCK_IDS] == place->life && parent && place_has_row(parent);
    const struct site *site = is_same ? b->view->reader->site(b->view, c->site, &error) : NULL;
    *row = (struct snapshot_row){.id = 0};
    if (!site) {
        place->life = 0;
        b->has_dropped = true;
        return error;
    }
    *row = (struct snapshot_row){.id = id, .generation = tree_incarnation(place->life), .parent_row = parent->row,
                                 .kind = place->kind, .line = site->line,
                                 .name = site->name, .target = site->target, .file = site->file,
                                 .totals = builder_own_figures(b, id, sum),
                                 .peaks = builder_peaks(&b->block->peaks[id % BLOCK_IDS])};
    note_below(b, place->row);
    note_passing(b, row, sum);
    row->open_spans = load_relaxed(&c->handles) + (uint32_t)(row->totals.enters - row->totals.exits);
    fill_wall(b, row, &b->walls[place->row]);
    builder_note_recycled(b, id);
    if (row->kind == CONTEXT_SPAN) {
        builder_fill_outlived(b, row);
        fill_closed(b, row, c);
    }
    if (b->block->texts[id % BLOCK_IDS])
        set_labels(b, row, c, b->block->texts[id % BLOCK_IDS]);
    return 0;
}

/* Unsampled spans belong to their nearest sampled ancestor, which is the root. The root's row is filled before. Wall
 * time of what is the root's own is busy time, so theirs is left out. */
static void fill_unsampled(struct snapshot_builder *b, const struct totals *sum)
{
    struct snapshot_row *root = &b->rows[0];
    struct totals own = builder_own_figures(b, CONTEXT_ID_UNSAMPLED, sum);
    own.wall = 0;
    builder_note_recycled(b, CONTEXT_ID_UNSAMPLED);
    root->open_spans += load_relaxed(&b->block->contexts[CONTEXT_ID_UNSAMPLED].handles) + (uint32_t)(own.enters - own.exits);
    totals_add(&root->totals, &own);
}

int builder_read_sums(struct snapshot_builder *b, uint32_t first, const uint32_t *lives, struct totals memory[READING_CHUNK],
                      const struct totals **sums)
{
    const struct view_reader *reader = b->view->reader;
    struct kept_chunk *kept = sums_kept_chunk(b->view, first);
    if (!kept)
        return reader->chunk(b->reading, first, memory);
    uint64_t key = reader->moved(b->reading, first / READING_CHUNK);
    for (uint32_t id = first; id < b->end && id < first + READING_CHUNK; id++)
        key += lives[id - first];
    *sums = kept->sums;
    if (sums_kept_stand(kept, key))
        return 0;
    kept->since = b->epoch;
    int error = reader->chunk(b->reading, first, kept->sums);
    if (error)
        kept->stands = false;
    else
        sums_kept_note(kept);
    return error;
}

/* Notes whether rows of the chunk change by themselves: spans are open, or one is just being closed. */
static void note_open(struct snapshot_builder *b, uint32_t first)
{
    struct kept_chunk *kept = sums_kept_chunk(b->view, first);
    bool has_open = false;
    for (uint32_t id = first; kept && id < b->end && id < first + READING_CHUNK; id++)
        has_open |= b->places[id].life & 1 && builder_is_open(load_relaxed(&b->block->contexts[id % BLOCK_IDS].handles),
                                                              load_relaxed(&b->block->contexts[id % BLOCK_IDS].wall));
    if (kept)
        kept->has_open = has_open;
}

int builder_fill_chunk(struct snapshot_builder *b, uint32_t first, const struct totals *sums)
{
    int error = 0;
    for (uint32_t id = first ? first : CONTEXT_ID_ROOT; !error && id < b->end && id < first + READING_CHUNK; id++) {
        if (!(b->places[id].life & 1))
            continue;
        if (id == CONTEXT_ID_UNSAMPLED)
            fill_unsampled(b, &sums[id - first]);
        else if (b->places[id].kind == CONTEXT_PERIOD)
            ages_fill(b, id, &sums[id - first]);
        else if (b->places[id].kind == CONTEXT_STACK)
            stacks_fill(b, id, &sums[id - first]);
        else
            error = fill_row(b, id, &sums[id - first]);
    }
    note_open(b, first);
    return error;
}

static int read_chunk(struct snapshot_builder *b, uint32_t first)
{
    struct totals memory[READING_CHUNK];
    const struct totals *sums = memory;
    int error = builder_read_sums(b, first, &b->block->lives[first % BLOCK_IDS], memory, &sums);
    return error ? error : builder_fill_chunk(b, first, sums);
}

int builder_fill_rows(struct snapshot_builder *b)
{
    int error = 0;
    for (uint32_t block = 0; !error && block < b->end; block += BLOCK_IDS) {
        error = builder_copy_block(b, block);
        for (uint32_t first = block; !error && first < b->end && first < block + BLOCK_IDS; first += READING_CHUNK)
            error = read_chunk(b, first);
    }
    return error ? error : b->rows[0].id ? 0 : -EBADMSG;
}

/* ---- Buffered frees ---- */

void builder_add_buffered(void *builder, uint32_t id, uint32_t bytes)
{
    struct snapshot_builder *b = builder;
    if (!id || id >= b->end || !(b->places[id].life & 1))
        return;
    const struct totals freed = {.free_objects = 1, .free_bytes = bytes};
    if (b->places[id].kind == CONTEXT_PERIOD) {
        struct totals *age = &b->ages[b->places[id].row].totals;
        totals_add(age, &freed);
        totals_floor_inuse(age);
        return;
    }
    if (b->places[id].kind == CONTEXT_STACK) {
        struct totals *stack = &b->stacks[b->places[id].row].totals;
        totals_add(stack, &freed);
        totals_floor_inuse(stack);
        return;
    }
    struct snapshot_row *row = &b->rows[b->places[id].row];
    builder_open_row(b, b->places[id].row);
    struct kept_chunk *kept = sums_kept_chunk(b->view, id - id % READING_CHUNK);
    if (kept)
        kept->since = b->epoch + 1; /* the next snapshot may find the free elsewhere */
    totals_add(&row->totals, &freed);
    totals_floor_inuse(&row->totals);
    if (row->kind == CONTEXT_SPAN)
        builder_fill_outlived(b, row);
}

void builder_floor_frees(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    if (!b->owes_frees)
        return;
    b->owes_frees = false;
    for (struct snapshot_row *row = b->rows; row < b->rows + s->n_rows; row++) {
        b->owes_frees |= totals_owe_frees(&row->totals);
        totals_floor_frees(&row->totals);
    }
    for (struct snapshot_age *age = b->ages; age < b->ages + s->n_ages; age++)
        totals_floor_frees(&age->totals);
}
