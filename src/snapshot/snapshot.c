/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: one mapping that holds rows, labels and strings. */
#include "snapshot/snapshot.h"

#include <unistd.h>

#include "base/cpu_clock.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/sums.h"
#include "snapshot/snapshot_builder.h"
#include "span/tree.h"

struct extent {
    uint32_t rows, labels, ages;
    size_t text_bytes;
};

#define LABELS_AHEAD 16 /* label sets are fetched while as many contexts are handled; measured */

static uint64_t epoch; /* LOCK_TREE */
static uint64_t start_ns; /* on a clock that nobody sets, and that goes on while the machine sleeps */

static void prefetch_labels(const struct snapshot_builder *m, uint32_t id)
{
    if (m->end - id > LABELS_AHEAD)
        prefetch_read(contexts[id + LABELS_AHEAD].labels);
}

/* Numbers the rows, and finds how much room they and their labels take. */
static struct extent count_rows(struct snapshot_builder *m)
{
    struct extent n = {0};
    for (uint32_t id = CONTEXT_ID_ROOT; id < m->end; id++) {
        const struct context *c = &contexts[id];
        prefetch_labels(m, id);
        m->row_of[id] = id == CONTEXT_ID_UNSAMPLED ? m->row_of[CONTEXT_ID_ROOT] : n.rows;
        if (!tree_is_live(id) || id == CONTEXT_ID_UNSAMPLED)
            continue;
        if (c->kind == CONTEXT_PERIOD) {
            m->row_of[id] = n.ages++;
            continue;
        }
        if (c->kind != CONTEXT_SPAN)
            m->last_special_row = n.rows;
        n.rows++;
        if (c->labels) {
            n.labels += c->labels->count;
            n.text_bytes += c->labels->bytes;
        }
    }
    return n;
}

