/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of spans.* of another process: contexts, sums, figures of jespan itself. Names of jemalloc are not in the books. */
#include "snapshot/names_outside.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/parse.h"
#include "snapshot/names_outside_parts.h"

#define NAME_BYTES 96
#define MAX_FIGURES 512 /* more means damaged books */

/* ---- Names of a context ---- */

enum source { TEXT, KIND, LABELS, LINE, PARENT, OPEN, CLOSED, ARENA, LIMIT_SOFT, LIMIT_HARD, LIMIT_INUSE, LIMIT_REFUSALS, TOTAL };

/* Figures that are computed from others. These numbers are no offsets. */
enum { INUSE_OBJECTS = sizeof(struct totals), INUSE_BYTES };

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
    FIGURE(alloc_objects, alloc_objects),
    FIGURE(alloc_bytes, alloc_bytes),
    FIGURE(alloc_requested_bytes, alloc_requested_bytes),
    FIGURE(free_objects, free_objects),
    FIGURE(free_bytes, free_bytes),
    FIGURE(credited_in_objects, credited_in_objects),
    FIGURE(credited_in_bytes, credited_in_bytes),
    FIGURE(credited_out_objects, credited_out_objects),
    FIGURE(credited_out_bytes, credited_out_bytes),
    {"inuse_objects", TOTAL, INUSE_OBJECTS},
    {"inuse_bytes", TOTAL, INUSE_BYTES},
    FIGURE(enters, enters),
    FIGURE(opens, opens),
    FIGURE(wall_ns, wall),
    FIGURE(busy_ns, busy),
    FIGURE(idle_ns, idle),
    FIGURE(cpu_ns, cpu),
    FIGURE(cpu_user_ns, cpu_user),
    FIGURE(cpu_system_ns, cpu_system),
    FIGURE(outlived_objects, outlived_objects),
    FIGURE(outlived_bytes, outlived_bytes),
};
#define N_CONTEXT_NAMES (sizeof context_names / sizeof *context_names)

static const struct context_name *find_name(const char *name)
{
    for (size_t i = 0; i < N_CONTEXT_NAMES; i++)
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
    default:
        return true;
    }
}

static uint64_t figure(const struct totals *t, size_t offset)
{
    switch (offset) {
    case INUSE_OBJECTS:
        return totals_inuse_objects(t);
    case INUSE_BYTES:
        return totals_inuse_bytes(t);
    default:
        return *(const uint64_t *)((const char *)t + offset);
    }
}

static int get_total(const struct view *view, const struct totals *t, const struct context_name *name, struct mailbox_answer *answer)
{
    if (!name || name->source != TOTAL)
        return -EOPNOTSUPP;
    return is_known(view, name->offset) ? names_outside_number(answer, figure(t, name->offset)) : -ENOENT;
}

/* ---- The context itself: what no snapshot has ---- */

/* Copies a context. EAGAIN: the number names another one by now. */
static int copy_context(struct view *view, uint32_t id, uint32_t generation, struct context *c)
{
    uint64_t contexts_at;
    uint32_t before, after;
    int error = names_outside_copy(view, &contexts_at, space_address(view->books.contexts), sizeof contexts_at);
    if (!error)
        error = names_outside_life(view, id, &before);
    if (!error)
        error = names_outside_copy(view, c, contexts_at + (uint64_t)id * sizeof *c, sizeof *c);
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

static int get_limit(struct view *view, const struct snapshot *s, const struct snapshot_row *row, const struct context *c,
                     enum source source, struct mailbox_answer *answer)
{
    struct limit l = {0};
    uint16_t index = load_relaxed(&c->limit);
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
    struct context c;
    int error = copy_context(view, row->id, row->generation, &c);
    if (error)
        return error;
    if (source == OPEN)
        return get_open(view, s, &c, row->id, answer);
    return source == ARENA ? names_outside_number(answer, load_relaxed(&c.arena)) : get_limit(view, s, row, &c, source, answer);
}

/* ---- What a row has ---- */

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
        return names_outside_number(answer, row->closed_ns);
    case TOTAL:
        return get_total(view, &row->totals, name, answer);
    default:
        return get_of_context(view, s, row, name->source, answer);
    }
}

/* A list asks for many figures of the same row. */
static int get_inclusive(struct view *view, const struct snapshot *s, const struct snapshot_row *row, const char *name,
                         struct mailbox_answer *answer)
{
    static _Thread_local struct {
        const struct snapshot_row *row;
        uint64_t epoch;
        struct totals totals;
    } last;
    if (last.row != row || last.epoch != s->epoch)
        last.totals = snapshot_inclusive(s, (uint32_t)(row - s->rows));
    last.row = row;
    last.epoch = s->epoch;
    return get_total(view, &last.totals, find_name(name), answer);
}

