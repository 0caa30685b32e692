/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts rows, finds out how wide the columns must be, and prints the table. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/comments.h"
#include "report.h"

#define MIN_PATH_COLUMNS 6
#define GAP 2 /* between columns */

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

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

/* The most negative first. */
static int by_loss(const void *a, const void *b)
{
    const struct report_row *left = a, *right = b;
    return left->key != right->key ? (left->key > right->key) - (left->key < right->key) : by_key(a, b);
}

static uint64_t magnitude(int64_t key)
{
    return key < 0 ? 0 - (uint64_t)key : (uint64_t)key;
}

uint32_t report_n_shown(const struct report_options *options, const struct report_row *rows, uint32_t n)
{
    uint32_t shown = options->top == 0 || options->top > n ? n : (uint32_t)options->top;
    while (shown > 0 && magnitude(rows[shown - 1].key) < options->min_bytes)
        shown--;
    return shown;
}

/* A tree's rows are found again by their number after they were sorted. */
static int sort_rows(struct report_table *table)
{
    struct report_rows *rows = &table->rows;
    for (uint32_t i = 0; i < rows->n; i++) {
        rows->items[i].key = report_sort_value(table, &rows->items[i]);
        rows->items[i].last = i;
    }
    rows->all.key = report_sort_value(table, &rows->all);
    next_value = report_next_value(table->kind);
    if (rows->n > 0)
        qsort(rows->items, rows->n, sizeof *rows->items, by_key);
    return table->options->tree ? report_tree_order(rows, table->options) : 0;
}

static void add_section(struct report_table *table, const char *word, uint32_t first, uint32_t n)
{
    struct report_section *section = &table->sections[table->n_sections++];
    uint32_t shown = table->options->tree ? n : report_n_shown(table->options, &table->rows.items[first], n);
    *section = (struct report_section){.word = word, .first = first, .n = n + table->rows.n_left_out,
                                       .n_shown = shown, .hidden = table->rows.left_out};
    for (uint32_t i = section->n_shown; i < n; i++) {
        const struct report_row *row = &table->rows.items[first + i];
        report_row_add(&section->hidden, row->values, -1);
        section->hidden.peaks[PROFILE_AT_PEAK] = report_sum(section->hidden.peaks[PROFILE_AT_PEAK], row->peaks[PROFILE_AT_PEAK]);
    }
    section->hidden.key = report_sort_value(table, &section->hidden);
}

/* A difference has two sections. Rows without a change of the value are left out. */
static void add_sections(struct report_table *table)
{
    struct report_rows *rows = &table->rows;
    uint32_t grown = 0, shrunk = 0;
    if (table->n_inputs == 1) {
        add_section(table, NULL, 0, rows->n);
        return;
    }
    while (grown < rows->n && rows->items[grown].key > 0)
        grown++;
    while (shrunk < rows->n - grown && rows->items[rows->n - 1 - shrunk].key < 0)
        shrunk++;
    if (shrunk > 0)
        qsort(rows->items + (rows->n - shrunk), shrunk, sizeof *rows->items, by_loss);
    add_section(table, "grown", 0, grown);
    add_section(table, "shrunk", rows->n - shrunk, shrunk);
}

static int read_rows(struct report_table *table)
{
    int own = report_own_value(table->kind);
    struct report_rows before, after;
    if (table->n_inputs == 1)
        return report_top_read(table);
    int error = report_rows_read(&before, &table->inputs[0], table->query, own);
    memset(&after, 0, sizeof after);
    if (error == 0)
        error = report_rows_read(&after, &table->inputs[1], table->query, own);
    if (error == 0)
        error = report_diff(&table->rows, &before, &after);
    report_rows_free(&before);
    report_rows_free(&after);
    return error;
}

static const char *describe(int error, const struct report_options *options)
{
    switch (error) {
    case 0:
        return NULL;
    case -E2BIG:
        return options->format == REPORT_SVG ? "too many contexts for --svg"
             : options->tree                 ? "too many contexts for --tree"
                                             : "too many contexts for --inclusive";
    case -EBADMSG:
        return "not a pprof profile";
    default:
        return "out of memory";
    }
}

