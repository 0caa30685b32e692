/* SPDX-License-Identifier: BSD-2-Clause */
/* Where libjespan.so and its modules are, seen from the command. */
#ifndef JESPAN_CMD_RUN_LIBRARY_H
#define JESPAN_CMD_RUN_LIBRARY_H

#include <limits.h>

struct run_library {
    char path[PATH_MAX];    /* absolute */
    char modules[PATH_MAX]; /* the directory, when it is not the one that the library looks in anyway; else "" */
};

/* Finds the library: `wanted` if that is not NULL, else JESPAN_LIB, else beside this command (a build directory or an
 * installation, also a moved one), else where it was configured to be. Returns 0, or STATUS_PREPARE after saying why.
 */
int run_library_find(struct run_library *library, const char *wanted);

#endif
