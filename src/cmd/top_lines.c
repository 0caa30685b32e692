/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of `jespan top`, for a terminal of any width or for a pipe. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "top.h"

#define PATH_BYTES 1024
#define LEVELS 8 /* of the sparkline */

const char *const top_sort_names[TOP_N_SORTS] = {"inuse", "growth", "alloc", "objects"};

/* A column is left out on a terminal that is narrower than that. */
struct column {
    const char *heading;
    int columns;
    size_t least_width;
};

enum context_column { IN_USE, GROWTH, ALLOC, OBJECTS, N_COLUMNS };
static const struct column columns_of[][N_COLUMNS] = {
    [TOP_CONTEXTS] = {{"IN USE", 10, 0}, {"GROWTH/s", 10, 50}, {"ALLOC/s", 10, 64}, {"OBJECTS", 10, 80}},
    [TOP_THREADS] = {{"ALLOC/s", 10, 0}, {"FREED/s", 10, 50}, {"GROWTH/s", 10, 64}, {"CPU", 7, 40}}};

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
    char in_use[FIGURE_BYTES + 1], growth[FIGURE_BYTES + 1], alloc[FIGURE_BYTES + 1], line[256];
    uint32_t live = 0;
    for (uint32_t i = 0; i < top->threads.n_threads; i++)
        live += top->threads.threads[i].live;
    figure_bytes(in_use, (int64_t)top->all.inuse_bytes, false);
    figure_rate(growth, top->all.growth, true);
    figure_rate(alloc, top->all.alloc, false);
    text_clear(text);
    text_add_bytes(text, top->name, strlen(top->name), sizeof top->name);
    snprintf(line, sizeof line, " %d  in use %s  %s/s  allocates %s/s  %u thread%s%s", (int)top->pid, in_use, growth, alloc, live,
             live == 1 ? "" : "s", top->ended ? "  ENDED" : top->paused ? "  PAUSED" : "");
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
        if (columns >= columns_of[top->view][i].least_width)
            add_right(text, columns_of[top->view][i].heading, columns_of[top->view][i].columns);
    text_add(text, top->view == TOP_THREADS ? "THREAD" : top->tree ? "CONTEXT, WITH ALL BELOW IT" : "CONTEXT");
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

static void context_cell(char to[FIGURE_BYTES + 1], const struct top_row *row, int column)
{
    if (column == IN_USE)
        figure_bytes(to, (int64_t)row->figures.inuse_bytes, false);
    else if (column == OBJECTS)
        snprintf(to, FIGURE_BYTES, "%llu", (unsigned long long)row->figures.objects);
    else
        figure_rate(to, column == GROWTH ? row->figures.growth : row->figures.alloc, column == GROWTH);
}

static void thread_cell(char to[FIGURE_BYTES + 1], const struct top_row *row, int column)
{
    if (column == 3)
        snprintf(to, FIGURE_BYTES, "%.1f%%", 100 * row->cpu_share);
    else
        figure_rate(to, column == 0 ? row->figures.alloc : column == 1 ? (int64_t)row->free_rate : row->figures.growth, column == 2);
}

void top_line(struct text *text, const struct top *top, uint32_t i, size_t columns)
{
    static struct text what;
    const struct top_row *row = &top->rows[i];
    char cell[FIGURE_BYTES + 1];
    size_t used = 0;
    text_clear(text);
    for (int column = 0; column < N_COLUMNS; column++) {
        if (columns < columns_of[top->view][column].least_width)
            continue;
        (top->view == TOP_THREADS ? thread_cell : context_cell)(cell, row, column);
        add_right(text, cell, columns_of[top->view][column].columns);
    }
    used = text->n;
    text_clear(&what);
    if (top->view == TOP_THREADS)
        add_thread(&what, top, row);
    else
        add_context(&what, top, row);
    text_fit(&what, columns > used + 3 ? columns - used : 3);
    text_append(text, &what);
}
