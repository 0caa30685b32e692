/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts the samples, works out how wide columns must be and prints them. */
#include "report_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report_kind.h"
#include "report_names.h"
#include "report_path.h"
#include "report_rows.h"
#include "text.h"
#include "units.h"

#define MIN_PATH_COLUMNS 6
#define GAP 2 /* between columns */

struct cells {
    char text[REPORT_MAX_CELLS][UNITS_BYTES];
};

struct table {
    const struct profile *profile;
    const struct report_kind *kind;
    const struct report_options *options;
    struct report_rows rows;
    struct report_names names;
    uint32_t n_shown;
    struct report_row hidden; /* the sum of the others */
    int n_cells, widths[REPORT_MAX_CELLS];
};

/* The largest first; qsort() knows of no other argument. */
static int next_value;

/* Among equals another value decides, then the order in the file, from the outside inwards. */
static int by_key(const void *a, const void *b)
{
    const struct report_row *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? 1 : -1;
    if (left->values[next_value] != right->values[next_value])
        return left->values[next_value] < right->values[next_value] ? 1 : -1;
    if (left->place.sample != right->place.sample)
        return left->place.sample < right->place.sample ? -1 : 1;
    return (left->place.frames < right->place.frames) - (left->place.frames > right->place.frames);
}

static void set_key(const struct table *table, struct report_row *row)
{
    row->key = row->values[table->options->sort];
}

static int read_rows(struct table *table)
{
    struct report_rows *rows = &table->rows;
    int error = table->options->inclusive ? report_rows_read_inclusive(rows, table->profile, table->kind->own)
                                          : report_rows_read(rows, table->profile);
    if (error != 0)
        return error;
    for (uint32_t i = 0; i < rows->n; i++)
        set_key(table, &rows->items[i]);
    next_value = table->kind->next;
    if (rows->n > 0)
        qsort(rows->items, rows->n, sizeof *rows->items, by_key);
    uint64_t top = table->options->top;
    table->n_shown = top == 0 || top > rows->n ? rows->n : (uint32_t)top;
    for (uint32_t i = table->n_shown; i < rows->n; i++)
        report_row_add(&table->hidden, rows->items[i].values, -1);
    set_key(table, &table->hidden);
    set_key(table, &rows->all);
    return 0;
}

static void format_cell(const struct table *table, char *to, const struct report_column *column,
                        const struct report_row *row)
{
    int64_t value = row->values[column->value], opens = row->values[PROFILE_OPENS];
    switch (column->unit) {
    case REPORT_COUNT:
        snprintf(to, UNITS_BYTES, "%" PRId64, value);
        break;
    case REPORT_BYTES:
        units_bytes(to, value, table->options->exact);
        break;
    case REPORT_TIME:
        units_time(to, value, table->options->exact);
        break;
    case REPORT_SHARE:
        units_share(to, row->key, table->rows.all.key);
        break;
    case REPORT_MEAN:
        if (opens > 0)
            units_time(to, row->values[PROFILE_WALL] / opens, table->options->exact);
        break;
    }
}

static void format_row(const struct table *table, struct cells *cells, const struct report_row *row)
{
    memset(cells, 0, sizeof *cells);
    for (int i = 0; i < table->n_cells; i++)
        format_cell(table, cells->text[i], &table->kind->columns[i], row);
}

/* Of sums there is no mean; and contexts that include each other have no sum, unless they are all there are. */
static void format_sum(const struct table *table, struct cells *cells, const struct report_row *row)
{
    bool has_sum = !table->options->inclusive || row == &table->rows.all;
    format_row(table, cells, row);
    for (int i = 0; i < table->n_cells; i++)
        if (!has_sum || table->kind->columns[i].unit == REPORT_MEAN)
            cells->text[i][0] = '\0';
}

static void format_heading(const struct table *table, struct cells *cells)
{
    memset(cells, 0, sizeof *cells);
    for (int i = 0; i < table->n_cells; i++)
        snprintf(cells->text[i], UNITS_BYTES, "%s", table->kind->columns[i].heading);
}

static void widen(struct table *table, const struct cells *cells)
{
    for (int i = 0; i < table->n_cells; i++)
        if (units_columns(cells->text[i]) > table->widths[i])
            table->widths[i] = units_columns(cells->text[i]);
}

static void measure(struct table *table)
{
    struct cells cells;
    format_heading(table, &cells);
    widen(table, &cells);
    format_sum(table, &cells, &table->rows.all);
    widen(table, &cells);
    format_sum(table, &cells, &table->hidden);
    widen(table, &cells);
    for (uint32_t i = 0; i < table->n_shown; i++) {
        format_row(table, &cells, &table->rows.items[i]);
        widen(table, &cells);
    }
}

static size_t path_columns(const struct table *table)
{
    size_t used = 0;
    for (int i = 0; i < table->n_cells; i++)
        used += (size_t)table->widths[i] + GAP;
    return used + MIN_PATH_COLUMNS < table->options->columns ? table->options->columns - used : MIN_PATH_COLUMNS;
}

static void print_line(const struct table *table, const struct cells *cells, struct text *path)
{
    for (int i = 0; i < table->n_cells; i++)
        printf("%*s%s%*s", table->widths[i] - units_columns(cells->text[i]), "", cells->text[i], GAP, "");
    text_fit(path, path_columns(table));
    text_print(path);
    putchar('\n');
}

static void print_heading(const struct table *table, struct text *path)
{
    struct cells heading;
    format_heading(table, &heading);
    text_clear(path);
    text_add(path, "CONTEXT");
    fputs(table->options->bold ? "\033[1m" : "", stdout);
    print_line(table, &heading, path);
    fputs(table->options->bold ? "\033[0m" : "", stdout);
}

static void print_sum(const struct table *table, const struct report_row *row, struct text *path, const char *what)
{
    struct cells cells;
    format_sum(table, &cells, row);
    text_clear(path);
    text_add(path, what);
    print_line(table, &cells, path);
}

static void print_rows(const struct table *table, struct text *path)
{
    char what[64];
    for (uint32_t i = 0; i < table->n_shown && !ferror(stdout); i++) {
        struct cells cells;
        format_row(table, &cells, &table->rows.items[i]);
        report_path(path, table->profile, &table->names, &table->rows.items[i].place);
        print_line(table, &cells, path);
    }
    snprintf(what, sizeof what, "(%" PRIu32 " more)", table->rows.n - table->n_shown);
    if (table->n_shown < table->rows.n)
        print_sum(table, &table->hidden, path, what);
    snprintf(what, sizeof what, "total of %" PRIu32 " context%s", table->rows.n, table->rows.n == 1 ? "" : "s");
    print_sum(table, &table->rows.all, path, what);
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
    struct table table = {.profile = profile, .kind = &report_kinds[profile->kind], .options = options};
    struct text *line = malloc(sizeof *line);
    while (table.n_cells < REPORT_MAX_CELLS && table.kind->columns[table.n_cells].heading != NULL)
        table.n_cells++;
    int error = line == NULL ? -ENOMEM : read_rows(&table);
    if (error == 0)
        error = report_names_read(&table.names, profile);
    if (error == 0) {
        measure(&table);
        print_title(&table, line);
        print_heading(&table, line);
        print_rows(&table, line);
    }
    report_names_free(&table.names);
    report_rows_free(&table.rows);
    free(line);
    return error;
}
