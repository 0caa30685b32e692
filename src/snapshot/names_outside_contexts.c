/* SPDX-License-Identifier: BSD-2-Clause */
/* The names spans.<id>.* of another process: a context, and its figures. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/names_outside_parts.h"

/* ---- Names of a context ---- */

enum source { TEXT, KIND, LABELS, LINE, PARENT, OPEN, CLOSED, ARENA, LIMIT_SOFT, LIMIT_HARD, LIMIT_INUSE, LIMIT_REFUSALS, PEAK, TOTAL };

struct context_name {
    const char *name;
    enum source source;
    size_t offset;
};

#define FIGURE(name, member) {#name, TOTAL, offsetof(struct totals, member)}

static const struct context_name context_names[] = {
    {"name", TEXT, offsetof(struct snapshot_row, name)},
    {"target", TEXT, offsetof(struct snapshot_row, target)},
    {"file", TEXT, offsetof(struct snapshot_row, file)},
    {"line", LINE, 0},
    {"kind", KIND, 0},
    {"parent", PARENT, 0},
    {"labels", LABELS, 0},
    {"open", OPEN, 0},
    {"closed_ns", CLOSED, 0},
    {"arena", ARENA, 0},
    {"limit_soft", LIMIT_SOFT, 0},
    {"limit_hard", LIMIT_HARD, 0},
    {"limit_inuse_bytes", LIMIT_INUSE, 0},
    {"limit_refusals", LIMIT_REFUSALS, 0},
    {"peak_bytes", PEAK, offsetof(struct snapshot_peaks, own_bytes)},
    {"at_peak_bytes", PEAK, offsetof(struct snapshot_peaks, at_peak_bytes)},
    FIGURE(alloc_objects, alloc_objects),
    FIGURE(alloc_bytes, alloc_bytes),
    FIGURE(alloc_requested_bytes, alloc_requested_bytes),
    FIGURE(free_objects, free_objects),
    FIGURE(free_bytes, free_bytes),
    FIGURE(credited_in_objects, credited_in_objects),
    FIGURE(credited_in_bytes, credited_in_bytes),
    FIGURE(credited_out_objects, credited_out_objects),
    FIGURE(credited_out_bytes, credited_out_bytes),
    {"inuse_objects", TOTAL, TOTALS_INUSE_OBJECTS},
    {"inuse_bytes", TOTAL, TOTALS_INUSE_BYTES},
    FIGURE(enters, enters),
    FIGURE(temporary_objects, temporary_objects),
    FIGURE(opens, opens),
    FIGURE(wall_ns, wall),
    FIGURE(busy_ns, busy),
    FIGURE(idle_ns, idle),
    FIGURE(cpu_ns, cpu),
    FIGURE(cpu_user_ns, cpu_user),
    FIGURE(cpu_system_ns, cpu_system),
    FIGURE(lifetimes_us, lifetimes),
    FIGURE(outlived_objects, outlived_objects),
    FIGURE(outlived_bytes, outlived_bytes),
};

const char *names_outside_context_name(size_t i, bool *is_total)
{
    bool exists = i < sizeof context_names / sizeof *context_names;
    *is_total = exists && context_names[i].source >= PEAK;
    return exists ? context_names[i].name : NULL;
}

static const struct context_name *find_name(const char *name)
{
    for (size_t i = 0; i < sizeof context_names / sizeof *context_names; i++)
        if (strcmp(context_names[i].name, name) == 0)
            return &context_names[i];
    return NULL;
}

/* Whether the clocks in use there give this figure. */
static bool is_known(const struct view *view, size_t offset)
{
    switch (offset) {
    case offsetof(struct totals, wall):
    case offsetof(struct totals, busy):
    case offsetof(struct totals, idle):
        return view->times;
    case offsetof(struct totals, cpu):
        return view->cpu_times;
    case offsetof(struct totals, cpu_user):
    case offsetof(struct totals, cpu_system):
        return view->cpu_parts;
    case offsetof(struct totals, lifetimes):
        return view->lifetimes;
    default:
        return true;
    }
}

static int get_peak(const struct snapshot_peaks *peaks, size_t offset, struct mailbox_answer *answer)
{
    return names_outside_number(answer, *(const uint64_t *)((const char *)peaks + offset));
}

static int get_total(const struct view *view, const struct totals *t, const struct context_name *name, struct mailbox_answer *answer)
{
    if (!name || name->source != TOTAL)
        return -EOPNOTSUPP;
    return is_known(view, name->offset) ? names_outside_number(answer, totals_figure(t, name->offset)) : -ENOENT;
}

int names_outside_total(const struct view *view, const struct totals *t, const char *name, struct mailbox_answer *answer)
{
    return get_total(view, t, find_name(name), answer);
}