/* `rest` follows "spans." and begins with a digit. */
static int get_by_id(struct view *view, const struct snapshot *s, const char *rest, struct mailbox_answer *answer)
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

/* ---- Figures of jespan itself ---- */

static int count_figures(const struct view *view, size_t *n)
{
    uint64_t first = space_address(view->books.figures), end = space_address(view->books.figures_end);
    *n = (size_t)(end - first) / sizeof(struct figure_row);
    return end >= first && *n <= MAX_FIGURES ? 0 : -EBADMSG;
}

static int copy_figure(struct view *view, size_t i, struct figure_row *row)
{
    int error = names_outside_copy(view, row, space_address(view->books.figures + i), sizeof *row);
    row->name[sizeof row->name - 1] = '\0';
    return error ? error : row->bytes == 4 || row->bytes == 8 ? 0 : -EBADMSG;
}

/* A text is copied in steps, since it may end right before memory that cannot be read. */
static int copy_text(struct view *view, uint64_t at, struct mailbox_answer *answer)
{
    enum { STEP = 16 };
    answer->kind = MAILBOX_WORDS;
    for (size_t n = 0; at && n + STEP < sizeof answer->words; n += STEP) {
        int error = names_outside_copy(view, answer->words + n, at + n, STEP);
        if (error && n == 0)
            return error;
        if (error || memchr(answer->words + n, '\0', STEP))
            break;
    }
    return 0;
}

static int get_figure(struct view *view, const struct figure_row *row, struct mailbox_answer *answer)
{
    uint64_t value = 0;
    int error = names_outside_copy(view, &value, space_address(row->at), row->bytes);
    if (error)
        return error;
    switch ((enum figure_kind)row->kind) {
    case FIGURE_TEXT:
        return copy_text(view, value, answer);
    case FIGURE_MODE:
        return value <= STACKS_ALL ? names_outside_words(answer, stacks_mode_text((enum stacks_mode)value)) : -EBADMSG;
    case FIGURE_SIGNED:
        return names_outside_number(answer, at_least_0(value));
    case FIGURE_LESS_1:
        return names_outside_number(answer, value ? value - 1 : 0);
    default:
        return names_outside_number(answer, value);
    }
}

static int get_figure_called(struct view *view, const char *name, struct mailbox_answer *answer)
{
    struct figure_row row;
    size_t n;
    int error = count_figures(view, &n);
    for (size_t i = 0; !error && i < n; i++) {
        error = copy_figure(view, i, &row);
        if (!error && strcmp(row.name, name) == 0)
            return get_figure(view, &row, answer);
    }
    return error ? error : -EOPNOTSUPP;
}

static int get_contexts(struct view *view, struct mailbox_answer *answer)
{
    struct mailbox_answer next = {0}, free = {0}, stacks = {0};
    int error = get_figure_called(view, ".tree_next_id", &next);
    if (!error)
        error = get_figure_called(view, ".tree_free", &free);
    if (!error)
        error = get_figure_called(view, "spans.stats.stacks.stacks", &stacks);
    return error ? error : names_outside_number(answer, at_least_0(next.value - CONTEXT_ID_ROOT - 1 - free.value - stacks.value));
}

/* ---- All names ---- */

static int get_arena(struct view *view, const char *rest, struct mailbox_answer *answer)
{
    struct mailbox_answer count = {0};
    uint32_t arena;
    int n = 0;
    int error = get_figure_called(view, "spans.arenas.count", &count);
    if (!error && (sscanf(rest, "%10" SCNu32 ".%n", &arena, &n) != 1 || !n))
        return -EOPNOTSUPP;
    if (!error && (arena < 1 || arena > count.value || arena > UINT16_MAX))
        return -ENOENT;
    return error ? error : names_outside_arena(view, arena, rest + n, answer);
}

