/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of spans.* of another process: figures of jespan itself, and lists of names. Names of jemalloc are not in the books. */
#include "snapshot/names_outside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "heap/pagemap.h"
#include "snapshot/alert_figures.h"
#include "snapshot/names_outside_parts.h"

#define NAME_BYTES 96
#define MAX_FIGURES 512 /* more means damaged books */

/* ---- Figures of jespan itself ---- */

static int count_figures(const struct view *view, size_t *n)
{
    uint64_t first = space_address(view->books.figures), end = space_address(view->books.figures_end);
    *n = (size_t)(end - first) / sizeof(struct figure_row);
    return end >= first && *n <= MAX_FIGURES ? 0 : -EBADMSG;
}

static bool has_right_bytes(const struct figure_row *row)
{
    if (row->kind == FIGURE_SUM)
        return row->bytes % sizeof(uint64_t) == 0 && row->bytes <= FIGURE_SUM_BYTES;
    return row->bytes == 4 || row->bytes == 8;
}

static int copy_figure(struct view *view, size_t i, struct figure_row *row)
{
    int error = names_outside_copy(view, row, space_address(view->books.figures + i), sizeof *row);
    row->name[sizeof row->name - 1] = '\0';
    return error ? error : has_right_bytes(row) ? 0 : -EBADMSG;
}

/* In steps, since the text may end right before memory that cannot be read. */
int names_outside_text(struct view *view, uint64_t at, struct mailbox_answer *answer)
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

static int get_sum(struct view *view, const struct figure_row *row, struct mailbox_answer *answer)
{
    uint64_t numbers[FIGURE_SUM_BYTES / sizeof(uint64_t)] = {0}, sum = 0;
    int error = names_outside_copy(view, numbers, space_address(row->at), row->bytes);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sum += numbers[i];
    return error ? error : names_outside_number(answer, sum);
}

static int get_figure(struct view *view, const struct figure_row *row, struct mailbox_answer *answer)
{
    uint64_t value = 0;
    if (row->kind == FIGURE_SUM)
        return get_sum(view, row, answer);
    int error = names_outside_copy(view, &value, space_address(row->at), row->bytes);
    if (error)
        return error;
    if (row->kind == FIGURE_AT)
        error = names_outside_copy(view, &value, value, sizeof value);
    if (error)
        return error;
    switch ((enum figure_kind)row->kind) {
    case FIGURE_TEXT:
        return names_outside_text(view, value, answer);
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

static int get_alert(struct view *view, const char *rest, struct mailbox_answer *answer)
{
    struct mailbox_answer shown = {0};
    uint32_t rule;
    int n = 0;
    int error = get_figure_called(view, ".alerts", &shown);
    if (!error && (sscanf(rest, "%10" SCNu32 ".%n", &rule, &n) != 1 || !n))
        return -EOPNOTSUPP;
    return error ? error : names_outside_alert(view, shown.value, rule, rest + n, answer);
}

static int get_thread(struct view *view, const char *rest, struct mailbox_answer *answer)
{
    uint32_t *ids, thread;
    size_t count;
    int n = 0;
    if (strcmp(rest, "count") == 0) {
        int error = names_outside_thread_ids(view, &ids, &count);
        free(ids);
        return error ? error : names_outside_number(answer, count);
    }
    return sscanf(rest, "%10" SCNu32 ".%n", &thread, &n) == 1 && n ? names_outside_thread(view, thread, rest + n, answer) : -EOPNOTSUPP;
}

static int get(struct view *view, const struct snapshot *s, const char *name, struct mailbox_answer *answer)
{
    *answer = (struct mailbox_answer){0};
    if (strncmp(name, "spans.", 6) != 0)
        return -EOPNOTSUPP;
    const char *rest = name + 6;
    if (rest[0] >= '0' && rest[0] <= '9')
        return names_outside_context(view, s, rest, answer);
    int error = get_figure_called(view, name, answer);
    if (error != -EOPNOTSUPP)
        return error;
    if (strcmp(rest, "count") == 0)
        return names_outside_number(answer, s->n_rows);
    if (strcmp(rest, "stats.contexts") == 0)
        return get_contexts(view, answer);
    if (strcmp(rest, "stats.pending_bytes") == 0)
        return names_outside_number(answer, s->pending_bytes);
    if (strcmp(rest, "all.peak_bytes") == 0)
        return names_outside_number(answer, snapshot_peak_bytes(s));
    if (strcmp(rest, "retired.peak_bytes") == 0)
        return names_outside_number(answer, s->retired_peaks.total_bytes);
    if (strcmp(rest, "retired.at_peak_bytes") == 0)
        return names_outside_number(answer, s->retired_peaks.at_peak_bytes);
    if (strncmp(rest, "all.", 4) == 0)
        return names_outside_total(view, &s->all, rest + 4, answer);
    if (strncmp(rest, "retired.", 8) == 0)
        return names_outside_total(view, &s->retired, rest + 8, answer);
    if (strncmp(rest, "arenas.", 7) == 0)
        return get_arena(view, rest + 7, answer);
    if (strncmp(rest, "alerts.", 7) == 0)
        return get_alert(view, rest + 7, answer);
    if (strncmp(rest, "threads.", 8) == 0)
        return get_thread(view, rest + 8, answer);
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
    bool is_total;
    const char *name;
    for (size_t i = 0; !error && (name = names_outside_context_name(i, &is_total)); i++)
        if (is_total)
            error = add(l, before, name, 0);
    return error;
}

static int list_contexts(struct listing *l)
{
    int error = 0;
    for (const struct snapshot_row *row = NULL; !error && (row = snapshot_next(l->snapshot, row));) {
        uint32_t id = row->id;
        char before[NAME_BYTES];
        bool is_total;
        const char *name;
        for (size_t i = 0; !error && (name = names_outside_context_name(i, &is_total)); i++)
            error = add(l, "spans.", name, id);
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
    for (uint32_t arena = 1; !error && arena <= count.value && arena < HEADERS_ARENAS_MAX; arena++)
        for (size_t i = 0; !error && names_outside_arena_name(i); i++)
            error = add(l, "spans.arenas.", names_outside_arena_name(i), arena);
    return error;
}

static int list_alerts(struct listing *l)
{
    struct mailbox_answer count = {0};
    int error = get_figure_called(l->view, "spans.alerts.count", &count);
    for (uint32_t rule = 1; !error && rule <= count.value && rule <= ALERTS_MOST; rule++)
        for (size_t i = 0; !error && names_outside_alert_name(i); i++)
            error = add(l, "spans.alerts.", names_outside_alert_name(i), rule);
    return error;
}

static int list_threads(struct listing *l)
{
    uint32_t *ids;
    size_t n;
    int error = names_outside_thread_ids(l->view, &ids, &n);
    if (!error)
        error = add(l, "spans.threads.", "count", 0);
    for (size_t k = 0; k < n && !error; k++)
        for (size_t i = 0; !error && names_outside_thread_name(i); i++)
            error = add(l, "spans.threads.", names_outside_thread_name(i), ids[k]);
    free(ids);
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
    if (!error)
        error = list_alerts(&l);
    if (!error)
        error = list_threads(&l);
    return error ? error : list_contexts(&l);
}
