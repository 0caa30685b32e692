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
    uint64_t zero_pages;    /* present pages that the kernel does not count; of its shared_pages */
    uint64_t shared_pages, shared_seen;
};

struct mappings {
    struct mapping *items;
    size_t n, room;
    int pagemap; /* a descriptor */
};

/* Reads the mappings. `m` is overwritten, and freed by the caller in either case. Returns 0 or a negative errno. */
int mappings_read(struct mappings *m, pid_t pid);
void mappings_free(struct mappings *m);

/* Counts the zero pages of a mapping. Memory that was read before it was written to has the kernel's zero page, which is present and
 * which nobody counts as resident. pagemap says only that a page is not the process's alone, and so are pages that fork() shares
 * with another process. A mapping that has both kinds is exact as a whole, and its zero pages are thought to lie evenly among
 * the shared ones. Returns 0 or a negative errno. */
int mappings_find_zeroes(const struct mappings *m, struct mapping *of);

/* Sets resident[i] for each page from `start` on: it is in memory, and is no zero page. A mapping is read from its start to its
 * end. Returns 0 or a negative errno. */
int mappings_resident(const struct mappings *m, struct mapping *of, uint64_t start, uint64_t end, bool *resident);

#endif
