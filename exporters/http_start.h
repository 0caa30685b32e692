/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a difference (?seconds=) begins: the figures of a snapshot that profiles show, without names and labels, which the
 * snapshot at the end has. A fifth of a snapshot's memory. Several callers can wait with one start.
 */
#ifndef JESPAN_HTTP_START_H
#define JESPAN_HTTP_START_H

#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

struct http_start_figures {
    uint64_t alloc_objects, alloc_bytes, inuse_objects, inuse_bytes, cpu;
};

struct http_start_row {
    uint32_t id, generation;
    struct http_start_figures figures;
};

struct http_start {
    uint64_t taken_ns; /* on the monotonic clock; set by the owner, as is `callers` */
    unsigned callers;
    uint64_t age_ns; /* how long after tracking began it was */
    struct http_start_figures retired, all;
    uint32_t n_rows; /* ordered by id; contexts that have no figures are left out */
    struct http_start_row rows[];
};

/* The start's memory, of the snapshot. */
size_t http_start_bytes(const struct snapshot *s);

/* NULL: no memory. To be freed with free(). */
struct http_start *http_start_make(const struct snapshot *s);

/* Leaves in `end`, a later snapshot, what came since the start, so that nothing else can be done with it; in use may be less
 * than nothing. What contexts did that are not there any more is left in `retired`. */
void http_start_subtract(const struct http_start *start, struct snapshot *end);

#endif
