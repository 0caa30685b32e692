/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan report`: contexts of a profile as rows (report_rows.c), paths as text (report_path.c), and the table
 * (report_table.c). Functions return 0, -ENOMEM, or what their comment says. */
#ifndef JESPAN_CMD_REPORT_H
#define JESPAN_CMD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "profile.h"
#include "text.h"

#define REPORT_MAX_COLUMNS 1000 /* of a line; a path is made no longer than is needed to fill them */

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

/* A context: a sample that has it on its path, without so many inner frames and first labels of the sample. */
struct report_place {
    uint32_t sample, frames, labels;
};

struct report_row {
    int64_t values[PROFILE_N_VALUES];
    int64_t key; /* the table sorts by it */
    struct report_place place;
};

struct report_rows {
    struct report_row *items;
    uint32_t n, capacity;
    struct report_row all; /* the sum of all samples */
};

/* Makes a row of each sample, in the order of the file. `rows` is overwritten, and freed by the caller in either case.
 * -EBADMSG: a sample cannot be decoded. */
int report_rows_read(struct report_rows *rows, struct profile *profile);

/* Makes a row of each context and adds the values of all contexts below it, except the value `own` (-1: none). A context
 * without a sample has a row too if there is a sample below it. -E2BIG: there are too many of those. */
int report_rows_read_inclusive(struct report_rows *rows, struct profile *profile, int own);

void report_rows_free(struct report_rows *rows);

/* Adds values to a row, except the value `but_for` (-1: none). A sum that is out of range stays at the end of the range. */
void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for);

/* --- Paths ---------------------------------------------------------------------------------------------------------- */

/* Names that several functions have below the same caller: spans of different places in the code that would look the same. */
struct report_names {
    struct hash_table functions; /* by caller and name: the first function */
    struct hash_table repeated;  /* the callers and names that have more than one */
};

/* `names` is overwritten, and freed by the caller in either case. */
int report_names_read(struct report_names *names, struct profile *profile);
void report_names_free(struct report_names *names);

/* Replaces `text` by "outer > inner {key=value}". Behind a repeated name stands its place in the code. */
int report_path(struct text *text, struct profile *profile, const struct report_names *names, const struct report_place *place);

/* --- The table ------------------------------------------------------------------------------------------------------ */

struct report_options {
    int sort;       /* the largest of this value comes first; shares are of it */
    uint64_t top;   /* the most rows that are shown; 0 = all */
    bool inclusive; /* each context with all below it */
    bool exact;     /* figures in digits, without units */
    bool bold;      /* the heading */
    size_t columns; /* of the terminal */
};

/* Returns the value that `word` sorts by: -1 if this kind of profile does not have it. NULL stands for the default. */
int report_sort(enum profile_kind kind, const char *word);

/* Prints the profile to stdout. -EBADMSG, -E2BIG: as above. */
int report_print(struct profile *profile, const struct report_options *options);

#endif
