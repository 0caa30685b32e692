/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of a report. */
#ifndef JESPAN_CMD_REPORT_TABLE_H
#define JESPAN_CMD_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile.h"
#include "report_kind.h"

struct report_options {
    int sort;       /* by this value, the largest first; shares are of it */
    uint64_t top;   /* rows at most; 0 = all */
    bool inclusive; /* each context with all below it */
    bool exact;     /* figures in digits, without units */
    bool bold;      /* the heading */
    size_t columns; /* of the terminal */
};

/* Prints the profile to stdout. Returns 0, -ENOMEM or -E2BIG (more contexts than can be told apart). */
int report_table_print(const struct profile *profile, const struct report_options *options);

#endif