const char *report_print(struct report_input *inputs, uint32_t n_inputs, const struct report_query *query,
                         const struct report_options *options)
{
    struct report_table table = {.inputs = inputs, .n_inputs = n_inputs, .options = options, .query = query};
    table.kind = inputs[0].profile.kind;
    if (n_inputs == 2) {
        if (inputs[1].profile.kind != table.kind)
            return "a heap profile and a time profile cannot be compared";
        int64_t ns = report_difference(inputs[1].profile.parts->time_nanos, inputs[0].profile.parts->time_nanos);
        table.minutes = ns > 0 ? (double)ns / 60e9 : 0;
    }
    const char *reason = report_columns_find(&table);
    int error = reason ? 0 : read_rows(&table);
    if (!reason && error == 0)
        error = sort_rows(&table);
    if (!reason && error == 0) {
        add_sections(&table);
        reason = options->format == REPORT_SVG ? report_svg_refuses(&table) : NULL;
        error = reason ? 0 : report_top_keep(&table);
    }
    if (!reason && error == 0) {
        error = options->format == REPORT_TEXT     ? report_print_text(&table)
                : options->format == REPORT_SVG    ? report_print_svg(&table)
                : options->format == REPORT_FOLDED ? report_print_folded(&table)
                                                   : report_print_export(&table);
    }
    report_rows_free(&table.rows);
    return reason ? reason : describe(error, options);
}

/* --- Texts ---------------------------------------------------------------------------------------------------------- */

const char *report_heading(const struct report_table *table)
{
    const struct report_by *by = table->query->by;
    return !by ? "CONTEXT" : by->heading ? by->heading : table->query->argument;
}

static int tree_text(const struct report_table *table, struct text *text, const struct report_row *row,
                     const JespanPprof__Sample *sample)
{
    struct report_input *input = &table->inputs[row->input];
    JespanPprof__Sample *parent;
    if (row->parent == REPORT_NONE) {
        report_path(text, input, sample, &row->place);
        return 0;
    }
    const struct report_place *place = &table->rows.items[row->parent].place;
    int error = profile_sample(&input->profile, place->sample, &parent);
    if (error != 0)
        return error;
    struct report_place above = {0, (uint32_t)parent->n_location_id - place->frames, (uint32_t)parent->n_label - place->labels};
    report_path_end(text, input, sample, &row->place, &above);
    profile_sample_free(&input->profile, parent);
    return 0;
}

int report_row_text(const struct report_table *table, struct text *text, const struct report_row *row)
{
    struct report_input *input = &table->inputs[row->input];
    const struct report_by *by = table->query->by;
    JespanPprof__Sample *sample;
    int error = profile_sample(&input->profile, row->place.sample, &sample);
    text_clear(text);
    if (error != 0)
        return error;
    if (!by && table->options->tree)
        error = tree_text(table, text, row, sample);
    else if (!by)
        report_path(text, input, sample, &row->place);
    else if (row->place.frames == REPORT_NONE)
        text_add(text, by->none);
    else
        by->text(text, input, sample, row->place.frames);
    profile_sample_free(&input->profile, sample);
    return error;
}

void report_title(const struct report_table *table, uint32_t input, char *when, size_t when_bytes, char *duration)
{
    const struct profile *profile = &table->inputs[input].profile;
    time_t seconds = (time_t)(profile->parts->time_nanos / 1000000000);
    struct tm broken_down;
    when[0] = '\0';
    if (localtime_r(&seconds, &broken_down))
        strftime(when, when_bytes, "%Y-%m-%d %H:%M:%S %z", &broken_down);
    figure_duration(duration, profile->parts->duration_nanos);
}

/* --- The table for people ---------------------------------------------------------------------------------------------- */

struct cells {
    char text[REPORT_MAX_CELLS][FIGURE_BYTES];
};

