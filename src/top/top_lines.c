/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of `jespan top`, for a terminal of any width or for a pipe. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "console/command.h"
#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "top.h"

#define PATH_BYTES 1024
#define LEVELS 8 /* of the sparkline */

const char *const top_sort_names[TOP_N_SORTS] = {"inuse", "growth", "alloc", "objects"};
const char *const top_view_names[TOP_N_VIEWS] = {"contexts", "threads", "arenas", "limits", "stacks"};

/* BOUND: bytes, and "-" for none. */
enum kind { NO_COLUMN, BYTES, BOUND, COUNT, RATE, CHANGE, SHARE };

/* A column is left out on a terminal that is narrower than that. The figure is a member of the row. */
struct column {
    const char *heading;
    int columns;
    size_t least_width;
    enum kind kind;
    size_t member;
};

#define MEMBER(name) offsetof(struct top_row, name)
#define IN_USE {"IN USE", 10, 0, BYTES, MEMBER(figures.inuse_bytes)}
#define GROWTH {"GROWTH/s", 10, 50, CHANGE, MEMBER(figures.growth)}
#define ALLOC {"ALLOC/s", 10, 64, RATE, MEMBER(figures.alloc)}
#define OBJECTS {"OBJECTS", 10, 80, COUNT, MEMBER(figures.objects)}
#define REFUSED {"REFUSED", 8, 80, COUNT, MEMBER(refusals)}

#define N_COLUMNS 5
static const struct column columns_of[TOP_N_VIEWS][N_COLUMNS] = {
    [TOP_CONTEXTS] = {IN_USE, {"PEAK", 10, 110, BYTES, MEMBER(peak_bytes)}, GROWTH, ALLOC, OBJECTS},
    [TOP_THREADS] = {{"ALLOC/s", 10, 0, RATE, MEMBER(figures.alloc)}, {"FREED/s", 10, 50, RATE, MEMBER(free_rate)},
                     {"GROWTH/s", 10, 64, CHANGE, MEMBER(figures.growth)}, {"CPU", 7, 40, SHARE, MEMBER(share)}},
    [TOP_ARENAS] = {IN_USE, GROWTH, {"MAPPED", 10, 40, BYTES, MEMBER(mapped_bytes)}, {"MOST", 10, 80, BOUND, MEMBER(bound_bytes)}, REFUSED},
    [TOP_LIMITS] = {IN_USE, {"USED", 7, 40, SHARE, MEMBER(share)}, {"LIMIT", 10, 50, BOUND, MEMBER(bound_bytes)},
                    {"SOFT", 10, 64, BOUND, MEMBER(soft_bytes)}, REFUSED},
    [TOP_STACKS] = {IN_USE, GROWTH, OBJECTS}};

static bool has_column(const struct column *c, size_t columns)
{
    return c->kind != NO_COLUMN && columns >= c->least_width;
}

static void add_right(struct text *text, const char *cell, int columns)
{
    for (int i = figure_columns(cell); i < columns; i++)
        text_add(text, " ");
    text_add(text, cell);
    text_add(text, "  ");
}

/* With a sign, and "0" where nothing changes. */
static void figure_rate(char to[FIGURE_BYTES], int64_t rate, bool is_signed)
{
    to[0] = '+';
    if (rate == 0)
        strcpy(to, "0");
    else
        figure_bytes(is_signed && rate > 0 ? to + 1 : to, rate, false);
}

void top_title(struct text *text, const struct top *top, size_t columns)
{
    char in_use[FIGURE_BYTES + 1], growth[FIGURE_BYTES + 1], alloc[FIGURE_BYTES + 1], threads[32], line[256];
    uint32_t live = 0;
    for (uint32_t i = 0; i < top->threads.n_threads; i++)
        live += top->threads.threads[i].live;
    figure_bytes(in_use, (int64_t)top->all.inuse_bytes, false);
    figure_rate(growth, top->all.growth, true);
    figure_rate(alloc, top->all.alloc, false);
    text_clear(text);
    text_add_bytes(text, top->name, strlen(top->name), sizeof top->name);
    snprintf(threads, sizeof threads, "  %u thread%s", live, live == 1 ? "" : "s");
    snprintf(line, sizeof line, " %d  in use %s  %s/s  allocates %s/s%s%s", (int)top->pid, in_use, growth, alloc,
             top->url[0] != '\0' ? "" : threads, top->ended ? "  ENDED" : top->paused ? "  PAUSED" : "");
    text_add(text, line);
    text_fit(text, columns < 3 ? 3 : columns);
}

/* The newest readings, as high as they are compared with the highest of them. */
void top_sparkline(struct text *text, const struct top *top, size_t columns)
{
    size_t room = columns > 12 ? columns - 12 : 1, kept = top->n_history < TOP_HISTORY ? top->n_history : TOP_HISTORY;
    size_t n = kept < room ? kept : room;
    uint64_t most = 1;
    char figure[FIGURE_BYTES];
    for (size_t i = 0; i < n; i++) {
        uint64_t value = top->history[(top->n_history - n + i) % TOP_HISTORY];
        most = value > most ? value : most;
    }
    text_clear(text);
    for (size_t i = 0; i < n; i++) {
        uint64_t value = top->history[(top->n_history - n + i) % TOP_HISTORY];
        text_add_level(text, (unsigned)((double)value / (double)most * (LEVELS - 1) + 0.5));
    }
    figure_bytes(figure, (int64_t)most, false);
    text_add(text, " ");
    text_add(text, figure);
}

