/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts rows, finds out how wide the columns must be, and prints the table. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"

#define MIN_PATH_COLUMNS 6
#define GAP 2 /* between columns */
#define MAX_CELLS 6 /* before the path */

/* --- What is shown of each kind of profile ------------------------------------------------------------------------------ */

enum unit {
    UNIT_COUNT,
    UNIT_BYTES,
    UNIT_TIME,
    UNIT_SHARE, /* of the value that rows are sorted by */
    UNIT_MEAN,  /* wall time for each open */
};

struct column {
    const char *heading; /* NULL ends the columns */
    enum unit unit;
    int value; /* of a sample */
};

struct sort {
    const char *word; /* NULL ends the words */
    int value;
};

static const struct kind {
    struct column columns[MAX_CELLS + 1];
    struct sort sorts[PROFILE_N_VALUES + 1]; /* the first is the default */
    int next; /* decides between rows that are equal in the value that they are sorted by */
    int own;  /* a context keeps its own of this value when others include those below them; -1 = none */
} kinds[PROFILE_N_KINDS] = {
    [PROFILE_HEAP] = {
        .columns = {{"IN USE", UNIT_BYTES, PROFILE_INUSE_BYTES},
                    {"SHARE", UNIT_SHARE, 0},
                    {"OBJECTS", UNIT_COUNT, PROFILE_INUSE_OBJECTS},
                    {"ALLOCATED", UNIT_BYTES, PROFILE_ALLOC_BYTES}},
        .sorts = {{"inuse", PROFILE_INUSE_BYTES}, {"alloc", PROFILE_ALLOC_BYTES}, {"objects", PROFILE_INUSE_OBJECTS}},
        .next = PROFILE_ALLOC_BYTES,
        .own = -1,
    },
    [PROFILE_TIME] = {
        .columns = {{"CPU", UNIT_TIME, PROFILE_CPU},
                    {"SHARE", UNIT_SHARE, 0},
                    {"BUSY", UNIT_TIME, PROFILE_BUSY},
                    {"WALL", UNIT_TIME, PROFILE_WALL},
                    {"OPENS", UNIT_COUNT, PROFILE_OPENS},
                    {"MEAN", UNIT_MEAN, 0}},
        .sorts = {{"cpu", PROFILE_CPU}, {"busy", PROFILE_BUSY}, {"wall", PROFILE_WALL}, {"opens", PROFILE_OPENS}},
        .next = PROFILE_BUSY,
        .own = PROFILE_OPENS,
    },
};

int report_sort(enum profile_kind kind, const char *word)
{
    if (!word)
        return kinds[kind].sorts[0].value;
    for (const struct sort *sort = kinds[kind].sorts; sort->word; sort++)
        if (strcmp(word, sort->word) == 0)
            return sort->value;
    return -1;
}

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

struct cells {
    char text[MAX_CELLS][FIGURE_BYTES];
};

struct table {
    struct profile *profile;
    const struct kind *kind;
    const struct report_options *options;
    struct report_rows rows;
    struct report_names names;
    uint32_t n_shown;
    struct report_row hidden; /* the sum of the rows that are not shown */
    int n_cells, widths[MAX_CELLS];
};

/* For by_key(), since qsort() passes no other argument. */
static int next_value;

/* The largest first. Between equal rows another value decides, then the order in the file, then the outer one comes first. */
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

static void format_cell(const struct table *table, char *to, const struct column *column,
                        const struct report_row *row)
{
    int64_t value = row->values[column->value], opens = row->values[PROFILE_OPENS];
    switch (column->unit) {
    case UNIT_COUNT:
        snprintf(to, FIGURE_BYTES, "%" PRId64, value);
        break;
    case UNIT_BYTES:
        figure_bytes(to, value, table->options->exact);
        break;
    case UNIT_TIME:
        figure_time(to, value, table->options->exact);
        break;
    case UNIT_SHARE:
        figure_share(to, row->key, table->rows.all.key);
        break;
    case UNIT_MEAN:
        if (opens > 0)
            figure_time(to, row->values[PROFILE_WALL] / opens, table->options->exact);
        break;
    }
}