struct printer {
    const struct report_table *table;
    struct text *line;
    int widths[REPORT_MAX_CELLS];
};

static void format_row(const struct report_table *table, struct cells *cells, const struct report_row *row)
{
    for (int i = 0; i < table->n_columns; i++)
        report_cell(table, cells->text[i], table->columns[i], row, table->options->exact);
}

bool report_table_has_sum(const struct report_table *table, const struct report_column *column, const struct report_row *sum)
{
    bool all = sum == &table->rows.all;
    return (all || !table->query->inclusive) && report_column_has_sum(column, all);
}

static void format_sum(const struct report_table *table, struct cells *cells, const struct report_row *row)
{
    format_row(table, cells, row);
    for (int i = 0; i < table->n_columns; i++)
        if (!report_table_has_sum(table, table->columns[i], row))
            cells->text[i][0] = '\0';
}

static void format_heading(const struct report_table *table, struct cells *cells)
{
    for (int i = 0; i < table->n_columns; i++)
        snprintf(cells->text[i], FIGURE_BYTES, "%s", report_column_heading(table->columns[i]));
}

static void widen(struct printer *p, const struct cells *cells)
{
    for (int i = 0; i < p->table->n_columns; i++)
        if (figure_columns(cells->text[i]) > p->widths[i])
            p->widths[i] = figure_columns(cells->text[i]);
}

static void measure(struct printer *p)
{
    const struct report_table *table = p->table;
    struct cells cells;
    format_heading(table, &cells);
    widen(p, &cells);
    format_sum(table, &cells, &table->rows.all);
    widen(p, &cells);
    for (int s = 0; s < table->n_sections; s++) {
        const struct report_section *section = &table->sections[s];
        format_sum(table, &cells, &section->hidden);
        widen(p, &cells);
        for (uint32_t i = 0; i < section->n_shown; i++) {
            format_row(table, &cells, &table->rows.items[section->first + i]);
            widen(p, &cells);
        }
    }
}

static size_t path_columns(const struct printer *p, size_t indent)
{
    size_t used = indent;
    for (int i = 0; i < p->table->n_columns; i++)
        used += (size_t)p->widths[i] + GAP;
    return used + MIN_PATH_COLUMNS < p->table->options->columns ? p->table->options->columns - used : MIN_PATH_COLUMNS;
}

/* Growth is red, and loss green. */
static const char *colour_of(const struct report_table *table, int column, const char *cell)
{
    if (!table->options->bold || !report_column_is_change(table->columns[column]))
        return NULL;
    return cell[0] == '-' ? "\033[32m" : cell[0] == '+' ? "\033[31m" : NULL;
}

static size_t indent_columns(const struct printer *p, uint32_t depth)
{
    size_t most = path_columns(p, 0) / 2;
    return 2 * (size_t)depth < most ? 2 * (size_t)depth : most;
}

static void print_line(const struct printer *p, const struct cells *cells, uint32_t depth)
{
    size_t indent = indent_columns(p, depth);
    for (int i = 0; i < p->table->n_columns; i++) {
        const char *colour = colour_of(p->table, i, cells->text[i]);
        printf("%*s%s%s%s%*s", p->widths[i] - figure_columns(cells->text[i]), "", colour ? colour : "", cells->text[i],
               colour ? "\033[0m" : "", GAP, "");
    }
    printf("%*s", (int)indent, "");
    text_fit(p->line, path_columns(p, indent));
    text_print(p->line);
    putchar('\n');
}

static void print_heading(const struct printer *p)
{
    struct cells heading;
    const char *last = report_heading(p->table);
    format_heading(p->table, &heading);
    text_clear(p->line);
    text_add_bytes(p->line, last, strlen(last), TEXT_MAX_CHARS);
    fputs(p->table->options->bold ? "\033[1m" : "", stdout);
    print_line(p, &heading, 0);
    fputs(p->table->options->bold ? "\033[0m" : "", stdout);
}

static void print_sum(const struct printer *p, const struct report_row *row, const char *what)
{
    struct cells cells;
    format_sum(p->table, &cells, row);
    text_clear(p->line);
    text_add(p->line, what);
    print_line(p, &cells, 0);
}