/* ---- Figures of the context that no snapshot has ---- */

/* Of a context, from the other process. */
struct context_copy {
    struct context c;
    struct context_head head;
};

/* An item of an array that is found by a variable. */
static int copy_item(struct view *view, const void *variable, uint32_t id, void *item, size_t bytes)
{
    uint64_t array;
    int error = names_outside_copy(view, &array, space_address(variable), sizeof array);
    return error ? error : names_outside_copy(view, item, array + (uint64_t)id * bytes, bytes);
}

/* Copies a context. EAGAIN: the number names another one by now. */
static int copy_context(struct view *view, uint32_t id, uint32_t generation, struct context_copy *copy)
{
    uint32_t before, after;
    int error = names_outside_life(view, id, &before);
    if (!error)
        error = copy_item(view, view->books.contexts, id, &copy->c, sizeof copy->c);
    if (!error)
        error = copy_item(view, view->books.context_heads, id, &copy->head, sizeof copy->head);
    if (!error)
        error = names_outside_life(view, id, &after);
    return error ? error : before == after && before / 2 == generation ? 0 : -EAGAIN;
}

int names_outside_life(struct view *view, uint32_t id, uint32_t *life)
{
    uint64_t lives_at;
    uint32_t end;
    int error = names_outside_copy(view, &end, space_address(view->books.context_end), sizeof end);
    if (!error && (id < CONTEXT_ID_ROOT || id >= end))
        return -ENOENT;
    if (!error)
        error = names_outside_copy(view, &lives_at, space_address(view->books.context_lives), sizeof lives_at);
    if (!error)
        error = names_outside_copy(view, life, lives_at + (uint64_t)id * sizeof *life, sizeof *life);
    return error ? error : *life & 1 ? 0 : -ENOENT;
}

/* Limit 0 stands for none. */
static int copy_limit(struct view *view, uint16_t index, struct limit *l)
{
    uint64_t chunk;
    int error = names_outside_copy(view, &chunk, space_address(&view->books.limits[index >> LIMITS_PER_CHUNK_BITS]), sizeof chunk);
    if (!error && !chunk)
        return -ENOENT;
    return error ? error : names_outside_copy(view, l, chunk + (index & ((1u << LIMITS_PER_CHUNK_BITS) - 1)) * sizeof *l, sizeof *l);
}

static uint64_t inuse_with_all_below(const struct snapshot *s, const struct snapshot_row *row)
{
    const struct totals t = snapshot_inclusive(s, (uint32_t)(row - s->rows));
    return totals_inuse_bytes(&t);
}

static int get_limit(struct view *view, const struct snapshot *s, const struct snapshot_row *row, const struct context_head *head,
                     enum source source, struct mailbox_answer *answer)
{
    struct limit l = {0};
    uint16_t index = load_relaxed(&head->limit);
    int error = index ? copy_limit(view, index, &l) : 0;
    bool exists = !error && index && load_relaxed(&l.context) == row->id;
    if (error)
        return error;
    if (source == LIMIT_SOFT || source == LIMIT_HARD)
        return names_outside_number(answer, !exists ? 0 : load_relaxed(source == LIMIT_SOFT ? &l.soft : &l.hard));
    if (!exists)
        return -ENOENT;
    return names_outside_number(answer, source == LIMIT_INUSE ? inuse_with_all_below(s, row) : load_relaxed(&l.refusals));
}

/* Open blocks that a thread counts. Its chunk of counters may not exist. */
static int add_open_blocks(struct view *view, const struct outside_thread *t, uint32_t id, uint64_t *n)
{
    uint64_t chunk = 0, opens = 0;
    uint32_t used = 0;
    int error = 0;
    if (id / COUNTERS_PER_CHUNK < view->outside->n_chunks)
        error = names_outside_copy(view, &chunk, t->chunks + id / COUNTERS_PER_CHUNK * sizeof chunk, sizeof chunk);
    if (!error && chunk)
        error = names_outside_copy(view, &used, chunk + offsetof(struct counters_chunk, more_used), sizeof used);
    if (!error && used >> id % COUNTERS_PER_CHUNK & 1)
        error = names_outside_copy(view, &opens, chunk + offsetof(struct counters_chunk, more) +
                                   id % COUNTERS_PER_CHUNK * sizeof(struct counters_more) + offsetof(struct counters_more, opens),
                                   sizeof opens);
    *n += opens & (((uint64_t)1 << OPENS_SHIFT) - 1);
    return error;
}

