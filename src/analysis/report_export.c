/* SPDX-License-Identifier: BSD-2-Clause */
/* The table for other programs: JSON, CSV and Markdown. Figures of JSON and CSV are in bytes and nanoseconds. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct writer {
    const struct report_table *table;
    struct text *text;
    bool later; /* an item was written before */
};

/* --- Strings -------------------------------------------------------------------------------------------------------- */

/* Prints the text with a character before each one of `escaped`. For CSV this character is the quote itself. */
static void print_escaped(struct text *text, const char *escaped, char escape)
{
    for (size_t i = 0; i < text->n; i++) {
        bool special = text->chars[i] < 128 && strchr(escaped, (int)text->chars[i]);
        if (special)
            putchar(escape);
        text_print_char(text->chars[i]);
    }
}

static void print_csv_string(struct text *text)
{
    putchar('"');
    print_escaped(text, "\"", '"');
    putchar('"');
}

static void print_markdown_string(struct text *text)
{
    print_escaped(text, "|\\`*_<>[]#", '\\');
}

/* --- JSON ----------------------------------------------------------------------------------------------------------- */

static void print_json_values(const struct writer *w, const struct report_row *row, bool all)
{
    char cell[FIGURE_BYTES];
    bool later = false;
    for (int i = 0; i < w->table->n_columns; i++) {
        const struct report_column *column = w->table->columns[i];
        report_cell(w->table, cell, column, row, true);
        if (cell[0] != '\0' && (!all || report_column_has_sum(column, true))) {
            printf("%s\"%s\": %s", later ? ", " : "", report_column_name(column), cell);
            later = true;
        }
    }
}

static void print_json_text(const char *key, struct text *text)
{
    printf("\"%s\": ", key);
    text_print_as_json(text);
}

/* The names of the path, the outermost first, and labels. A label that comes several times is shown once: the nearest. */
static int print_json_path(const struct writer *w, const struct report_row *row)
{
    struct report_input *input = &w->table->inputs[row->input];
    JespanPprof__Sample *sample;
    int error = profile_sample(&input->profile, row->place.sample, &sample);
    if (error != 0)
        return error;
    fputs(", \"path\": [", stdout);
    for (size_t i = sample->n_location_id; i > row->place.frames; i--) {
        text_clear(w->text);
        report_add_name(w->text, input, sample->location_id[i - 1]);
        fputs(i < sample->n_location_id ? ", " : "", stdout);
        text_print_as_json(w->text);
    }
    fputs("], \"labels\": {", stdout);
    bool later = false;
    for (size_t i = row->place.labels; i < sample->n_label; i++) {
        bool repeated = false;
        for (size_t k = row->place.labels; k < i && !repeated; k++)
            repeated = report_string_hash(input, sample->label[k]->key) == report_string_hash(input, sample->label[i]->key);
        if (repeated)
            continue;
        fputs(later ? ", " : "", stdout);
        text_clear(w->text);
        report_add_string(w->text, &input->profile, sample->label[i]->key);
        text_print_as_json(w->text);
        fputs(": ", stdout);
        text_clear(w->text);
        report_add_label_value(w->text, &input->profile, sample->label[i]);
        text_print_as_json(w->text);
        later = true;
    }
    putchar('}');
    profile_sample_free(&input->profile, sample);
    return 0;
}

static int print_json_row(struct writer *w, const struct report_row *row)
{
    int error = report_row_text(w->table, w->text, row);
    if (error != 0)
        return error;
    fputs(w->later ? ",\n    {" : "\n    {", stdout);
    w->later = true;
    print_json_text(w->table->query->by ? "key" : "context", w->text);
    if (w->table->query->by)
        printf(", \"has_key\": %s", row->place.frames == REPORT_NONE ? "false" : "true");
    else
        error = print_json_path(w, row);
    if (w->table->options->tree)
        printf(", \"depth\": %" PRIu32, row->depth);
    fputs(", ", stdout);
    print_json_values(w, row, false);
    putchar('}');
    return error;
}

static void print_json_input(const struct writer *w, uint32_t i)
{
    const struct profile *profile = &w->table->inputs[i].profile;
    ProtobufCBinaryData program = profile_program(profile);
    text_clear(w->text);
    text_add_bytes(w->text, program.data, program.len, TEXT_MAX_CHARS);
    putchar('{');
    print_json_text("program", w->text);
    text_clear(w->text);
    text_add_bytes(w->text, w->table->inputs[i].name, strlen(w->table->inputs[i].name), TEXT_MAX_CHARS);
    fputs(", ", stdout);
    print_json_text("input", w->text);
    printf(", \"time_unix_ns\": %" PRId64 ", \"duration_ns\": %" PRId64 ", \"comments\": [", profile->parts->time_nanos,
           profile->parts->duration_nanos);
    for (size_t k = 0; k < profile->parts->n_comment; k++) {
        ProtobufCBinaryData comment = profile_string(profile, profile->parts->comment[k]);
        text_clear(w->text);
        text_add_bytes(w->text, comment.data, comment.len, TEXT_MAX_CHARS);
        fputs(k > 0 ? ", " : "", stdout);
        text_print_as_json(w->text);
    }
    fputs("]}", stdout);
}

