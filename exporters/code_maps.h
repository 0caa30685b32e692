/* SPDX-License-Identifier: BSD-2-Clause */
/* The mappings of a process that have code, for addresses of stacks. */
#ifndef JESPAN_CODE_MAPS_H
#define JESPAN_CODE_MAPS_H

#include <stdint.h>
#include <sys/types.h>

#include "report/exporter.h"

struct code_map {
    uint64_t start, limit, offset, inode;
    const char *file; /* "[vdso]" and the like are no files; "[anon]" for code that was generated */
    uint32_t id;      /* the user's. 0 at first */
};

struct code_maps {
    const struct exporter_memory *memory;
    struct code_map *maps; /* by address */
    uint32_t n;
    pid_t pid;
    char *text;
};

/* Reads /proc. A pid of 0 is the calling process. Without memory, or without /proc, there are no mappings. */
void code_maps_read(struct code_maps *maps, pid_t pid, const struct exporter_memory *memory);
void code_maps_free(struct code_maps *maps);

/* NULL: the address is in none of them. */
struct code_map *code_maps_find(const struct code_maps *maps, uint64_t address);

/* Opens the file of a mapping. -1: it has none, or another file has its name now. */
int code_maps_open(const struct code_maps *maps, const struct code_map *map);

#endif