/* With ages, blocks count in periods, which have no rows. */
static int get_open(struct view *view, const struct snapshot *s, const struct context *c, uint32_t id, struct mailbox_answer *answer)
{
    uint64_t n = load_relaxed(&c->handles);
    int error = s->n_ages ? -EOPNOTSUPP : 0;
    for (uint32_t i = 0; i < view->outside->n_threads && !error; i++)
        error = add_open_blocks(view, &view->outside->threads[i], id, &n);
    return error ? error : names_outside_number(answer, n);
}

static int get_of_context(struct view *view, const struct snapshot *s, const struct snapshot_row *row, enum source source,
                          struct mailbox_answer *answer)
{
    struct context_copy copy;
    int error = copy_context(view, row->id, row->generation, &copy);
    if (error)
        return error;
    if (source == OPEN)
        return get_open(view, s, &copy.c, row->id, answer);
    return source == ARENA ? names_outside_number(answer, load_relaxed(&copy.head.arena))
                           : get_limit(view, s, row, &copy.head, source, answer);
}

/* ---- Figures of a row ---- */

/* "key=value, key=value" */
static int get_labels(const struct snapshot_row *row, struct mailbox_answer *answer)
{
    size_t n = 0;
    answer->kind = MAILBOX_WORDS;
    for (uint32_t i = 0; i < row->n_labels && n < sizeof answer->words; i++)
        n += (size_t)snprintf(answer->words + n, sizeof answer->words - n, "%s%s=%s", i ? ", " : "", row->labels[i].key,
                              row->labels[i].value);
    return 0;
}

static int get_of_row(struct view *view, const struct snapshot *s, const struct snapshot_row *row, const struct context_name *name,
                      struct mailbox_answer *answer)
{
    if (!name)
        return -EOPNOTSUPP;
    switch (name->source) {
    case TEXT:
        return names_outside_words(answer, *(const char *const *)((const char *)row + name->offset));
    case KIND:
        return names_outside_words(answer, kind_text(row->kind));
    case LABELS:
        return get_labels(row, answer);
    case LINE:
        return names_outside_number(answer, row->line);
    case PARENT:
        return names_outside_number(answer, s->rows[row->parent_row].id);
    case CLOSED:
        return names_outside_number(answer, snapshot_closed_ns(s, row));
    case PEAK:
        return get_peak(&row->peaks, name->offset, answer);
    case TOTAL:
        return get_total(view, &row->totals, name, answer);
    default:
        return get_of_context(view, s, row, name->source, answer);
    }
}

/* A list asks for figures of all rows, so all are added up at once. NULL: no memory. */
static const struct totals *inclusive_of_all(struct view_outside *o, const struct snapshot *s)
{
    struct inclusive_sums *of = &o->inclusive;
    if (of->sums && of->rows == s->rows && of->epoch == s->epoch)
        return of->sums;
    meta_unmap(of->sums, of->n_rows * sizeof *of->sums);
    *of = (struct inclusive_sums){s->rows, s->epoch, s->n_rows, meta_map(s->n_rows * sizeof *of->sums)};
    if (of->sums && !snapshot_inclusive_all(s, of->sums)) {
        meta_unmap(of->sums, of->n_rows * sizeof *of->sums);
        of->sums = NULL;
    }
    return of->sums;
}

static int get_inclusive(struct view *view, const struct snapshot *s, const struct snapshot_row *row, const char *name,
                         struct mailbox_answer *answer)
{
    if (strcmp(name, "peak_bytes") == 0)
        return get_peak(&row->peaks, offsetof(struct snapshot_peaks, total_bytes), answer);
    const struct totals *sums = inclusive_of_all(view->outside, s);
    return sums ? names_outside_total(view, &sums[row - s->rows], name, answer) : -ENOMEM;
}

int names_outside_context(struct view *view, const struct snapshot *s, const char *rest, struct mailbox_answer *answer)
{
    uint32_t id;
    int n = 0;
    if (sscanf(rest, "%10" SCNu32 ".%n", &id, &n) != 1 || !n)
        return -EOPNOTSUPP;
    if (id == CONTEXT_ID_UNSAMPLED)
        return -EOPNOTSUPP; /* it has no row */
    const struct snapshot_row *row = snapshot_find(s, id);
    if (!row)
        return -ENOENT;
    bool total = strncmp(rest + n, "total.", 6) == 0;
    return total ? get_inclusive(view, s, row, rest + n + 6, answer) : get_of_row(view, s, row, find_name(rest + n), answer);
}

uint32_t names_outside_limited(const char *name)
{
    uint32_t id;
    int n = 0;
    if (sscanf(name, "spans.%10" SCNu32 ".%n", &id, &n) != 1 || !n)
        return 0;
    return strcmp(name + n, "limit_soft") == 0 || strcmp(name + n, "limit_hard") == 0 ? id : 0;
}
