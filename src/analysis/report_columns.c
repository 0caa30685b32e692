/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of each kind of table. To add one, add a row to its kind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

#define MOST_WORD_BYTES 80 /* of a wrong word in an error */

enum unit {
    UNIT_COUNT,
    UNIT_BYTES,
    UNIT_TIME,
    UNIT_SHARE, /* of the value that rows are sorted by */
};

enum basis {
    OF_ROW,
    OF_SECOND, /* of the row alone; or before */
    OF_AFTER,
    LESS,       /* less the other value */
    EACH,       /* for each of the other value */
    LIFETIME,   /* the same, from µs to ns */
    OF_PEAK,    /* the highest; of the sum of all rows, the process's */
    AT_PEAK,
    PER_MINUTE, /* change */
};

struct report_column {
    const char *word; /* of --columns. NULL ends the columns */
    const char *heading, *name;
    enum unit unit;
    enum basis basis;
    int value, other; /* of a sample */
    bool shown;       /* unless --columns says otherwise */
};

static const struct report_column heap_columns[] = {
    {"inuse", "IN USE", "inuse_bytes", UNIT_BYTES, OF_ROW, PROFILE_INUSE_BYTES, 0, true},
    {"share", "SHARE", "share", UNIT_SHARE, OF_ROW, 0, 0, true},
    {"objects", "OBJECTS", "inuse_objects", UNIT_COUNT, OF_ROW, PROFILE_INUSE_OBJECTS, 0, true},
    {"alloc", "ALLOCATED", "alloc_bytes", UNIT_BYTES, OF_ROW, PROFILE_ALLOC_BYTES, 0, true},
    {"allocs", "ALLOCS", "alloc_objects", UNIT_COUNT, OF_ROW, PROFILE_ALLOC_OBJECTS, 0, false},
    {"freed", "FREED", "freed_bytes", UNIT_BYTES, LESS, PROFILE_ALLOC_BYTES, PROFILE_INUSE_BYTES, false},
    {"frees", "FREES", "freed_objects", UNIT_COUNT, LESS, PROFILE_ALLOC_OBJECTS, PROFILE_INUSE_OBJECTS, false},
    {"size", "SIZE", "mean_inuse_bytes", UNIT_BYTES, EACH, PROFILE_INUSE_BYTES, PROFILE_INUSE_OBJECTS, false},
    {"peak", "PEAK", "peak_bytes", UNIT_BYTES, OF_PEAK, 0, 0, false},
    {"atpeak", "AT PEAK", "at_peak_bytes", UNIT_BYTES, AT_PEAK, 0, 0, false},
    {"temporary", "TEMPORARY", "temporary_objects", UNIT_COUNT, OF_ROW, PROFILE_TEMPORARY, 0, false},
    {"lifetime", "LIFETIME", "mean_lifetime_ns", UNIT_TIME, LIFETIME, PROFILE_LIFETIMES, PROFILE_ALLOC_OBJECTS, false},
    {NULL},
};

static const struct report_column heap_tree_columns[] = {
    {"inuse", "IN USE", "inuse_bytes", UNIT_BYTES, OF_ROW, PROFILE_INUSE_BYTES, 0, true},
    {"share", "SHARE", "share", UNIT_SHARE, OF_ROW, 0, 0, true},
    {"own", "OWN", "own_inuse_bytes", UNIT_BYTES, OF_SECOND, PROFILE_INUSE_BYTES, 0, true},
    {"objects", "OBJECTS", "inuse_objects", UNIT_COUNT, OF_ROW, PROFILE_INUSE_OBJECTS, 0, true},
    {"alloc", "ALLOCATED", "alloc_bytes", UNIT_BYTES, OF_ROW, PROFILE_ALLOC_BYTES, 0, true},
    {"allocs", "ALLOCS", "alloc_objects", UNIT_COUNT, OF_ROW, PROFILE_ALLOC_OBJECTS, 0, false},
    {"ownalloc", "OWN ALLOC", "own_alloc_bytes", UNIT_BYTES, OF_SECOND, PROFILE_ALLOC_BYTES, 0, false},
    {"freed", "FREED", "freed_bytes", UNIT_BYTES, LESS, PROFILE_ALLOC_BYTES, PROFILE_INUSE_BYTES, false},
    {"frees", "FREES", "freed_objects", UNIT_COUNT, LESS, PROFILE_ALLOC_OBJECTS, PROFILE_INUSE_OBJECTS, false},
    {"size", "SIZE", "mean_inuse_bytes", UNIT_BYTES, EACH, PROFILE_INUSE_BYTES, PROFILE_INUSE_OBJECTS, false},
    {"peak", "PEAK", "peak_bytes", UNIT_BYTES, OF_PEAK, 0, 0, false},
    {"atpeak", "AT PEAK", "at_peak_bytes", UNIT_BYTES, AT_PEAK, 0, 0, false},
    {"temporary", "TEMPORARY", "temporary_objects", UNIT_COUNT, OF_ROW, PROFILE_TEMPORARY, 0, false},
    {"lifetime", "LIFETIME", "mean_lifetime_ns", UNIT_TIME, LIFETIME, PROFILE_LIFETIMES, PROFILE_ALLOC_OBJECTS, false},
    {NULL},
};

