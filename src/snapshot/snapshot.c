/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: each is one mapping that holds rows, labels, ages and strings. */
#include "snapshot/snapshot.h"

#include <unistd.h>

#include "base/cpu_clock.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/sums.h"
#include "heap/timing.h"
#include "snapshot/snapshot_builder.h"
#include "span/tree.h"

struct extent {
    uint32_t rows, labels, ages;
    size_t text_bytes;
};

#define LABELS_AHEAD 16 /* a label set is fetched that many contexts ahead; the number was measured */

static uint64_t epoch; /* LOCK_TREE */
static uint64_t start_ns; /* by CLOCK_BOOTTIME, which nobody sets and which goes on while the machine sleeps */

static void prefetch_labels(const struct snapshot_builder *b, uint32_t id)
{
    if (b->end - id > LABELS_AHEAD)
        prefetch_read(contexts[id + LABELS_AHEAD].labels);
}

/* Numbers the rows, and counts the memory that they and their labels take. */
static struct extent count_rows(struct snapshot_builder *b)
{
    struct extent n = {0};
    for (uint32_t id = CONTEXT_ID_ROOT; id < b->end; id++) {
        const struct context *c = &contexts[id];
        prefetch_labels(b, id);
        b->row_of[id] = id == CONTEXT_ID_UNSAMPLED ? b->row_of[CONTEXT_ID_ROOT] : n.rows;
        if (!tree_is_live(id) || id == CONTEXT_ID_UNSAMPLED)
            continue;
        if (c->kind == CONTEXT_PERIOD) {
            b->row_of[id] = n.ages++;
            continue;
        }
        if (c->kind != CONTEXT_SPAN)
            b->last_special_row = n.rows;
        n.rows++;
        if (c->labels) {
            n.labels += c->labels->count;
            n.text_bytes += c->labels->bytes;
        }
    }
    return n;
}

