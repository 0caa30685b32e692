/* SPDX-License-Identifier: BSD-2-Clause */
/* The mappings of a process (proc(5)), and which of their pages are in memory. */
#ifndef JESPAN_VIEW_MAPPINGS_H
#define JESPAN_VIEW_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum mapping_kind { MAPPING_ANONYMOUS, MAPPING_STACK, MAPPING_CODE, MAPPING_FILE, MAPPING_SHARED, MAPPING_N_KINDS };

struct mapping {
    uint64_t start, end, resident_bytes, swapped_bytes;
    enum mapping_kind kind; /* MAPPING_CODE: a program or library, with its data */
    bool has_no_file;       /* so it may be of the heap, also where it lies behind the data of a library, or has a stack */
};

struct mappings {
    struct mapping *items;
    size_t n, room;
    int pagemap; /* a descriptor */
};

/* Reads the mappings. `m` is overwritten, and freed by the caller in either case. Returns 0 or a negative errno. */
int mappings_read(struct mappings *m, pid_t pid);
void mappings_free(struct mappings *m);

/* Sets resident[i] for each page from `start` on, and returns their number; or a negative errno. */
long mappings_resident(const struct mappings *m, uint64_t start, uint64_t end, bool *resident);

#endif
