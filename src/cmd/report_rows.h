/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a report, in the order of the file. */
#ifndef JESPAN_CMD_REPORT_ROWS_H
#define JESPAN_CMD_REPORT_ROWS_H

#include <stdint.h>

#include "profile.h"
#include "report_path.h"

struct report_row {
    int64_t values[PROFILE_N_VALUES];
    int64_t key; /* what is sorted by; for the table to set */
    struct report_place place;
};

struct report_rows {
    struct report_row *items;
    uint32_t n, capacity;
    struct report_row all; /* the sum of all samples */
};

/* A row a sample. `rows` is zeroed here. Returns 0 or -ENOMEM; in either case it is to be freed. */
int report_rows_read(struct report_rows *rows, const struct profile *profile);

/* A row a context, with the values of all contexts below it added to its own, but for the value `own`, if that is not
 * -1. A context that has no sample, but some below it, gets a row too; too many of them are -E2BIG. See
 * report_tree.c. */
int report_rows_read_inclusive(struct report_rows *rows, const struct profile *profile, int own);

void report_rows_free(struct report_rows *rows);

/* Adds a row without values. Returns its index, or UINT32_MAX when there is no room. */
uint32_t report_rows_add(struct report_rows *rows, struct report_place place);

/* Adds values, but for one of them, if that is not -1. Sums that are out of range stay at its end. */
void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for);

#endif
