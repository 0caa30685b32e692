/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of a profile: the types of values, the program, the times, a comment. */
#ifndef JESPAN_PPROF_HEAD_H
#define JESPAN_PPROF_HEAD_H

#include <limits.h>
#include <stdint.h>

#include "pprof.h"
#include "pprof_strings.h"
#include "snapshot/snapshot.h"

/* The main program in memory, from /proc/self. Unknown parts stay empty. dl_iterate_phdr() is not used: the dynamic
 * loader may hold its lock. */
#define PPROF_BUILD_ID_BYTES 64 /* the longest that is written. Usual ones have 20 */

struct pprof_mapping {
    uint64_t start, limit, offset; /* 0: unknown */
    char file[PATH_MAX];           /* "(unknown)" without /proc */
    char build_id[2 * PPROF_BUILD_ID_BYTES + 1]; /* hexadecimal. "": none */
};

/* The string table refers to these texts while it is in use. */
struct pprof_head {
    struct pprof_mapping mapping;
    char comment[128];
};

/* Writes sample types, period, mapping, times and the comment. `head` must live as long as `strings`. */
void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot);

#endif
