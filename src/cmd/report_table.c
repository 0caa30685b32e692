/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts the samples, works out how wide columns must be and prints them. */
#include "report_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report_path.h"
#include "text.h"
#include "units.h"

#define MIN_PATH_COLUMNS 6
#define GAP 2 /* between columns */

struct row {
    int64_t values[PROFILE_N_VALUES];
    int64_t key; /* what is sorted by */
    uint32_t sample;
};

/* The cells before the path. */
enum { CELL_INUSE, CELL_SHARE, CELL_OBJECTS, CELL_ALLOCATED, N_CELLS };

struct cells {
    char text[N_CELLS][UNITS_BYTES];
};

struct table {
    const struct profile *profile;
    const struct report_options *options;
    struct row *rows;
    uint32_t n_rows, n_shown;
    struct row all, hidden; /* sums */
    int widths[N_CELLS];
};

static const struct cells heading = {{"IN USE", "SHARE", "OBJECTS", "ALLOCATED"}};

/* Of figures that are out of range together, the sum stays at the end of the range. */
static int64_t sum(int64_t a, int64_t b)
{
    int64_t result;
    return !__builtin_add_overflow(a, b, &result) ? result : a < 0 ? INT64_MIN : INT64_MAX;
}

static void add_row(struct row *to, const struct row *row)
{
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        to->values[i] = sum(to->values[i], row->values[i]);
    to->key = sum(to->key, row->key);
}

/* The largest first; among equals what allocated most, then the order in the file. */
static int by_key(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? 1 : -1;
    if (left->values[PROFILE_ALLOC_BYTES] != right->values[PROFILE_ALLOC_BYTES])
        return left->values[PROFILE_ALLOC_BYTES] < right->values[PROFILE_ALLOC_BYTES] ? 1 : -1;
    return (left->sample > right->sample) - (left->sample < right->sample);
}

static int read_rows(struct table *table)
{
    table->n_rows = table->profile->samples.n;
    table->rows = calloc(table->n_rows + (size_t)1, sizeof *table->rows);
    if (table->rows == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < table->n_rows; i++) {
        struct row *row = &table->rows[i];
        profile_values(table->profile, i, row->values);
        row->key = row->values[table->options->sort];
        row->sample = i;
        add_row(&table->all, row);
    }
    qsort(table->rows, table->n_rows, sizeof *table->rows, by_key);
    uint64_t top = table->options->top;
    table->n_shown = top == 0 || top > table->n_rows ? table->n_rows : (uint32_t)top;
    for (uint32_t i = table->n_shown; i < table->n_rows; i++)
        add_row(&table->hidden, &table->rows[i]);
    return 0;
}

static void format_row(const struct table *table, struct cells *cells, const struct row *row)
{
    units_bytes(cells->text[CELL_INUSE], row->values[PROFILE_INUSE_BYTES], table->options->exact);
    units_share(cells->text[CELL_SHARE], row->key, table->all.key);
    snprintf(cells->text[CELL_OBJECTS], UNITS_BYTES, "%" PRId64, row->values[PROFILE_INUSE_OBJECTS]);
    units_bytes(cells->text[CELL_ALLOCATED], row->values[PROFILE_ALLOC_BYTES], table->options->exact);
}

static void widen_cells(struct table *table, const struct cells *cells)
{
    for (int i = 0; i < N_CELLS; i++)
        if ((int)strlen(cells->text[i]) > table->widths[i])
            table->widths[i] = (int)strlen(cells->text[i]);
}

static void widen(struct table *table, const struct row *row)
{
    struct cells cells;
    format_row(table, &cells, row);
    widen_cells(table, &cells);
}

static void measure(struct table *table)
{
    widen_cells(table, &heading);
    widen(table, &table->all);
    widen(table, &table->hidden);
    for (uint32_t i = 0; i < table->n_shown; i++)
        widen(table, &table->rows[i]);
}

static size_t path_columns(const struct table *table)
{
    size_t used = 0;
    for (int i = 0; i < N_CELLS; i++)
        used += (size_t)table->widths[i] + GAP;
    return used + MIN_PATH_COLUMNS < table->options->columns ? table->options->columns - used : MIN_PATH_COLUMNS;
}

static void print_line(const struct table *table, const struct cells *cells, struct text *path)
{
    for (int i = 0; i < N_CELLS; i++)
        printf("%*s%*s", table->widths[i], cells->text[i], GAP, "");
    text_fit(path, path_columns(table));
    text_print(path);
    putchar('\n');
}

static void print_heading(const struct table *table, struct text *path)
{
    text_clear(path);
    text_add(path, "CONTEXT");
    fputs(table->options->bold ? "\033[1m" : "", stdout);
    print_line(table, &heading, path);
    fputs(table->options->bold ? "\033[0m" : "", stdout);
}

static void print_sum(const struct table *table, const struct row *row, struct text *path, const char *what)
{
    struct cells cells;
    format_row(table, &cells, row);
    text_clear(path);
    text_add(path, what);
    print_line(table, &cells, path);
}

static void print_rows(const struct table *table, struct text *path)
{
    char what[64];
    for (uint32_t i = 0; i < table->n_shown && !ferror(stdout); i++) {
        struct cells cells;
        format_row(table, &cells, &table->rows[i]);
        report_path(path, table->profile, table->rows[i].sample);
        print_line(table, &cells, path);
    }
    snprintf(what, sizeof what, "(%" PRIu32 " more)", table->n_rows - table->n_shown);
    if (table->n_shown < table->n_rows)
        print_sum(table, &table->hidden, path, what);
    snprintf(what, sizeof what, "total of %" PRIu32 " context%s", table->n_rows, table->n_rows == 1 ? "" : "s");
    print_sum(table, &table->all, path, what);
}

/* Program, time, how long it had run. */
static void print_title(const struct table *table, struct text *line)
{
    char when[64] = "", duration[UNITS_BYTES], rest[128];
    time_t seconds = (time_t)(table->profile->time_ns / 1000000000);
    struct tm broken_down;
    if (localtime_r(&seconds, &broken_down) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &broken_down);
    units_duration(duration, table->profile->duration_ns);
    snprintf(rest, sizeof rest, "  %s  after %s", when, duration);
    struct wire program = profile_program(table->profile);
    text_clear(line);
    text_add_wire(line, program, TEXT_MAX_CHARS / 2);
    if (program.at == program.end)
        text_add(line, "(unknown program)");
    text_fit(line, table->options->columns - strlen(rest));
    text_print(line);
    printf("%s\n", rest);
}

int report_table_print(const struct profile *profile, const struct report_options *options)
{
    struct table table = {.profile = profile, .options = options};
    struct text *line = malloc(sizeof *line);
    int error = line == NULL ? -ENOMEM : read_rows(&table);
    if (error == 0) {
        measure(&table);
        print_title(&table, line);
        print_heading(&table, line);
        print_rows(&table, line);
    }
    free(table.rows);
    free(line);
    return error;
}