static int print_json(struct writer *w)
{
    const struct report_table *table = w->table;
    int error = 0;
    printf("{\n  \"kind\": \"%s\",\n  \"profiles\": [", table->kind == PROFILE_HEAP ? "heap" : "time");
    for (uint32_t i = 0; i < table->n_inputs; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        print_json_input(w, i);
    }
    putchar(']');
    for (int s = 0; s < table->n_sections && error == 0; s++) {
        const struct report_section *section = &table->sections[s];
        printf(",\n  \"%s\": [", section->word ? section->word : "rows");
        w->later = false;
        for (uint32_t i = 0; i < section->n_shown && error == 0 && !ferror(stdout); i++)
            error = print_json_row(w, &table->rows.items[section->first + i]);
        printf("\n  ]");
    }
    printf(",\n  \"n_rows\": %" PRIu32 ",\n  \"total\": {", report_rows_count(&table->rows));
    print_json_values(w, &table->rows.all, true);
    fputs("}\n}\n", stdout);
    return error;
}

/* --- CSV and Markdown ------------------------------------------------------------------------------------------------- */

static int print_csv(struct writer *w)
{
    const struct report_table *table = w->table;
    char cell[FIGURE_BYTES];
    int error = 0;
    for (int i = 0; i < table->n_columns; i++)
        printf("%s,", report_column_name(table->columns[i]));
    puts(table->query->by ? "key" : "context");
    for (int s = 0; s < table->n_sections; s++) {
        const struct report_section *section = &table->sections[s];
        for (uint32_t row = 0; row < section->n_shown && error == 0 && !ferror(stdout); row++) {
            for (int i = 0; i < table->n_columns; i++) {
                report_cell(table, cell, table->columns[i], &table->rows.items[section->first + row], true);
                printf("%s,", cell);
            }
            error = report_row_text(table, w->text, &table->rows.items[section->first + row]);
            if (error == 0)
                print_csv_string(w->text);
            puts("");
        }
    }
    return error;
}

static void print_markdown_cells(const struct writer *w, const struct report_row *row)
{
    char cell[FIGURE_BYTES];
    putchar('|');
    for (int i = 0; i < w->table->n_columns; i++) {
        report_cell(w->table, cell, w->table->columns[i], row, w->table->options->exact);
        printf(" %s |", cell);
    }
}

/* Cells are empty where the rows have no sum. */
static void print_markdown_sum(const struct writer *w, const struct report_row *sum)
{
    char cell[FIGURE_BYTES];
    putchar('|');
    for (int i = 0; i < w->table->n_columns; i++) {
        report_cell(w->table, cell, w->table->columns[i], sum, w->table->options->exact);
        printf(" %s |", report_table_has_sum(w->table, w->table->columns[i], sum) ? cell : "");
    }
}

static int print_markdown(struct writer *w)
{
    const struct report_table *table = w->table;
    const char *heading = report_heading(table);
    int error = 0;
    for (int s = 0; s < table->n_sections; s++) {
        const struct report_section *section = &table->sections[s];
        if (section->word)
            printf("%s**%s**\n\n", s > 0 ? "\n" : "", section->word);
        text_clear(w->text);
        text_add_bytes(w->text, heading, strlen(heading), TEXT_MAX_CHARS);
        putchar('|');
        for (int i = 0; i < table->n_columns; i++)
            printf(" %s |", report_column_heading(table->columns[i]));
        putchar(' ');
        print_markdown_string(w->text);
        fputs(" |\n|", stdout);
        for (int i = 0; i < table->n_columns; i++)
            fputs("---:|", stdout);
        puts("---|");
        for (uint32_t i = 0; i < section->n_shown && error == 0 && !ferror(stdout); i++) {
            const struct report_row *row = &table->rows.items[section->first + i];
            print_markdown_cells(w, row);
            error = report_row_text(table, w->text, row);
            putchar(' ');
            for (uint32_t k = 0; table->options->tree && k < row->depth; k++)
                fputs("&ensp;", stdout);
            print_markdown_string(w->text);
            puts(" |");
        }
        if (section->n_shown < section->n && error == 0) {
            print_markdown_sum(w, &section->hidden);
            printf(" (%" PRIu32 " more) |\n", section->n - section->n_shown);
        }
    }
    fputs(table->n_sections == 2 ? "\n" : "", stdout);
    print_markdown_sum(w, &table->rows.all);
    printf(" **total of %" PRIu32 "** |\n", report_rows_count(&table->rows));
    return error;
}

int report_print_export(struct report_table *table)
{
    struct writer w = {.table = table, .text = text_new()};
    int error = !w.text                                   ? -ENOMEM
                : table->options->format == REPORT_JSON ? print_json(&w)
                : table->options->format == REPORT_CSV  ? print_csv(&w)
                                                          : print_markdown(&w);
    free(w.text);
    return error;
}