static const struct report_column heap_diff_columns[] = {
    {"change", "CHANGE", "inuse_bytes_change", UNIT_BYTES, OF_ROW, PROFILE_INUSE_BYTES, 0, true},
    {"rate", "A MINUTE", "inuse_bytes_per_minute", UNIT_BYTES, PER_MINUTE, PROFILE_INUSE_BYTES, 0, true},
    {"before", "BEFORE", "inuse_bytes_before", UNIT_BYTES, OF_SECOND, PROFILE_INUSE_BYTES, 0, true},
    {"after", "AFTER", "inuse_bytes_after", UNIT_BYTES, OF_AFTER, PROFILE_INUSE_BYTES, 0, true},
    {"objects", "OBJECTS", "inuse_objects_change", UNIT_COUNT, OF_ROW, PROFILE_INUSE_OBJECTS, 0, true},
    {"alloc", "ALLOCATED", "alloc_bytes_change", UNIT_BYTES, OF_ROW, PROFILE_ALLOC_BYTES, 0, true},
    {"allocs", "ALLOCS", "alloc_objects_change", UNIT_COUNT, OF_ROW, PROFILE_ALLOC_OBJECTS, 0, false},
    {"allocrate", "ALLOC/MIN", "alloc_bytes_per_minute", UNIT_BYTES, PER_MINUTE, PROFILE_ALLOC_BYTES, 0, false},
    {"temporary", "TEMPORARY", "temporary_objects_change", UNIT_COUNT, OF_ROW, PROFILE_TEMPORARY, 0, false},
    {NULL},
};

static const struct report_column time_columns[] = {
    {"cpu", "CPU", "cpu_ns", UNIT_TIME, OF_ROW, PROFILE_CPU, 0, true},
    {"share", "SHARE", "share", UNIT_SHARE, OF_ROW, 0, 0, true},
    {"busy", "BUSY", "busy_ns", UNIT_TIME, OF_ROW, PROFILE_BUSY, 0, true},
    {"wall", "WALL", "wall_ns", UNIT_TIME, OF_ROW, PROFILE_WALL, 0, true},
    {"opens", "OPENS", "opens", UNIT_COUNT, OF_ROW, PROFILE_OPENS, 0, true},
    {"mean", "MEAN", "mean_wall_ns", UNIT_TIME, EACH, PROFILE_WALL, PROFILE_OPENS, true},
    {NULL},
};

static const struct report_column time_tree_columns[] = {
    {"cpu", "CPU", "cpu_ns", UNIT_TIME, OF_ROW, PROFILE_CPU, 0, true},
    {"share", "SHARE", "share", UNIT_SHARE, OF_ROW, 0, 0, true},
    {"own", "OWN", "own_cpu_ns", UNIT_TIME, OF_SECOND, PROFILE_CPU, 0, true},
    {"busy", "BUSY", "busy_ns", UNIT_TIME, OF_ROW, PROFILE_BUSY, 0, true},
    {"wall", "WALL", "wall_ns", UNIT_TIME, OF_ROW, PROFILE_WALL, 0, true},
    {"opens", "OPENS", "opens", UNIT_COUNT, OF_ROW, PROFILE_OPENS, 0, true},
    {"mean", "MEAN", "mean_wall_ns", UNIT_TIME, EACH, PROFILE_WALL, PROFILE_OPENS, true},
    {NULL},
};

