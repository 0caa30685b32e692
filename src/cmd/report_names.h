/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that several functions have below the same caller: spans of different places in the code, which would look the same. */
#ifndef JESPAN_CMD_REPORT_NAMES_H
#define JESPAN_CMD_REPORT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "profile.h"

struct report_name;
struct report_names {
    struct report_name *slots; /* by caller and name; NULL: no name is repeated */
    uint32_t n, n_slots;
};

/* Returns 0 or -ENOMEM; in either case it is to be freed. */
int report_names_read(struct report_names *names, const struct profile *profile);
void report_names_free(struct report_names *names);

/* Whether the function's name is another's too below the location `above`; 0: at the outer end. */
bool report_names_is_repeated(const struct report_names *names, const struct profile *profile, uint64_t above,
                              uint64_t function);

#endif
