/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of a report. */
#ifndef JESPAN_CMD_REPORT_TABLE_H
#define JESPAN_CMD_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile.h"

struct report_options {
    enum profile_value sort; /* by this, the largest first; shares are of it */
    uint64_t top;            /* rows at most; 0 = all */
    bool exact;              /* bytes in digits, without units */
    bool bold;               /* the heading */
    size_t columns;          /* of the terminal */
};

/* Prints the profile to stdout. Returns 0 or -ENOMEM. */
int report_table_print(const struct profile *profile, const struct report_options *options);

#endif