static const struct report_column time_diff_columns[] = {
    {"change", "CPU", "cpu_ns_change", UNIT_TIME, OF_ROW, PROFILE_CPU, 0, true},
    {"rate", "A MINUTE", "cpu_ns_per_minute", UNIT_TIME, PER_MINUTE, PROFILE_CPU, 0, true},
    {"before", "BEFORE", "cpu_ns_before", UNIT_TIME, OF_SECOND, PROFILE_CPU, 0, true},
    {"after", "AFTER", "cpu_ns_after", UNIT_TIME, OF_AFTER, PROFILE_CPU, 0, true},
    {"busy", "BUSY", "busy_ns_change", UNIT_TIME, OF_ROW, PROFILE_BUSY, 0, true},
    {"wall", "WALL", "wall_ns_change", UNIT_TIME, OF_ROW, PROFILE_WALL, 0, true},
    {"opens", "OPENS", "opens_change", UNIT_COUNT, OF_ROW, PROFILE_OPENS, 0, true},
    {NULL},
};

struct sort {
    const char *word; /* NULL ends the words */
    int value;
};

static const struct kind {
    const struct report_column *columns, *tree_columns, *diff_columns;
    struct sort sorts[PROFILE_N_VALUES + 4]; /* the first is the default */
    int next, own;
    const char *sort_error;
} kinds[PROFILE_N_KINDS] = {
    [PROFILE_HEAP] = {
        .columns = heap_columns,
        .tree_columns = heap_tree_columns,
        .diff_columns = heap_diff_columns,
        .sorts = {{"inuse", PROFILE_INUSE_BYTES}, {"alloc", PROFILE_ALLOC_BYTES}, {"objects", PROFILE_INUSE_OBJECTS},
                  {"allocs", PROFILE_ALLOC_OBJECTS}, {"peak", REPORT_SORT_PEAK}, {"atpeak", REPORT_SORT_AT_PEAK},
                  {"temporary", PROFILE_TEMPORARY}, {"lifetime", REPORT_SORT_LIFETIME}},
        .next = PROFILE_ALLOC_BYTES,
        .own = -1,
        .sort_error = "a heap profile is sorted by inuse, alloc, objects, allocs, peak, atpeak, temporary or lifetime",
    },
    [PROFILE_TIME] = {
        .columns = time_columns,
        .tree_columns = time_tree_columns,
        .diff_columns = time_diff_columns,
        .sorts = {{"cpu", PROFILE_CPU}, {"busy", PROFILE_BUSY}, {"wall", PROFILE_WALL}, {"opens", PROFILE_OPENS}},
        .next = PROFILE_BUSY,
        .own = PROFILE_OPENS,
        .sort_error = "a time profile is sorted by cpu, busy, wall or opens",
    },
};

static int find_sort(enum profile_kind kind, const char *word)
{
    if (!word)
        return kinds[kind].sorts[0].value;
    for (const struct sort *sort = kinds[kind].sorts; sort->word; sort++)
        if (strcmp(word, sort->word) == 0)
            return sort->value;
    return -1;
}

bool report_knows_sort(const char *word)
{
    return find_sort(PROFILE_HEAP, word) >= 0 || find_sort(PROFILE_TIME, word) >= 0;
}

static bool is_word(const char *word, size_t n, const char *wanted)
{
    return n == strlen(wanted) && strncmp(word, wanted, n) == 0;
}

/* Whether a column or the order is called so. */
static bool wants(const struct report_options *options, const char *word)
{
    bool found = options->sort && strcmp(options->sort, word) == 0;
    for (const char *at = options->wanted; at && *at != '\0' && !found; at += *at == ',') {
        size_t n = strcspn(at, ",");
        found = is_word(at, n, word);
        at += n;
    }
    return found;
}

