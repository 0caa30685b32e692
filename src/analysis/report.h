/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan report`, in the order in which they work: an input (report_input.c), a filter (report_filter.c), rows
 * (report_rows.c) by what they are grouped by (report_by.c) or by path (report_path.c), the difference of two profiles
 * (report_rows.c), a tree (report_tree.c), columns (report_columns.c), and the output (report_table.c, report_export.c,
 * report_svg.c).
 * Functions return 0, -ENOMEM, or what their comment says. */
#ifndef JESPAN_ANALYSIS_REPORT_H
#define JESPAN_ANALYSIS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console/text.h"
#include "exporters/hash_index.h"
#include "profile/hash.h"
#include "profile/profile.h"

#define REPORT_MAX_COLUMNS 1000 /* of a line; a path is made no longer than is needed to fill them */
#define REPORT_MAX_CELLS 14     /* before the path */

/* --- Input ---------------------------------------------------------------------------------------------------------- */

/* Names that several functions have below the same caller: spans of different places in the code that would look the same. */
struct report_names {
    struct hash_table functions; /* by caller and name: the first function */
    struct hash_table repeated;  /* the callers and names that have more than one */
};

struct report_input {
    struct profile profile;
    struct report_names names;
    uint64_t *strings;   /* hashes of texts, by index */
    uint64_t *locations; /* hashes of functions and their places in the code, in the order of profile.parts->location */
    char name[4096];     /* the file that was read: the newest one of a directory */
    bool is_url;
    pid_t pid;           /* the process that was read, or 0 */
};

enum report_frames {
    REPORT_SPANS,     /* samples without the calls below their spans */
    REPORT_CALLS,     /* with them, by function */
    REPORT_LOCATIONS, /* as in the file, with names */
};

struct report_source {
    bool time;      /* the times of a process, a page or a directory, not its heap */
    enum report_frames frames;
    bool all_frames; /* of calls or locations, also the allocator's and those of libc's start */
    bool peak;      /* of a directory, the newest dump of a peak, if there is one */
    bool outlived;  /* of a process, only contexts without an open span */
    int64_t older_s; /* of a process, only memory that is so old; 0: any */
    const char *at; /* the newest file of a directory that is not younger; NULL: the newest of all */
    size_t kept_bytes; /* the most bytes of samples in memory; a file with more is read again for each pass. 0: no bound */
};

/* Reads a file, "-", a directory, a URL or a process. Returns NULL, or the reason in words. `input` must stay where it is, and
 * is freed in either case. */
const char *report_input_read(struct report_input *input, const char *word, const struct report_source *source);

/* For a reader of several passes. Opens what report_input_read() would read: a copy of what gives its bytes only once, as a
 * pipe, or other bytes each time, as a process; the newest file of a directory. *fd is -1 for any other file, which can be
 * read again by its name, and closed by the caller in any case. Returns NULL, or the reason in words. */
const char *report_input_keep(int *fd, const char *word, const struct report_source *source);

/* The same as report_input_read() for such a descriptor, which stays open. */
const char *report_input_read_kept(struct report_input *input, int fd, const char *word, const struct report_source *source);

/* Whether it is the dump of a peak, which its name says. */
bool report_input_is_of_peak(const struct report_input *input);

/* The same for a descriptor from where it is, and `input` that was zeroed but for `pid`. `quiet`: without warnings. */
const char *report_input_read_descriptor(struct report_input *input, int fd, const struct report_source *source, bool quiet);
void report_input_free(struct report_input *input);

/* Copies the rest of the first comment of the profile that begins so (base/comments.h), as far as there is room, with '?' for
 * what is not printable ASCII. False: there is none. */
bool report_find_comment(const struct report_input *input, const char *beginning, char *rest, size_t bytes);

/* Hashes that are equal in all profiles. */
uint64_t report_string_hash(const struct report_input *input, int64_t index);
uint64_t report_location_hash(const struct report_input *input, uint64_t id);

/* The hash of a call without a name: its library and the offset in that file, since the kernel loads libraries at other addresses in
 * each run. Without a library, its address. */
uint64_t report_address_hash(const struct report_input *input, const JespanPprof__Location *location);

/* Returns NULL, or the reason in words: "there is no file of that time". `path` has `bytes` bytes. report_directory.c */
const char *report_directory_find(char *path, size_t bytes, const char *directory, const struct report_source *source);

/* Reads a duration as the user writes it: "90s", "10m", "2h", "1d". Returns whether it is one. */
bool report_duration_read(const char *word, int64_t *seconds);

/* Reads a time as the user writes it: "12:04", "2026-11-24 12:04:30", "-10m", "@1789000000". Returns whether it is one. */
bool report_time_read(const char *word, int64_t *unix_s);

/* Reads http://HOST:PORT[/PATH] or unix:PATH into a descriptor, which the caller closes. A URL without a path, and that of the page,
 * as http://HOST:PORT/?pid=17 or unix:PATH?pid=17, gets `path`, of the process that it chooses. It gives up after `seconds` (0:
 * never), and if nothing comes for a minute longer than the URL asks for. Returns NULL, or the reason in words. fetch.c */
bool fetch_is_url(const char *word);
const char *fetch(int fd, const char *url, const char *path, unsigned seconds);

/* Whether the last fetch() failed because nobody answers there: a program that was there before has ended. fetch.c */
bool fetch_met_nobody(void);

/* --- Filter --------------------------------------------------------------------------------------------------------- */

struct report_filter;

/* Adds an expression, which must hold beside those before. Returns NULL, or the reason in words. `text` must stay. */
const char *report_filter_add(struct report_filter **filter, const char *text);

/* The same for an option: `filter` is a struct report_filter **. Returns 0, or prints an error and returns STATUS_USAGE. */
int report_filter_read(void *filter, const char *text);

bool report_filter_fits(const struct report_filter *filter, const struct report_input *input, const JespanPprof__Sample *sample);
void report_filter_free(struct report_filter *filter);

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

#define REPORT_NONE HASH_INDEX_NONE

/* The group that a row stands for. By path: the context of a sample, without the sample's innermost `frames` frames and
 * first `labels` labels. By something else: the place of a key among the sample's keys in `frames`, or REPORT_NONE. */
struct report_place {
    uint32_t sample, frames, labels;
};

struct report_row {
    int64_t values[PROFILE_N_VALUES];
    int64_t peaks[PROFILE_N_PEAKS]; /* the highest of the contexts that the row stands for; of PROFILE_AT_PEAK, the sum */
    int64_t key;   /* the table sorts by it */
    uint64_t hash; /* of what the row stands for; equal in all profiles */
    struct report_place place;
    uint32_t input;  /* the profile that `place` is of */
    uint32_t second; /* index into rows->seconds */
    uint32_t parent; /* with a tree, index into rows->items; REPORT_NONE: it is at the top */
    uint32_t depth;  /* in the tree */
    uint32_t last;   /* the sample that was added last, and 1 */
};

struct report_values {
    int64_t of[PROFILE_N_VALUES];
};

struct report_rows {
    struct report_row *items;
    uint32_t n;
    size_t capacity;
    struct hash_index index;
    struct report_row all;         /* the sum of all samples */
    struct report_values *seconds; /* the row alone where `values` include rows below; or the values before */
    uint32_t n_seconds;
    size_t seconds_capacity;
    uint32_t n_left_out;         /* rows that --top does not show, and their sum; of a tree they have none */
    struct report_row left_out;
};

/* A kind of groups of samples (--by), besides the path. */
struct report_by {
    const char *word;    /* of --by; one that ends with a colon takes a key */
    const char *heading; /* NULL: the key */
    /* How many keys a sample may have. The innermost is the first. */
    size_t (*n_keys)(const JespanPprof__Sample *sample);
    /* Whether key i counts, and its hash. */
    bool (*key)(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                uint64_t *hash);
    void (*text)(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i);
    const char *none; /* the text of samples without a key */
    bool of_calls;    /* keys are of calls, so that the input must have them */
};

/* Finds a kind of groups; *argument is the key behind its colon. Returns whether the word is known; *by is NULL for "path". */
bool report_by_find(const char *word, const struct report_by **by, const char **argument);

struct report_query {
    const struct report_by *by; /* NULL: the path */
    const char *argument;
    const struct report_filter *filter; /* NULL: all */
    bool inclusive;                     /* each row with all below it */
    bool with_own;                      /* `seconds` are the rows alone */
    bool with_peaks;                    /* rows of contexts that have peaks only, too */
};

/* Makes a row for each group, in the order of the file. With `inclusive`, rows have the values of all rows below them, except
 * the value `own` (-1: none); a context without a sample has a row too if there is a sample below it. `rows` is overwritten,
 * and freed by the caller in either case. -EBADMSG: a sample cannot be decoded. -E2BIG: too many contexts without a sample. */
int report_rows_read(struct report_rows *rows, struct report_input *input, const struct report_query *query, int own);

void report_rows_free(struct report_rows *rows);

/* With those that are left out. */
static inline uint32_t report_rows_count(const struct report_rows *rows)
{
    return rows->n + rows->n_left_out;
}

/* The row with the hash, or NULL. */
struct report_row *report_rows_find(const struct report_rows *rows, uint64_t hash);

/* Adds a row. Returns its index, or REPORT_NONE if there is no memory. */
uint32_t report_rows_add(struct report_rows *rows, uint64_t hash, struct report_place place);

/* The second values of a row, which are added if there are none yet. NULL: there is no memory. */
struct report_values *report_rows_second(struct report_rows *rows, struct report_row *row);

/* Adds values to a row, except the value `but_for` (-1: none). A result that is out of range stays at its end. */
void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for);
int64_t report_sum(int64_t a, int64_t b);
int64_t report_difference(int64_t a, int64_t b);

/* --- The largest rows: report_top.c ---------------------------------------------------------------------------------- */

struct report_table;
struct report_top;

/* Reads the rows of one profile. With --top, makes only those that may be shown, if it can. Returns what report_rows_read()
 * returns. */
int report_top_read(struct report_table *table);

/* Keeps the samples of the rows that are shown. Returns 0, -ENOMEM or -EBADMSG. */
int report_top_keep(struct report_table *table);

/* For report_top.c. Sums up all samples in `rows`, without rows, and gives each that counts to report_top_add() with the
 * hash of its row. */
int report_rows_tell(struct report_rows *rows, struct report_input *input, const struct report_query *query, struct report_top *top);
int report_top_add(struct report_top *top, uint32_t sample, uint64_t hash, const int64_t values[PROFILE_N_VALUES], int64_t at_peak);

/* The same as report_rows_read() for some samples, added to `rows`, which keep the sum of all. Without --inclusive. */
int report_rows_read_some(struct report_rows *rows, struct report_input *input, const struct report_query *query,
                          const uint32_t *samples, size_t n);

/* --- Paths ---------------------------------------------------------------------------------------------------------- */

/* `names` is overwritten, and freed by the caller in either case. */
int report_names_read(struct report_names *names, struct profile *profile);
void report_names_free(struct report_names *names);

/* Replaces `text` by "outer > inner {key=value}". Behind a repeated name stands its place in the code. */
void report_path(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample,
                 const struct report_place *place);

/* The same without the outer frames and last labels that the context `above` has. NULL: there is no context above. */
void report_path_end(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample,
                     const struct report_place *place, const struct report_place *above);

/* Adds the name of the outermost function of location i, without and with its place in the code. */
void report_add_name(struct text *text, const struct report_input *input, uint64_t location);
void report_add_site(struct text *text, const struct report_input *input, uint64_t location);
void report_add_string(struct text *text, const struct profile *profile, int64_t index);
void report_add_label_value(struct text *text, const struct profile *profile, const JespanPprof__Label *label);

/* The outermost function of a location; 0: it has none. */
uint64_t report_outer_function(const struct profile *profile, uint64_t location);

/* --- The table ------------------------------------------------------------------------------------------------------ */

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_MARKDOWN, REPORT_FOLDED, REPORT_SVG }; /* the last two add rows up */

struct report_options {
    const char *sort;       /* NULL: the default */
    const char *wanted;     /* columns, comma-separated; NULL: the default */
    enum report_format format;
    uint64_t top;   /* the most rows that are shown; 0 = all */
    uint64_t min_bytes; /* rows with fewer bytes are not shown; a difference has no sign here */
    bool tree;
    bool chains; /* a row of the tree whose all is that of the only row below it shares a line with that one */
    bool exact;     /* figures in digits, without units */
    bool bold;      /* the heading, and colours */
    size_t columns; /* of the terminal */
};

struct report_column;

struct report_section {
    const char *word; /* NULL: the only section */
    uint32_t first, n, n_shown;
    struct report_row hidden; /* the sum of the rows that are not shown */
};

struct report_table {
    struct report_input *inputs;
    uint32_t n_inputs; /* 2: the difference, the older one first */
    const struct report_options *options;
    const struct report_query *query;
    enum profile_kind kind;
    int sort; /* the value that rows are sorted by, or one of these */
#define REPORT_SORT_PEAK PROFILE_N_VALUES
#define REPORT_SORT_AT_PEAK (PROFILE_N_VALUES + 1)
#define REPORT_SORT_LIFETIME (PROFILE_N_VALUES + 2)
    struct report_rows rows;
    const struct report_column *columns[REPORT_MAX_CELLS];
    int n_columns;
    double minutes; /* between two profiles; 0: unknown */
    struct report_section sections[2];
    int n_sections;
};

/* Prints one profile, or the difference of two, to stdout. Returns NULL, or the reason in words. */
const char *report_print(struct report_input *inputs, uint32_t n_inputs, const struct report_query *query,
                         const struct report_options *options);

/* Replaces `rows` by the differences of two profiles. */
int report_diff(struct report_rows *rows, struct report_rows *before, struct report_rows *after);

/* How many of the first rows are shown. Rows must be sorted. */
uint32_t report_n_shown(const struct report_options *options, const struct report_row *rows, uint32_t n);

/* Puts rows in the order of a tree, and sets their depth. Leaves out all but the rows that are shown and those above them; with
 * `options->chains` also those whose only row below has the same values. Rows must be sorted. */
int report_tree_order(struct report_rows *rows, const struct report_options *options);

/* The heading of the last column, and its text for a row. -EBADMSG: as above. */
const char *report_heading(const struct report_table *table);
int report_row_text(const struct report_table *table, struct text *text, const struct report_row *row);

/* The time of the profile, and how long the program had run. */
void report_title(const struct report_table *table, uint32_t input, char *when, size_t when_bytes, char *duration);

/* Whether the column has a figure in a line of sums: that of hidden rows, or rows.all. A sum has no mean. Rows that include
 * each other have no sum, except that of all samples. The sum of hidden differences has no value before. */
bool report_table_has_sum(const struct report_table *table, const struct report_column *column, const struct report_row *sum);

int report_print_text(struct report_table *table);
int report_print_export(struct report_table *table);
int report_print_folded(struct report_table *table);

/* The rows of a tree as a flame graph. report_svg.c */
const char *report_svg_refuses(const struct report_table *table); /* NULL: it does not */
int report_print_svg(struct report_table *table);

/* ---- report_columns.c ---- */

/* Whether any kind of profile has the word of --sort. */
bool report_knows_sort(const char *word);

/* Whether columns or the order are of peaks. */
bool report_wants_peaks(const struct report_options *options);

/* Whether rows are sorted by bytes. */
bool report_sorts_bytes(const struct report_table *table);

/* What the rows are sorted by. */
int64_t report_sort_value(const struct report_table *table, const struct report_row *row);

/* Finds the columns and the value to sort by. Returns NULL, or the reason in words. */
const char *report_columns_find(struct report_table *table);

/* The value that decides between rows that are equal in the value that they are sorted by, and the one that rows keep for
 * themselves when others include those below them (-1: none). */
int report_next_value(enum profile_kind kind);
int report_own_value(enum profile_kind kind);

const char *report_column_heading(const struct report_column *column);
/* As in JSON and CSV: "inuse_bytes". */
const char *report_column_name(const struct report_column *column);

/* The cell as text, "" where the row has none; in digits if `exact`. `is_sum`: a sum has no mean, and rows that include each
 * other have no sum. */
void report_cell(const struct report_table *table, char *to, const struct report_column *column, const struct report_row *row,
                 bool exact);
bool report_column_has_sum(const struct report_column *column, bool all);

/* Whether the cell shows growth: the colour of its sign. */
bool report_column_is_change(const struct report_column *column);

#endif
