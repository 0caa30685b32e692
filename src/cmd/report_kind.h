/* SPDX-License-Identifier: BSD-2-Clause */
/* What a report shows of each kind of profile: its columns, and what it may be sorted by. */
#ifndef JESPAN_CMD_REPORT_KIND_H
#define JESPAN_CMD_REPORT_KIND_H

#include "profile.h"

#define REPORT_MAX_CELLS 6 /* before the path */

enum report_unit {
    REPORT_COUNT,
    REPORT_BYTES,
    REPORT_TIME,
    REPORT_SHARE, /* of what is sorted by */
    REPORT_MEAN,  /* wall time by open */
};

struct report_column {
    const char *heading; /* NULL: there are no more */
    enum report_unit unit;
    int value; /* which of a sample's values */
};

struct report_sort {
    const char *word;
    int value;
};

struct report_kind {
    const char *name;
    struct report_column columns[REPORT_MAX_CELLS + 1];
    struct report_sort sorts[PROFILE_N_VALUES + 1]; /* the first is the default; a NULL word ends them */
    int next; /* decides among rows that are equal in what is sorted by */
    int own;  /* the value that stays a context's own when others include what is below it; -1 = none */
};

extern const struct report_kind report_kinds[PROFILE_N_KINDS];

/* What `word` sorts by: a value, or -1. */
int report_kind_sort(const struct report_kind *kind, const char *word);

#endif