static void copy_labels(struct snapshot_builder *m, struct snapshot_row *row, const struct label_set *set)
{
    struct label_text label;
    memcpy(m->text, set->text, set->bytes);
    row->labels = m->label;
    row->n_labels = set->count;
    for (unsigned i = 0; labels_each(set, i, &label); i++, m->label++) {
        m->label->key = m->text + (label.key - set->text);
        m->label->value = m->text + (label.value - set->text);
        m->label->is_integer = set->integers >> i & 1;
        m->label->integer = m->label->is_integer ? labels_integer(label.value) : 0;
    }
    m->text += set->bytes;
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

static void fill_closed(const struct snapshot_builder *m, const struct context *c, struct snapshot_row *row)
{
    struct outlived *o = &contexts[row->id].outlived;
    if (o->exits != row->totals.exits && !c->opens)
        o->closed_time = reading_time(m->reading);
    o->exits = row->totals.exits;
    if (o->closed_time)
        row->closed_ns = builder_to_ns(m, reading_time(m->reading) - o->closed_time);
}

static void times_to_ns(const struct snapshot_builder *m, struct totals *t)
{
    t->wall = builder_to_ns(m, t->wall);
    t->busy = builder_to_ns(m, t->busy);
    t->cpu = cpu_clock_in_use() == CPU_CLOCK_NONE ? 0 : builder_to_ns(m, t->cpu); /* it counts busy time then */
    t->cpu_system = builder_to_ns(m, t->cpu_system);
    t->idle = builder_to_ns(m, t->idle);
}

/* For now all of it is the row's own: see settle_wall(). */
static void fill_wall(struct snapshot_builder *m, const struct context *c, struct snapshot_row *row)
{
    row->wall_ns = row->totals.wall;
    m->children_wall[m->row_of[row->id]] += builder_to_ns(m, c->children_wall);
    if (row->kind == CONTEXT_SPAN)
        m->children_wall[row->parent_row] += row->wall_ns;
}

/* An id that was never recycled has no base: its memory need not be looked at. */
struct totals builder_own_figures(struct snapshot_builder *m, uint32_t id, const struct totals *sum)
{
    struct totals own = *sum;
    if (contexts[id].incarnation) {
        totals_subtract(&own, &context_bases[id]);
        m->owes_frees |= (int64_t)own.free_objects < 0 || (int64_t)own.free_bytes < 0;
    }
    tree_add_past(&own, id);
    tree_add_spans(&own, id, reading_time(m->reading));
    totals_floor_times(&own);
    times_to_ns(m, &own);
    own.cpu_system = lesser(own.cpu_system, own.cpu); /* it is read a moment after the other */
    own.idle = totals_idle(&own);
    totals_add(&m->made->public.all, &own);
    return own;
}

static void fill_row(struct snapshot_builder *m, uint32_t id, const struct totals *sum)
{
    const struct context *c = &contexts[id];
    const struct site *site = c->site;
    struct snapshot_row *row = &m->rows[m->row_of[id]];
    *row = (struct snapshot_row){.id = id, .generation = c->incarnation,
                                 .parent_row = m->row_of[c->parent], .kind = c->kind, .line = site->line,
                                 .name = site->name, .target = site->target, .file = site->file,
                                 .totals = builder_own_figures(m, id, sum)};
    row->open_spans = c->handles + (uint32_t)(row->totals.enters - row->totals.exits);
    fill_wall(m, c, row);
    if (c->kind == CONTEXT_SPAN) {
        builder_fill_outlived(row);
        fill_closed(m, c, row);
        m->made->public.all.outlived_objects += row->totals.outlived_objects;
        m->made->public.all.outlived_bytes += row->totals.outlived_bytes;
    }
    if (c->labels)
        copy_labels(m, row, c->labels);
}

/* Unsampled spans belong to their nearest sampled ancestor, which is the root: after fill_row() of that. As for all
 * that is the root's own, wall time is what they were busy. */
static void fill_unsampled(struct snapshot_builder *m, const struct totals *sum)
{
    struct snapshot_row *root = &m->rows[m->row_of[CONTEXT_ID_ROOT]];
    struct totals own = builder_own_figures(m, CONTEXT_ID_UNSAMPLED, sum);
    m->made->public.all.wall -= own.wall;
    own.wall = 0;
    root->open_spans += contexts[CONTEXT_ID_UNSAMPLED].handles + (uint32_t)(own.enters - own.exits);
    totals_add(&root->totals, &own);
}

static void fill_rows(struct snapshot_builder *m)
{
    for (uint32_t first = 0; first < m->end; first += READING_BLOCK) {
        struct totals sums[READING_BLOCK];
        reading_block(m->reading, first, sums);
        for (uint32_t id = first ? first : CONTEXT_ID_ROOT; id < m->end && id < first + READING_BLOCK; id++) {
            prefetch_labels(m, id);
            if (!tree_is_live(id))
                continue;
            if (id == CONTEXT_ID_UNSAMPLED)
                fill_unsampled(m, &sums[id - first]);
            else if (contexts[id].kind == CONTEXT_PERIOD)
                ages_fill(m, id, &sums[id - first]);
            else
                fill_row(m, id, &sums[id - first]);
        }
    }
}

/* What a context that was recycled had freed is in its base already. */
static void add_buffered(void *making, uint32_t id, uint32_t bytes)
{
    struct snapshot_builder *m = making;
    if (!tree_is_live(id))
        return;
    const struct totals freed = {.free_objects = 1, .free_bytes = bytes};
    struct totals *all = &m->made->public.all;
    if (contexts[id].kind == CONTEXT_PERIOD) {
        struct totals *age = &m->ages[m->row_of[id]].totals;
        totals_subtract(all, age);
        totals_add(age, &freed);
        totals_floor_inuse(age);
        totals_add(all, age);
        return;
    }
    struct snapshot_row *row = &m->rows[m->row_of[id]];
    struct totals before = row->totals;
    totals_add(&row->totals, &freed);
    totals_floor_inuse(&row->totals);
    if (row->kind == CONTEXT_SPAN)
        builder_fill_outlived(row);
    totals_add(all, &row->totals);
    totals_subtract(all, &before);
}

static void set_self_wall(struct snapshot_builder *m, struct snapshot_row *row, uint64_t wall)
{
    struct totals *all = &m->made->public.all;
    all->wall += wall - row->totals.wall;
    row->totals.wall = wall;
    all->idle -= row->totals.idle;
    row->totals.idle = totals_idle(&row->totals);
    all->idle += row->totals.idle;
}

/* Takes the wall time of its children off each row. What is no span has its own busy time and theirs; there are few such
 * rows, and their parents come before them. */
static void settle_wall(struct snapshot_builder *m)
{
    struct snapshot *s = &m->made->public;
    for (uint32_t i = s->n_rows; i--;) {
        struct snapshot_row *row = &m->rows[i];
        uint64_t children = m->children_wall[i];
        bool is_special = i <= m->last_special_row && row->kind != CONTEXT_SPAN;
        if (!children && !is_special)
            continue;
        if (is_special) {
            row->wall_ns = row->totals.busy + children;
            m->children_wall[row->parent_row] += i ? row->wall_ns : 0;
        }
        set_self_wall(m, row, row->wall_ns - lesser(children, row->wall_ns));
    }
}

static void floor_frees(struct totals *all, struct totals *part)
{
    totals_subtract(all, part);
    totals_floor_frees(part);
    totals_add(all, part);
}

/* A recycled id's base contains frees that were buffered then. One that is neither in a buffer nor in a counter as far
 * as we saw, since its thread was just moving it, would leave a new context with less than no frees. */
static void settle(struct snapshot_builder *m)
{
    struct snapshot *s = &m->made->public;
    if (!m->owes_frees)
        return;
    for (struct snapshot_row *row = m->rows; row < m->rows + s->n_rows; row++)
        floor_frees(&s->all, &row->totals);
    for (struct snapshot_age *age = m->ages; age < m->ages + s->n_ages; age++)
        floor_frees(&s->all, &age->totals);
}

/* An old snapshot's memory spares us the page faults, where it is of about the right size. */
static struct made *find_room(struct made *old, size_t bytes)
{
    if (old && old->bytes >= bytes && old->bytes / 2 <= bytes)
        return old;
    bytes += bytes / 8; /* address space; for contexts to come */
    struct made *made = meta_emergency_alloc(bytes);
    if (made)
        made->bytes = bytes;
    return made;
}

/* Times never go back. Not all of them are read at the same moment, the clock's rate is known better as time goes by, and what is a difference, as
 * wall time less that of the spans below, shrinks where these overlap. What was shown once stays, until the time has caught up. */
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

static void keep_all_shown(struct snapshot_builder *m)
{
    static struct shown retired, all;
    struct snapshot *s = &m->made->public;
    for (struct snapshot_row *row = m->rows; row < m->rows + s->n_rows; row++) {
        struct shown *shown = &contexts[row->id].shown;
        keep_shown(shown, &row->totals, &s->all);
        raise_to(&shown->wall_inclusive, &row->wall_ns);
    }
    keep_shown(&retired, &s->retired, NULL);
    totals_add(&s->all, &s->retired);
    keep_shown(&all, &s->all, NULL);
}

static bool make(struct snapshot_builder *m, struct made *old)
{
    struct extent n = count_rows(m);
    m->made = find_room(old, sizeof *m->made + n.rows * sizeof *m->rows + n.labels * sizeof *m->label +
                                 n.ages * sizeof *m->ages + n.text_bytes);
    if (!m->made)
        return false;
    m->rows = (struct snapshot_row *)(m->made + 1);
    m->label = (struct snapshot_label *)(m->rows + n.rows);
    m->ages = (struct snapshot_age *)(m->label + n.labels);
    m->text = (char *)(m->ages + n.ages);
    m->made->public = (struct snapshot){
        .n_rows = n.rows, .rows = m->rows, .n_ages = n.ages, .ages = m->ages, .epoch = ++epoch};
    fill_rows(m);
    m->made->public.pending_bytes = reading_end(m->reading, add_buffered, m);
    settle(m);
    ages_fold(m);
    settle_wall(m);
    m->made->public.retired = tree_retired();
    totals_floor_times(&m->made->public.retired);
    times_to_ns(m, &m->made->public.retired);
    keep_all_shown(m);
    return true;
}

/* Buffers are read here, before any counter. */
static bool begin(struct snapshot_builder *m)
{
    size_t wall_bytes = (size_t)m->end * sizeof *m->children_wall;
    size_t row_of_bytes = ((size_t)m->end * sizeof *m->row_of + 7) & ~(size_t)7, rest = reading_bytes();
    m->scratch_bytes = wall_bytes + row_of_bytes + rest;
    m->scratch = meta_emergency_alloc(m->scratch_bytes);
    if (!m->scratch)
        return false;
    m->children_wall = m->scratch;
    m->row_of = (uint32_t *)((char *)m->scratch + wall_bytes);
    m->scale = clock_scale();
    m->reading = reading_begin((char *)m->row_of + row_of_bytes, rest, m->end);
    return true;
}

struct snapshot *snapshot_retake(struct snapshot *old)
{
    lock(LOCK_TREE);
    struct snapshot_builder m = {.end = tree_end()};
    bool ok = begin(&m) && make(&m, (struct made *)old);
    unlock(LOCK_TREE);
    meta_return(m.scratch, m.scratch_bytes);
    if (!ok)
        return NULL;
    struct snapshot *s = &m.made->public;
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
    struct made *made = (struct made *)s;
    if (made)
        meta_return(made, made->bytes);
}

void snapshot_start_clock(void)
{
    start_ns = clock_ns(CLOCK_BOOTTIME);
}

void snapshot_keep_idle(const struct snapshot_row *row, struct totals *inclusive)
{
    lock(LOCK_TREE);
    struct context *c = &contexts[row->id];
    if (c->incarnation == row->generation)
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

/* Walks up from each row; of rows that were walked before it is known whether they lie below. Without memory for that,
 * the row alone. */
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
        uint8_t answer = place[top];
        for (uint32_t r = i; place[r] == UNKNOWN; r = s->rows[r].parent_row)
            place[r] = answer;
        if (answer == BELOW && i != row)
            totals_add(&sum, &s->rows[i].totals);
    }
    meta_unmap(place, s->n_rows);
    sum.wall = s->rows[row].wall_ns;
    sum.idle = totals_idle(&sum);
    return sum;
}
