/* SPDX-License-Identifier: BSD-2-Clause */
/* Remembers what one reporter was told, and tells it the rest. */
#include "report/reporter_session.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu_clock.h"
#include "base/meta.h"
#include "snapshot/snapshot_delta.h"

/* A context, by its number. No context has number 0, which stands for "(retired)". */
struct entry {
    struct jespan_span_info info;
    struct jespan_heap heap; /* as told last */
    uint32_t parent, children;
    uint32_t below; /* while ancestors are opened: the next one down the branch */
    char *labels;   /* memory for them; kept for the number's next context */
    size_t labels_bytes;
};

struct reporter_told {
    size_t bytes; /* of this mapping, which has delta.told behind the entries */
    uint32_t end; /* numbers below were open at some time */
    struct snapshot_delta delta;
    struct bump bump; /* for labels */
    struct entry entries[];
};

/* A round. */
struct telling {
    struct reporter_told *told;
    const struct snapshot *snapshot;
    const struct jespan_reporter *to;
    int error;
};

struct reporter_told *reporter_told_make(uint32_t end)
{
    size_t bytes = sizeof(struct reporter_told) + end * (sizeof(struct entry) + sizeof(struct snapshot_told));
    struct reporter_told *r = meta_map(bytes);
    if (r) {
        r->bytes = bytes;
        r->delta = (struct snapshot_delta){.told = (struct snapshot_told *)&r->entries[end], .end = end};
    }
    return r;
}

void reporter_told_free(struct reporter_told *r)
{
    if (!r)
        return;
    bump_free(&r->bump);
    meta_unmap(r, r->bytes);
}

/* ---- Figures ---- */

static void tell_times(const struct telling *t, const struct entry *e, const struct totals *d)
{
    bool is_split = cpu_clock_in_use() == CPU_CLOCK_RUSAGE;
    const struct jespan_cpu cpu = {d->cpu, is_split ? d->cpu_user : d->cpu, d->cpu_system};
    const struct jespan_wall wall = {d->opens, d->enters, d->wall, d->busy, d->idle};
    if (t->to->cpu && (cpu.cpu_ns | cpu.user_ns | cpu.system_ns))
        t->to->cpu(t->to->user, &e->info, &cpu);
    if (t->to->wall && (wall.opens | wall.enters | wall.wall_ns | wall.busy_ns | wall.idle_ns))
        t->to->wall(t->to->user, &e->info, &wall);
}

static void tell_allocations(const struct telling *t, const struct entry *e, const struct totals *d)
{
    static const struct jespan_allocations none;
    const struct jespan_allocations a = {d->alloc_objects,     d->alloc_bytes,     d->alloc_requested_bytes,
                                         d->free_objects,      d->free_bytes,      d->credited_in_objects,
                                         d->credited_in_bytes,    d->credited_out_objects, d->credited_out_bytes};
    if (t->to->allocations && memcmp(&a, &none, sizeof a) != 0)
        t->to->allocations(t->to->user, &e->info, &a);
}

static void tell_figures(const struct telling *t, const struct entry *e, struct totals difference)
{
    tell_times(t, e, &difference);
    tell_allocations(t, e, &difference);
}

static void tell_heap(const struct telling *t, struct entry *e, struct jespan_heap now)
{
    if (now.inuse_objects == e->heap.inuse_objects && now.inuse_bytes == e->heap.inuse_bytes)
        return;
    e->heap = now;
    if (t->to->heap)
        t->to->heap(t->to->user, &e->info, &now);
}

/* ---- Contexts that are gone ---- */

/* A context that was recycled holds nothing. */
static void close_entry(const struct telling *t, uint32_t id)
{
    struct entry *e = &t->told->entries[id];
    tell_heap(t, e, (struct jespan_heap){0});
    if (t->to->span_closed)
        t->to->span_closed(t->to->user, &e->info);
    snapshot_delta_close(&t->told->delta, id);
}

/* A context is closed before its parent. The entry of "(retired)", which has no parent, is never gone. */
static void close_branch(const struct telling *t, uint32_t id)
{
    struct entry *entries = t->told->entries;
    while (snapshot_delta_is_gone(&t->told->delta, id) && !entries[id].children) {
        close_entry(t, id);
        id = entries[id].parent;
        entries[id].children--;
    }
}

static void close_gone(const struct telling *t)
{
    for (uint32_t id = 1; id < t->told->end; id++)
        close_branch(t, id);
}

/* ---- New contexts ---- */

#define LABELS_MIN_BYTES 64u

