/* SPDX-License-Identifier: BSD-2-Clause */
/* The main program of a process: its file, and where its code lies in memory. */
#ifndef JESPAN_PROGRAM_H
#define JESPAN_PROGRAM_H

#include <limits.h>
#include <stdint.h>

#define PROGRAM_BUILD_ID_BYTES 64 /* the longest that is kept. Usual ones have 20 */

struct program {
    uint64_t start, limit, offset; /* 0: unknown */
    char file[PATH_MAX];           /* "(unknown)" without /proc */
    char build_id[2 * PROGRAM_BUILD_ID_BYTES + 1]; /* hexadecimal. "": none */
};

#endif
