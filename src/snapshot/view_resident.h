/* SPDX-License-Identifier: BSD-2-Clause */
/* What the resident memory of another process consists of, and which contexts keep it. The parts add up to what the kernel
 * counts (Rss in smaps), except for a few bytes of rounding.
 *
 * Each page is looked at, so this takes about as long as the kernel takes for /proc/PID/smaps. */
#ifndef JESPAN_VIEW_RESIDENT_H
#define JESPAN_VIEW_RESIDENT_H

#include <stdint.h>

#include "snapshot/view_heap.h"

enum resident_part {
    RESIDENT_LIVE,
    RESIDENT_HOLES,
    RESIDENT_CACHED,
    RESIDENT_EMPTY,
    RESIDENT_JEMALLOC,
    RESIDENT_OWN,
    RESIDENT_STACKS,
    RESIDENT_CODE,
    RESIDENT_FILES,
    RESIDENT_SHARED,
    RESIDENT_OTHER,
    RESIDENT_N_PARTS,
};

/* For programs, and for people. */
extern const struct resident_text {
    const char *name, *meaning;
} resident_texts[RESIDENT_N_PARTS];

struct resident_holder {
    uint32_t row; /* of the snapshot */
    struct heap_context figures;
    uint64_t in_use; /* by the books */
};

struct resident {
    uint64_t parts[RESIDENT_N_PARTS], all; /* in bytes */
    uint64_t swapped;
    uint64_t usable, requested;      /* in use by the books; about what the program asked for */
    struct resident_holder *holders; /* contexts that have something, those that keep most first */
    uint32_t n_holders;
};

/* To be called after view_snapshot(), with the same view and its snapshot. Returns 0 or a negative errno: those of view.h.
 * `r` is overwritten, and freed by the caller in either case. One thread at a time. */
int view_resident_read(struct resident *r, struct view *view, const struct snapshot *s);
void view_resident_free(struct resident *r);

#endif