static void copy_labels(struct snapshot_builder *b, struct snapshot_row *row, const struct label_set *set)
{
    struct label_text label;
    memcpy(b->text, set->text, set->bytes);
    row->labels = b->label;
    row->n_labels = set->count;
    for (unsigned i = 0; labels_each(set, i, &label); i++, b->label++) {
        b->label->key = b->text + (label.key - set->text);
        b->label->value = b->text + (label.value - set->text);
        b->label->is_integer = set->integers >> i & 1;
        b->label->integer = b->label->is_integer ? labels_integer(label.value) : 0;
    }
    b->text += set->bytes;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void builder_fill_outlived(struct snapshot_row *row)
{
    struct outlived *o = &contexts[row->id].outlived;
    uint64_t objects = totals_inuse_objects(&row->totals), bytes = totals_inuse_bytes(&row->totals);
    if (!row->open_spans) {
        o->objects = objects;
        o->bytes = bytes;
    }
    row->totals.outlived_objects = lesser(o->objects, objects);
    row->totals.outlived_bytes = lesser(o->bytes, bytes);
}

static void fill_closed(const struct snapshot_builder *b, const struct context *c, struct snapshot_row *row)
{
    struct outlived *o = &contexts[row->id].outlived;
    if (o->exits != row->totals.exits && !c->opens)
        o->closed_time = reading_time(b->reading);
    o->exits = row->totals.exits;
    if (c->opens)
        o->closed_time = c->closed_time;
    if (o->closed_time)
        row->closed_ns = builder_to_ns(b, reading_time(b->reading) - o->closed_time);
}

static void times_to_ns(const struct snapshot_builder *b, struct totals *t)
{
    t->wall = builder_to_ns(b, t->wall);
    t->busy = builder_to_ns(b, t->busy);
    t->cpu = cpu_clock_in_use() == CPU_CLOCK_NONE ? 0 : builder_to_ns(b, t->cpu); /* it counts busy time then */
    t->cpu_system = builder_to_ns(b, t->cpu_system);
    t->idle = builder_to_ns(b, t->idle);
}

/* For now all wall time is the row's own. subtract_children_wall() comes when all rows are filled. */
static void fill_wall(struct snapshot_builder *b, const struct context *c, struct snapshot_row *row)
{
    row->wall_ns = row->totals.wall;
    b->children_wall[b->row_of[row->id]] += builder_to_ns(b, c->children_wall);
    if (row->kind == CONTEXT_SPAN)
        b->children_wall[row->parent_row] += row->wall_ns;
}

/* An id that was never recycled has no base, so the memory of bases is not touched for it. */
struct totals builder_own_figures(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    struct totals own = *sum;
    if (context_lives[id] > 1) {
        totals_subtract(&own, &context_bases[id]);
        b->owes_frees |= (int64_t)own.free_objects < 0 || (int64_t)own.free_bytes < 0;
    }
    tree_add_past(&own, id);
    own.opens += contexts[id].opens;
    own.wall += timing_resolve_open(contexts[id].wall, contexts[id].handles, reading_time(b->reading));
    totals_floor_times(&own);
    times_to_ns(b, &own);
    own.cpu_system = lesser(own.cpu_system, own.cpu); /* which is read a moment later */
    own.idle = totals_idle(&own);
    totals_add(&b->mapping->public.all, &own);
    return own;
}

static void fill_row(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &contexts[id];
    const struct site *site = c->site;
    struct snapshot_row *row = &b->rows[b->row_of[id]];
    *row = (struct snapshot_row){.id = id, .generation = tree_incarnation(context_lives[id]),
                                 .parent_row = b->row_of[c->parent], .kind = c->kind, .line = site->line,
                                 .name = site->name, .target = site->target, .file = site->file,
                                 .totals = builder_own_figures(b, id, sum)};
    row->open_spans = c->handles + (uint32_t)(row->totals.enters - row->totals.exits);
    fill_wall(b, c, row);
    if (c->kind == CONTEXT_SPAN) {
        builder_fill_outlived(row);
        fill_closed(b, c, row);
        b->mapping->public.all.outlived_objects += row->totals.outlived_objects;
        b->mapping->public.all.outlived_bytes += row->totals.outlived_bytes;
    }
    if (c->labels)
        copy_labels(b, row, c->labels);
}

/* Unsampled spans belong to their nearest sampled ancestor, which is the root. The root's row is filled before. Wall
 * time of what is the root's own is busy time, so theirs is left out. */
static void fill_unsampled(struct snapshot_builder *b, const struct totals *sum)
{
    struct snapshot_row *root = &b->rows[b->row_of[CONTEXT_ID_ROOT]];
    struct totals own = builder_own_figures(b, CONTEXT_ID_UNSAMPLED, sum);
    b->mapping->public.all.wall -= own.wall;
    own.wall = 0;
    root->open_spans += contexts[CONTEXT_ID_UNSAMPLED].handles + (uint32_t)(own.enters - own.exits);
    totals_add(&root->totals, &own);
}

static void fill_rows(struct snapshot_builder *b)
{
    for (uint32_t first = 0; first < b->end; first += READING_CHUNK) {
        struct totals sums[READING_CHUNK];
        reading_chunk(b->reading, first, sums);
        for (uint32_t id = first ? first : CONTEXT_ID_ROOT; id < b->end && id < first + READING_CHUNK; id++) {
            prefetch_labels(b, id);
            if (!tree_is_live(id))
                continue;
            if (id == CONTEXT_ID_UNSAMPLED)
                fill_unsampled(b, &sums[id - first]);
            else if (contexts[id].kind == CONTEXT_PERIOD)
                ages_fill(b, id, &sums[id - first]);
            else
                fill_row(b, id, &sums[id - first]);
        }
    }
}

/* Frees of a context that was recycled meanwhile are in its base already. */
static void add_buffered(void *builder, uint32_t id, uint32_t bytes)
{
    struct snapshot_builder *b = builder;
    if (!tree_is_live(id))
        return;
    const struct totals freed = {.free_objects = 1, .free_bytes = bytes};
    struct totals *all = &b->mapping->public.all;
    if (contexts[id].kind == CONTEXT_PERIOD) {
        struct totals *age = &b->ages[b->row_of[id]].totals;
        totals_subtract(all, age);
        totals_add(age, &freed);
        totals_floor_inuse(age);
        totals_add(all, age);
        return;
    }
    struct snapshot_row *row = &b->rows[b->row_of[id]];
    struct totals before = row->totals;
    totals_add(&row->totals, &freed);
    totals_floor_inuse(&row->totals);
    if (row->kind == CONTEXT_SPAN)
        builder_fill_outlived(row);
    totals_add(all, &row->totals);
    totals_subtract(all, &before);
}

static void set_self_wall(struct snapshot_builder *b, struct snapshot_row *row, uint64_t wall)
{
    struct totals *all = &b->mapping->public.all;
    all->wall += wall - row->totals.wall;
    row->totals.wall = wall;
    all->idle -= row->totals.idle;
    row->totals.idle = totals_idle(&row->totals);
    all->idle += row->totals.idle;
}

/* Subtracts the wall time of its children from each row. The wall time of a row that is no span is its own busy time
 * and its children's wall time; there are few such rows, and their parents come before them. */
static void subtract_children_wall(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    for (uint32_t i = s->n_rows; i--;) {
        struct snapshot_row *row = &b->rows[i];
        uint64_t children = b->children_wall[i];
        bool is_special = i <= b->last_special_row && row->kind != CONTEXT_SPAN;
        if (!children && !is_special)
            continue;
        if (is_special) {
            row->wall_ns = row->totals.busy + children;
            b->children_wall[row->parent_row] += i ? row->wall_ns : 0;
        }
        set_self_wall(b, row, row->wall_ns - lesser(children, row->wall_ns));
    }
}

static void floor_frees(struct totals *all, struct totals *part)
{
    totals_subtract(all, part);
    totals_floor_frees(part);
    totals_add(all, part);
}

/* The base of a recycled id contains frees that were buffered then. If this reading found such a free neither in the
 * buffer nor in the counter, because the thread was just moving it, the new context would have negative frees. */
static void floor_all_frees(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    if (!b->owes_frees)
        return;
    for (struct snapshot_row *row = b->rows; row < b->rows + s->n_rows; row++)
        floor_frees(&s->all, &row->totals);
    for (struct snapshot_age *age = b->ages; age < b->ages + s->n_ages; age++)
        floor_frees(&s->all, &age->totals);
}

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

/* Times that are shown never go back. A time may fall for three reasons: not all times are read at the same moment, the
 * clock's rate becomes known better, and wall time less that of the spans below shrinks where these overlap. Then the
 * former time is shown until the new one has caught up. Returns by how much *now was raised. */
static uint64_t raise_to(uint64_t *shown, uint64_t *now)
{
    uint64_t was = *now;
    if (*shown < *now)
        *shown = *now;
    *now = *shown;
    return *now - was;
}

static void keep_shown(struct shown *shown, struct totals *t, struct totals *all)
{
    struct totals more = {.wall = raise_to(&shown->wall, &t->wall), .busy = raise_to(&shown->busy, &t->busy),
                          .cpu = raise_to(&shown->cpu, &t->cpu), .idle = raise_to(&shown->idle, &t->idle)};
    if (all)
        totals_add(all, &more);
}

static void keep_all_shown(struct snapshot_builder *b)
{
    static struct shown retired, all;
    struct snapshot *s = &b->mapping->public;
    for (struct snapshot_row *row = b->rows; row < b->rows + s->n_rows; row++) {
        struct shown *shown = &contexts[row->id].shown;
        keep_shown(shown, &row->totals, &s->all);
        raise_to(&shown->wall_inclusive, &row->wall_ns);
    }
    keep_shown(&retired, &s->retired, NULL);
    totals_add(&s->all, &s->retired);
    keep_shown(&all, &s->all, NULL);
}

static bool make(struct snapshot_builder *b, struct snapshot_mapping *old)
{
    struct extent n = count_rows(b);
    b->mapping = get_mapping(old, sizeof *b->mapping + n.rows * sizeof *b->rows + n.labels * sizeof *b->label +
                                 n.ages * sizeof *b->ages + n.text_bytes);
    if (!b->mapping)
        return false;
    b->rows = (struct snapshot_row *)(b->mapping + 1);
    b->label = (struct snapshot_label *)(b->rows + n.rows);
    b->ages = (struct snapshot_age *)(b->label + n.labels);
    b->text = (char *)(b->ages + n.ages);
    b->mapping->public = (struct snapshot){
        .n_rows = n.rows, .rows = b->rows, .n_ages = n.ages, .ages = b->ages, .epoch = ++epoch};
    fill_rows(b);
    b->mapping->public.pending_bytes = reading_end(b->reading, add_buffered, b);
    floor_all_frees(b);
    ages_fold(b);
    subtract_children_wall(b);
    b->mapping->public.retired = tree_retired();
    totals_floor_times(&b->mapping->public.retired);
    times_to_ns(b, &b->mapping->public.retired);
    keep_all_shown(b);
    return true;
}

/* Allocates what is needed while building, and begins the reading, which reads buffers before any counter. */
static bool begin(struct snapshot_builder *b)
{
    size_t wall_bytes = (size_t)b->end * sizeof *b->children_wall;
    size_t row_of_bytes = ((size_t)b->end * sizeof *b->row_of + 7) & ~(size_t)7, rest = reading_bytes();
    b->scratch_bytes = wall_bytes + row_of_bytes + rest;
    b->scratch = meta_emergency_alloc(b->scratch_bytes);
    if (!b->scratch)
        return false;
    b->children_wall = b->scratch;
    b->row_of = (uint32_t *)((char *)b->scratch + wall_bytes);
    b->scale = clock_scale();
    b->reading = reading_begin((char *)b->row_of + row_of_bytes, rest, b->end);
    return true;
}

struct snapshot *snapshot_retake(struct snapshot *old)
{
    lock(LOCK_TREE);
    struct snapshot_builder b = {.end = tree_end()};
    bool ok = begin(&b) && make(&b, (struct snapshot_mapping *)old);
    unlock(LOCK_TREE);
    meta_return(b.scratch, b.scratch_bytes);
    if (!ok)
        return NULL;
    struct snapshot *s = &b.mapping->public;
    s->time_unix_ns = clock_unix_ns();
    s->start_unix_ns = s->time_unix_ns - (clock_ns(CLOCK_BOOTTIME) - start_ns);
    s->pid = (uint32_t)getpid();
    if (s != old)
        snapshot_free(old);
    return s;
}

struct snapshot *snapshot_take(void)
{
    return snapshot_retake(NULL);
}

void snapshot_free(struct snapshot *s)
{
    struct snapshot_mapping *mapping = (struct snapshot_mapping *)s;
    if (mapping)
        meta_return(mapping, mapping->bytes);
}

void snapshot_start_clock(void)
{
    start_ns = clock_ns(CLOCK_BOOTTIME);
}

void snapshot_keep_idle(const struct snapshot_row *row, struct totals *inclusive)
{
    lock(LOCK_TREE);
    struct context *c = &contexts[row->id];
    if (tree_incarnation(context_lives[row->id]) == row->generation)
        raise_to(&c->shown.idle_inclusive, &inclusive->idle);
    unlock(LOCK_TREE);
}

const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id)
{
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