bool report_wants_peaks(const struct report_options *options)
{
    return wants(options, "peak") || wants(options, "atpeak");
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Only inclusive rows have what is below them. Several contexts, or stacks of the same functions, may be a row: together they had
 * at least what one of them had, what they had at the peak of the process, and what they have now. */
static int64_t peak_of(const struct report_table *table, const struct report_row *row)
{
    if (table->query->inclusive || row == &table->rows.all)
        return row->peaks[PROFILE_PEAK_TOTAL];
    return greater(row->peaks[PROFILE_PEAK_OWN], greater(row->peaks[PROFILE_AT_PEAK], row->values[PROFILE_INUSE_BYTES]));
}

static int64_t in_range(double value)
{
    return value >= 9.2e18 ? INT64_MAX : value <= -9.2e18 ? INT64_MIN : (int64_t)value;
}

/* In ns. */
static int64_t lifetime_of(const struct report_row *row)
{
    int64_t n = row->values[PROFILE_ALLOC_OBJECTS];
    return n > 0 ? in_range((double)row->values[PROFILE_LIFETIMES] * 1000 / (double)n) : 0;
}

bool report_sorts_bytes(const struct report_table *table)
{
    return table->sort == PROFILE_INUSE_BYTES || table->sort == PROFILE_ALLOC_BYTES || table->sort == REPORT_SORT_PEAK ||
           table->sort == REPORT_SORT_AT_PEAK;
}

int64_t report_sort_value(const struct report_table *table, const struct report_row *row)
{
    switch (table->sort) {
    case REPORT_SORT_PEAK:
        return peak_of(table, row);
    case REPORT_SORT_AT_PEAK:
        return row->peaks[PROFILE_AT_PEAK];
    case REPORT_SORT_LIFETIME:
        return lifetime_of(row);
    default:
        return row->values[table->sort];
    }
}

int report_next_value(enum profile_kind kind)
{
    return kinds[kind].next;
}

int report_own_value(enum profile_kind kind)
{
    return kinds[kind].own;
}

static const struct report_column *all_columns(const struct report_table *table)
{
    const struct kind *kind = &kinds[table->kind];
    return table->n_inputs == 2 ? kind->diff_columns : table->query->with_own ? kind->tree_columns : kind->columns;
}

/* The error for a word that is none of the columns that there are. */
static const char *list_columns(const struct report_table *table, const char *word, size_t word_bytes)
{
    static char text[512];
    int shown = word_bytes < MOST_WORD_BYTES ? (int)word_bytes : MOST_WORD_BYTES;
    size_t n = (size_t)snprintf(text, sizeof text, "--columns: '%.*s' is none of them; the columns are ", shown, word);
    for (const struct report_column *column = all_columns(table); column->word; column++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", column == all_columns(table) ? "" : ", ", column->word);
    return text;
}

/* "inuse,share" */
static const char *find_wanted(struct report_table *table)
{
    const char *at = table->options->wanted;
    do {
        size_t n = strcspn(at, ",");
        const struct report_column *column = all_columns(table);
        while (column->word && !(strlen(column->word) == n && strncmp(column->word, at, n) == 0))
            column++;
        if (!column->word)
            return list_columns(table, at, n);
        if (table->n_columns == REPORT_MAX_CELLS)
            return "--columns: there are too many";
        table->columns[table->n_columns++] = column;
        at += n + (at[n] == ',');
    } while (*at != '\0');
    return NULL;
}

/* Why figures are missing, or NULL. A program that answers HTTP leaves some out. The older profile of a difference may be from
 * before stacks were taken. */
static const char *why_none(const struct report_table *table)
{
    const struct report_input *last = &table->inputs[table->n_inputs - 1];
    bool peaks = report_wants_peaks(table->options) && table->inputs[0].profile.peak_columns[PROFILE_PEAK_TOTAL] < 0;
    bool temporary = wants(table->options, "temporary") && last->profile.columns[PROFILE_TEMPORARY] < 0;
    bool lifetimes = wants(table->options, "lifetime") && last->profile.columns[PROFILE_LIFETIMES] < 0;
    if ((peaks && table->inputs[0].is_url) || ((temporary || lifetimes) && last->is_url))
        return "profiles over HTTP have no peaks, temporary allocations and lifetimes: dumps have them, and 'jespan report PID'";
    return peaks       ? "it has no peaks"
           : temporary ? "it has no temporary allocations: there were none, or it ran without 'jespan run --stacks', which counts them"
           : lifetimes ? "it has no lifetimes: they are known with 'jespan run --conf lifetimes:true'"
                       : NULL;
}

/* Leaves out growth for each minute if both profiles are of the same moment. */
const char *report_columns_find(struct report_table *table)
{
    table->sort = find_sort(table->kind, table->options->sort);
    if (table->sort < 0)
        return kinds[table->kind].sort_error;
    const char *none = why_none(table);
    if (none)
        return none;
    if (wants(table->options, "peak") && (table->options->chains || (table->query->by && table->query->by->of_calls)))
        return "peaks of calls are known by whole stack, with --stacks alone; atpeak adds up, and goes with --tree and --by";
    if (table->sort >= PROFILE_N_VALUES && table->n_inputs == 2)
        return "--diff cannot be sorted by peaks or lifetimes";
    if (table->options->min_bytes > 0 && !report_sorts_bytes(table))
        return "--min-bytes is for bytes: it goes with --sort inuse, alloc, peak and atpeak";
    if (table->options->wanted)
        return find_wanted(table);
    for (const struct report_column *column = all_columns(table); column->word; column++)
        if (column->shown && (column->basis != PER_MINUTE || table->minutes > 0))
            table->columns[table->n_columns++] = column;
    return NULL;
}

const char *report_column_heading(const struct report_column *column)
{
    return column->heading;
}

const char *report_column_name(const struct report_column *column)
{
    return column->name;
}

bool report_column_has_sum(const struct report_column *column, bool all)
{
    bool is_alone = column->basis == OF_SECOND || column->basis == OF_AFTER || column->basis == OF_PEAK;
    return column->basis != EACH && column->basis != LIFETIME && (all || !is_alone);
}

bool report_column_is_change(const struct report_column *column)
{
    return column->basis == PER_MINUTE || strcmp(column->word, "change") == 0;
}

/* Returns false for an empty cell. */
static bool find_value(const struct report_table *table, const struct report_column *column, const struct report_row *row,
                       int64_t *value)
{
    static const struct report_values zeros;
    const struct report_values *second = row->second == 0 ? &zeros : &table->rows.seconds[row->second];
    int64_t other = row->values[column->other];
    *value = row->values[column->value];
    switch (column->basis) {
    case OF_ROW:
        break;
    case OF_SECOND:
        *value = second->of[column->value];
        break;
    case OF_AFTER:
        *value = report_sum(*value, second->of[column->value]);
        break;
    case LESS:
        *value = report_difference(*value, other);
        break;
    case EACH:
        *value = other > 0 ? *value / other : 0;
        return other > 0;
    case LIFETIME:
        *value = lifetime_of(row);
        return other > 0;
    case OF_PEAK:
        *value = peak_of(table, row);
        break;
    case AT_PEAK:
        *value = row->peaks[PROFILE_AT_PEAK];
        break;
    case PER_MINUTE:
        *value = table->minutes > 0 ? in_range((double)*value / table->minutes) : 0;
        return table->minutes > 0;
    }
    return true;
}

void report_cell(const struct report_table *table, char *to, const struct report_column *column, const struct report_row *row,
                 bool exact)
{
    int64_t value;
    const struct report_rows *rows = &table->rows;
    bool is_hidden = row != &rows->all && (!rows->n || row < rows->items || row >= rows->items + rows->n);
    to[0] = '\0';
    if (is_hidden && column->unit == UNIT_SHARE && table->sort == REPORT_SORT_PEAK)
        return; /* the rows that are not shown have no peak together */
    if (column->unit == UNIT_SHARE && exact && table->options->format != REPORT_TEXT)
        snprintf(to, FIGURE_BYTES, "%.6f",
                 table->rows.all.key == 0 ? 0.0 : (double)row->key / (double)table->rows.all.key);
    else if (column->unit == UNIT_SHARE)
        figure_share(to, row->key, table->rows.all.key);
    else if (!find_value(table, column, row, &value))
        return;
    else if (column->unit == UNIT_COUNT)
        snprintf(to, FIGURE_BYTES, "%" PRId64, value);
    else if (column->unit == UNIT_BYTES)
        figure_bytes(to, value, exact);
    else
        figure_time(to, value, exact);
    if (report_column_is_change(column) && !exact && to[0] != '-' && to[0] != '\0' && strcmp(to, "0 B") != 0) {
        memmove(to + 1, to, strlen(to) + 1);
        to[0] = '+';
    }
}