/* Sizes double, so the memory that an entry leaves behind is less than what it has. */
static bool make_room(struct reporter_told *r, struct entry *e, size_t bytes)
{
    size_t enough = LABELS_MIN_BYTES;
    while (enough < bytes)
        enough *= 2;
    if (e->labels_bytes >= bytes)
        return true;
    char *labels = bump_alloc(&r->bump, enough);
    if (!labels)
        return false;
    e->labels = labels;
    e->labels_bytes = enough;
    return true;
}

static const char *copy_text(char **to, const char *text)
{
    char *copy = *to;
    *to = stpcpy(copy, text) + 1;
    return copy;
}

static int copy_labels(struct reporter_told *r, struct entry *e, const struct snapshot_row *row)
{
    size_t bytes = row->n_labels * sizeof(struct jespan_label);
    for (uint32_t i = 0; i < row->n_labels; i++)
        bytes += strlen(row->labels[i].key) + strlen(row->labels[i].value) + 2;
    if (!row->n_labels)
        return 0;
    if (!make_room(r, e, bytes))
        return -ENOMEM;
    struct jespan_label *labels = (struct jespan_label *)e->labels;
    char *text = (char *)(labels + row->n_labels);
    for (uint32_t i = 0; i < row->n_labels; i++) {
        labels[i].key = copy_text(&text, row->labels[i].key);
        labels[i].value = copy_text(&text, row->labels[i].value);
        labels[i].integer = row->labels[i].integer;
        labels[i].type = row->labels[i].is_integer ? JESPAN_TYPE_INTEGER : JESPAN_TYPE_STRING;
    }
    e->info.labels = labels;
    e->info.n_labels = row->n_labels;
    return 0;
}

static void open_entry(const struct telling *t, struct entry *e, uint32_t parent)
{
    e->heap = (struct jespan_heap){0};
    e->parent = parent;
    e->children = 0;
    if (t->to->span_opened)
        t->to->span_opened(t->to->user, &e->info);
}

static void open_row(struct telling *t, const struct snapshot_row *row)
{
    struct entry *entries = t->told->entries, *e = &entries[row->id];
    uint32_t parent = t->snapshot->rows[row->parent_row].id;
    e->info = (struct jespan_span_info){
        .id = (uint64_t)row->generation << 32 | row->id, .kind = kind_text(row->kind), .name = row->name,
        .target = row->target, .file = row->file, .line = row->line};
    if (parent != row->id) {
        e->info.parent = &entries[parent].info;
        entries[parent].children++;
    }
    if (copy_labels(t->told, e, row))
        t->error = -ENOMEM;
    snapshot_delta_open(&t->told->delta, row);
    open_entry(t, e, parent);
    if (row->id >= t->told->end)
        t->told->end = row->id + 1;
}

static void open_retired(const struct telling *t, uint32_t root)
{
    struct entry *entries = t->told->entries;
    entries[0].info = (struct jespan_span_info){
        .parent = &entries[root].info, .kind = "retired", .name = "(retired)", .target = "", .file = ""};
    entries[root].children++;
    open_entry(t, &entries[0], root);
}

/* Opens the ancestors of a row first. A parent may have a higher number than its child. */
static void open_branch(struct telling *t, uint32_t row)
{
    const struct snapshot_row *rows = t->snapshot->rows;
    struct entry *entries = t->told->entries;
    const uint32_t none = UINT32_MAX;
    uint32_t below = none;
    while (!t->told->delta.told[rows[row].id].open) {
        entries[rows[row].id].below = below;
        below = row;
        row = rows[row].parent_row;
    }
    for (; below != none; below = entries[rows[below].id].below)
        open_row(t, &rows[below]);
}

/* The first round opens the root and "(retired)". */
static void open_new(struct telling *t)
{
    const struct snapshot *s = t->snapshot;
    if (t->told->delta.round == 1) {
        open_row(t, &s->rows[0]);
        open_retired(t, s->rows[0].id);
    }
    for (uint32_t row = 1; row < s->n_rows; row++)
        open_branch(t, row);
}

/* ---- A round ---- */

int reporter_tell(struct reporter_told *r, const struct snapshot *s, const struct jespan_reporter *to)
{
    struct telling t = {.told = r, .snapshot = s, .to = to};
    snapshot_delta_begin(&r->delta, s);
    close_gone(&t);
    open_new(&t);
    for (const struct snapshot_row *row = s->rows; row < s->rows + s->n_rows; row++) {
        struct entry *e = &r->entries[row->id];
        tell_figures(&t, e, snapshot_delta_of_row(&r->delta, row));
        tell_heap(&t, e, (struct jespan_heap){totals_inuse_objects(&row->totals), totals_inuse_bytes(&row->totals)});
    }
    tell_figures(&t, &r->entries[0], snapshot_delta_of_retired(&r->delta, s));
    return t.error;
}