static const char *what_rows_are(const struct report_table *table)
{
    return table->query->by ? "row" : "context";
}

/* Where there is no room, names lose their parameters before the path loses its middle. */
static int write_path(const struct printer *p, const struct report_row *row, uint32_t depth)
{
    int error = report_row_text(p->table, p->line, row);
    if (error != 0 || text_fits(p->line, path_columns(p, indent_columns(p, depth))))
        return error;
    p->line->has_short_names = true;
    error = report_row_text(p->table, p->line, row);
    p->line->has_short_names = false;
    return error;
}

static int print_section(const struct printer *p, const struct report_section *section)
{
    const struct report_table *table = p->table;
    char what[64];
    for (uint32_t i = 0; i < section->n_shown && !ferror(stdout); i++) {
        const struct report_row *row = &table->rows.items[section->first + i];
        struct cells cells;
        uint32_t depth = table->options->tree ? row->depth : 0;
        format_row(table, &cells, row);
        int error = write_path(p, row, depth);
        if (error != 0)
            return error;
        print_line(p, &cells, depth);
    }
    snprintf(what, sizeof what, "(%" PRIu32 " more)", section->n - section->n_shown);
    if (section->n_shown < section->n)
        print_sum(p, &section->hidden, what);
    return 0;
}

/* "  resident 1.5 MiB", or nothing where it is not known. */
static void resident_text(const struct printer *p, uint32_t input, char *to, size_t bytes)
{
    char comment[FIGURE_BYTES], figure[FIGURE_BYTES];
    if (!report_find_comment(&p->table->inputs[input], COMMENT_RESIDENT, comment, sizeof comment))
        return;
    figure_bytes(figure, strtoll(comment, NULL, 10), p->table->options->exact);
    snprintf(to, bytes, "  resident %s", figure);
}

static void print_title(const struct printer *p, uint32_t input)
{
    char when[64], duration[FIGURE_BYTES], resident[2 * FIGURE_BYTES] = "", rest[192];
    report_title(p->table, input, when, sizeof when, duration);
    resident_text(p, input, resident, sizeof resident);
    snprintf(rest, sizeof rest, "  %s  after %s%s", when, duration, resident);
    ProtobufCBinaryData program = profile_program(&p->table->inputs[input].profile);
    text_clear(p->line);
    text_add_bytes(p->line, program.data, program.len, TEXT_MAX_CHARS / 2);
    if (program.len == 0)
        text_add(p->line, "(unknown program)");
    text_fit(p->line, p->table->options->columns - strlen(rest));
    text_print(p->line);
    printf("%s\n", rest);
}

/* "3 contexts have grown" */
static void print_section_title(const struct printer *p, const struct report_section *section)
{
    bool one = section->n == 1;
    printf("\n%" PRIu32 " %s%s %s %s\n", section->n, what_rows_are(p->table), one ? "" : "s", one ? "has" : "have", section->word);
    if (section->n > 0)
        print_heading(p);
}

int report_print_text(struct report_table *table)
{
    struct printer p = {.table = table, .line = text_new()};
    uint32_t n = report_rows_count(&table->rows);
    char what[64];
    int error = p.line ? 0 : -ENOMEM;
    if (error != 0)
        return error;
    measure(&p);
    for (uint32_t i = 0; i < table->n_inputs; i++)
        print_title(&p, i);
    for (int s = 0; s < table->n_sections && error == 0; s++) {
        if (table->sections[s].word)
            print_section_title(&p, &table->sections[s]);
        else
            print_heading(&p);
        error = print_section(&p, &table->sections[s]);
    }
    if (table->n_sections == 2)
        putchar('\n');
    snprintf(what, sizeof what, "total of %" PRIu32 " %s%s", n, what_rows_are(table), n == 1 ? "" : "s");
    if (error == 0)
        print_sum(&p, &table->rows.all, what);
    free(p.line);
    return error;
}