void top_headings(struct text *text, const struct top *top, size_t columns)
{
    text_clear(text);
    for (int i = 0; i < N_COLUMNS; i++)
        if (has_column(&columns_of[top->view][i], columns))
            add_right(text, columns_of[top->view][i].heading, columns_of[top->view][i].columns);
    static const char *const what[] = {"CONTEXT", "THREAD", "ARENA", "CONTEXT, WITH ALL BELOW IT", "STACK, FROM THE CALL THAT ALLOCATED"};
    text_add(text, what[top->view == TOP_CONTEXTS && top->tree ? TOP_LIMITS : top->view]);
    if (top->filter[0] != '\0') {
        text_add(text, " WITH ");
        text_add_bytes(text, top->filter, strlen(top->filter), sizeof top->filter);
    }
}

/* The name of a context with its labels; its ancestors are above it, or before it. */
static void add_context(struct text *text, const struct top *top, const struct top_row *row)
{
    char path[PATH_BYTES];
    const struct snapshot_row *r = &top->snapshot->rows[row->row];
    row_path(path, sizeof path, top->snapshot, row->row);
    const char *name = path;
    if (row->depth > 0) {
        const char *at = strstr(path, r->name);
        for (const char *next = at; next && r->name[0] != '\0'; next = strstr(next + 1, r->name))
            at = next >= path + 3 && strncmp(next - 3, " > ", 3) == 0 ? next : at;
        name = at ? at : path;
    }
    for (uint32_t i = 0; i < row->depth; i++)
        text_add(text, "  ");
    if (top->tree)
        text_add(text, !row->has_below ? "  " : row->is_collapsed ? "+ " : "- ");
    text_add_bytes(text, name, strlen(name), PATH_BYTES);
}

static void add_thread(struct text *text, const struct top *top, const struct top_row *row)
{
    char path[PATH_BYTES], number[32];
    const struct view_thread *t = &top->threads.threads[row->row];
    const struct snapshot_row *context = snapshot_find(top->snapshot, t->context);
    text_add_bytes(text, t->name, strlen(t->name), sizeof t->name);
    snprintf(number, sizeof number, " %d in ", t->thread_id);
    text_add(text, number);
    strcpy(path, "(retired)");
    if (context)
        row_path(path, sizeof path, top->snapshot, (uint32_t)(context - top->snapshot->rows));
    text_add_bytes(text, path, strlen(path), PATH_BYTES);
}

static void write_cell(char to[FIGURE_BYTES + 1], const struct top_row *row, const struct column *column)
{
    const void *member = (const char *)row + column->member;
    uint64_t value;
    memcpy(&value, member, sizeof value);
    switch (column->kind) {
    case BYTES:
        figure_bytes(to, (int64_t)value, false);
        break;
    case BOUND:
        strcpy(to, "-");
        if (value)
            figure_bytes(to, (int64_t)value, false);
        break;
    case COUNT:
        snprintf(to, FIGURE_BYTES, "%llu", (unsigned long long)value);
        break;
    case SHARE:
        snprintf(to, FIGURE_BYTES, "%.1f%%", 100 * *(const double *)member);
        break;
    default:
        figure_rate(to, (int64_t)value, column->kind == CHANGE);
    }
}

static void add_item(struct text *text, const struct top_item *item)
{
    memcpy(text->chars, item->chars, item->n_chars * sizeof *item->chars);
    text->n = item->n_chars;
}

static void add_what(struct text *what, const struct top *top, const struct top_row *row, size_t columns)
{
    text_clear(what);
    if (top->view == TOP_CONTEXTS)
        add_context(what, top, row);
    else if (top->view == TOP_THREADS)
        add_thread(what, top, row);
    else
        add_item(what, &top->items.items[row->row]);
    text_fit(what, columns);
}

const char *top_none(const struct top *top)
{
    if (top->n_rows > 0 || top->view == TOP_CONTEXTS)
        return NULL;
    if (top->items.view != top->view)
        return top->ended;
    return top->items.n == 0 ? top->items.none : NULL;
}

void top_line(struct text *text, const struct top *top, uint32_t i, size_t columns)
{
    static struct text what;
    const struct top_row *row = &top->rows[i];
    char cell[FIGURE_BYTES + 1];
    text_clear(text);
    for (int k = 0; k < N_COLUMNS; k++) {
        const struct column *column = &columns_of[top->view][k];
        if (!has_column(column, columns))
            continue;
        write_cell(cell, row, column);
        add_right(text, cell, column->columns);
    }
    add_what(&what, top, row, columns > text->n + 3 ? columns - text->n : 3);
    text_append(text, &what);
}
