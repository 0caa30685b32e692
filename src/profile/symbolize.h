/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for the addresses in a profile (src/symbols). */
#ifndef JESPAN_PROFILE_SYMBOLIZE_H
#define JESPAN_PROFILE_SYMBOLIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile.h"

enum symbolize_how {
    SYMBOLIZE_QUIET = 1,  /* prints nothing */
    SYMBOLIZE_STARTS = 2, /* a function without a name is "library+0x1234", where it begins; to be shown, and not to be kept */
};

/* Gives each location that has an address and no lines its functions and lines, and prints a warning for each binary that
 * cannot be read. `pid` is the process that was read, which may be in a container and have files of its own; 0: none.
 * Returns 0, -ENOMEM or -E2BIG. */
int symbolize_profile(struct profile *profile, pid_t pid, unsigned how);

/* Replaces control characters: a name in a file could send commands to the terminal. */
void symbolize_clean(char *text);

/* The mapping of a location, or NULL. */
const JespanPprof__Mapping *symbolize_mapping(const struct profile *profile, uint64_t id);

#endif
