/* SPDX-License-Identifier: BSD-2-Clause */
/* The main program in memory: where its code is mapped, from which file, with which build id. */
#ifndef JESPAN_PPROF_MAPPING_H
#define JESPAN_PPROF_MAPPING_H

#include <limits.h>
#include <stdint.h>

#define PPROF_BUILD_ID_BYTES 64 /* the longest that is reported; usual ones have 20 */

struct pprof_mapping {
    uint64_t start, limit, offset; /* 0 where unknown */
    char file[PATH_MAX];           /* "(unknown)" without /proc */
    char build_id[2 * PPROF_BUILD_ID_BYTES + 1]; /* hexadecimal, "" where there is none */
};

/* Reads /proc/self. Never fails: what cannot be found out stays empty. Takes no lock that the dynamic loader may hold,
 * as dl_iterate_phdr() would. */
void pprof_mapping_read(struct pprof_mapping *mapping);

#endif