static int get(struct view *view, const struct snapshot *s, const char *name, struct mailbox_answer *answer)
{
    *answer = (struct mailbox_answer){0};
    if (strncmp(name, "spans.", 6) != 0)
        return -EOPNOTSUPP;
    const char *rest = name + 6;
    if (rest[0] >= '0' && rest[0] <= '9')
        return get_by_id(view, s, rest, answer);
    int error = get_figure_called(view, name, answer);
    if (error != -EOPNOTSUPP)
        return error;
    if (strcmp(rest, "count") == 0)
        return names_outside_number(answer, s->n_rows);
    if (strcmp(rest, "stats.contexts") == 0)
        return get_contexts(view, answer);
    if (strcmp(rest, "stats.pending_bytes") == 0)
        return names_outside_number(answer, s->pending_bytes);
    if (strncmp(rest, "all.", 4) == 0)
        return get_total(view, &s->all, find_name(rest + 4), answer);
    if (strncmp(rest, "retired.", 8) == 0)
        return get_total(view, &s->retired, find_name(rest + 8), answer);
    if (strncmp(rest, "arenas.", 7) == 0)
        return get_arena(view, rest + 7, answer);
    return -EOPNOTSUPP;
}

int names_outside_get(struct view *view, const struct snapshot *s, const char *name, struct mailbox_answer *answer)
{
    int error = get(view, s, name, answer);
    return error == -EFAULT ? -EBADMSG : error;
}

/* ---- A list of them ---- */

struct listing {
    struct view *view;
    const struct snapshot *snapshot;
    const char *pattern;
    names_outside_found *found;
    void *to;
};

/* Names without a value are left out. */
static int add(struct listing *l, const char *before, const char *name, uint32_t id)
{
    char full[NAME_BYTES], number[16] = "";
    struct mailbox_answer answer;
    if (id)
        snprintf(number, sizeof number, "%" PRIu32 ".", id);
    snprintf(full, sizeof full, "%s%s%s", before, number, name);
    if (!pattern_fits(l->pattern, full))
        return 0;
    int error = names_outside_get(l->view, l->snapshot, full, &answer);
    if (!error)
        l->found(l->to, full, &answer);
    return error == -ENOENT || error == -EAGAIN || error == -EOPNOTSUPP ? 0 : error;
}

static int compare_rows(const void *a, const void *b)
{
    return strcmp(((const struct figure_row *)a)->name, ((const struct figure_row *)b)->name);
}

static int list_figures(struct listing *l)
{
    static struct figure_row rows[MAX_FIGURES];
    size_t n;
    int error = count_figures(l->view, &n);
    for (size_t i = 0; !error && i < n; i++)
        error = copy_figure(l->view, i, &rows[i]);
    if (!error)
        qsort(rows, n, sizeof *rows, compare_rows);
    for (size_t i = 0; !error && i < n; i++)
        if (rows[i].name[0] != '.')
            error = add(l, "", rows[i].name, 0);
    return error;
}

static int list_totals(struct listing *l, const char *before)
{
    int error = 0;
    for (size_t i = 0; i < N_CONTEXT_NAMES && !error; i++)
        if (context_names[i].source == TOTAL)
            error = add(l, before, context_names[i].name, 0);
    return error;
}

static int list_contexts(struct listing *l)
{
    int error = 0;
    for (uint32_t row = 0; row < l->snapshot->n_rows && !error; row++) {
        uint32_t id = l->snapshot->rows[row].id;
        char before[NAME_BYTES];
        for (size_t i = 0; i < N_CONTEXT_NAMES && !error; i++)
            error = add(l, "spans.", context_names[i].name, id);
        snprintf(before, sizeof before, "spans.%" PRIu32 ".total.", id);
        if (!error)
            error = list_totals(l, before);
    }
    return error;
}

static int list_arenas(struct listing *l)
{
    struct mailbox_answer count = {0};
    int error = get_figure_called(l->view, "spans.arenas.count", &count);
    for (uint32_t arena = 1; !error && arena <= count.value && arena <= UINT16_MAX; arena++)
        for (size_t i = 0; !error && names_outside_arena_name(i); i++)
            error = add(l, "spans.arenas.", names_outside_arena_name(i), arena);
    return error;
}

int names_outside_list(struct view *view, const struct snapshot *s, const char *pattern, names_outside_found *found, void *to)
{
    struct listing l = {view, s, pattern, found, to};
    int error = add(&l, "spans.", "count", 0);
    if (!error)
        error = list_figures(&l);
    if (!error)
        error = add(&l, "spans.stats.", "contexts", 0);
    if (!error)
        error = add(&l, "spans.stats.", "pending_bytes", 0);
    if (!error)
        error = list_totals(&l, "spans.all.");
    if (!error)
        error = list_totals(&l, "spans.retired.");
    if (!error)
        error = list_arenas(&l);
    return error ? error : list_contexts(&l);
}
