/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the frames of stacks as pprof's locations. They have addresses and mappings, and no names: readers look these
 * up in the binaries. */
#ifndef JESPAN_PPROF_STACKS_H
#define JESPAN_PPROF_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "code_maps.h"
#include "hash_index.h"
#include "pprof_out.h"
#include "pprof_strings.h"
#include "snapshot/snapshot.h"

#define PPROF_STACKS_FIRST_ID (UINT64_C(1) << 32) /* of locations: the ids of sites are below */
#define PPROF_STACKS_MAPPING_ID 3                 /* the first one. The program and the sites have those before */
#define PPROF_MAX_STACK_FRAMES 256                /* the most that stacks_depth can be */

struct pprof_stacks {
    struct pprof_out *out;
    struct pprof_strings *strings;
    const struct snapshot *snapshot;
    uint32_t *locations; /* by frame: the location's id - PPROF_STACKS_FIRST_ID + 1. 0: none yet */
    struct hash_index index;
    uint64_t *addresses; /* by location */
    uint32_t n, capacity, n_mappings;
    struct code_maps maps;
    char (*build_ids)[2 * PROGRAM_BUILD_ID_BYTES + 1]; /* by mapping: the strings refer to them */
};

/* The program's mapping is written already, with PPROF_PROGRAM_MAPPING_ID. Errors go to `out` of the strings. */
void pprof_stacks_init(struct pprof_stacks *stacks, struct pprof_strings *strings, const struct snapshot *snapshot,
                       const struct program *program);
void pprof_stacks_free(struct pprof_stacks *stacks);

/* Writes the ids of the locations of a stack to `frames`, the innermost first. Returns their number. */
uint32_t pprof_stacks_walk(struct pprof_stacks *stacks, uint32_t frame, uint64_t frames[PPROF_MAX_STACK_FRAMES]);

#endif