static void format_row(const struct table *table, struct cells *cells, const struct report_row *row)
{
    memset(cells, 0, sizeof *cells);
    for (int i = 0; i < table->n_cells; i++)
        format_cell(table, cells->text[i], &table->kind->columns[i], row);
}

/* A sum has no mean. Contexts that include each other have no sum, except that of all samples. */
static void format_sum(const struct table *table, struct cells *cells, const struct report_row *row)
{
    bool has_sum = !table->options->inclusive || row == &table->rows.all;
    format_row(table, cells, row);
    for (int i = 0; i < table->n_cells; i++)
        if (!has_sum || table->kind->columns[i].unit == UNIT_MEAN)
            cells->text[i][0] = '\0';
}

static void format_heading(const struct table *table, struct cells *cells)
{
    memset(cells, 0, sizeof *cells);
    for (int i = 0; i < table->n_cells; i++)
        snprintf(cells->text[i], FIGURE_BYTES, "%s", table->kind->columns[i].heading);
}

static void widen(struct table *table, const struct cells *cells)
{
    for (int i = 0; i < table->n_cells; i++)
        if (figure_columns(cells->text[i]) > table->widths[i])
            table->widths[i] = figure_columns(cells->text[i]);
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
        printf("%*s%s%*s", table->widths[i] - figure_columns(cells->text[i]), "", cells->text[i], GAP, "");
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

static int print_rows(const struct table *table, struct text *path)
{
    char what[64];
    for (uint32_t i = 0; i < table->n_shown && !ferror(stdout); i++) {
        struct cells cells;
        format_row(table, &cells, &table->rows.items[i]);
        int error = report_path(path, table->profile, &table->names, &table->rows.items[i].place);
        if (error != 0)
            return error;
        print_line(table, &cells, path);
    }
    snprintf(what, sizeof what, "(%" PRIu32 " more)", table->rows.n - table->n_shown);
    if (table->n_shown < table->rows.n)
        print_sum(table, &table->hidden, path, what);
    snprintf(what, sizeof what, "total of %" PRIu32 " context%s", table->rows.n, table->rows.n == 1 ? "" : "s");
    print_sum(table, &table->rows.all, path, what);
    return 0;
}

/* The program, the time of the profile, and how long the program had run. */
static void print_title(const struct table *table, struct text *line)
{
    char when[64] = "", duration[FIGURE_BYTES], rest[128];
    time_t seconds = (time_t)(table->profile->parts->time_nanos / 1000000000);
    struct tm broken_down;
    if (localtime_r(&seconds, &broken_down))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &broken_down);
    figure_duration(duration, table->profile->parts->duration_nanos);
    snprintf(rest, sizeof rest, "  %s  after %s", when, duration);
    ProtobufCBinaryData program = profile_program(table->profile);
    text_clear(line);
    text_add_bytes(line, program.data, program.len, TEXT_MAX_CHARS / 2);
    if (program.len == 0)
        text_add(line, "(unknown program)");
    text_fit(line, table->options->columns - strlen(rest));
    text_print(line);
    printf("%s\n", rest);
}

int report_print(struct profile *profile, const struct report_options *options)
{
    struct table table = {.profile = profile, .kind = &kinds[profile->kind], .options = options};
    struct text *line = malloc(sizeof *line);
    while (table.n_cells < MAX_CELLS && table.kind->columns[table.n_cells].heading)
        table.n_cells++;
    int error = !line ? -ENOMEM : read_rows(&table);
    if (error == 0)
        error = report_names_read(&table.names, profile);
    if (error == 0) {
        measure(&table);
        print_title(&table, line);
        print_heading(&table, line);
        error = print_rows(&table, line);
    }
    report_names_free(&table.names);
    report_rows_free(&table.rows);
    free(line);
    return error;
}
