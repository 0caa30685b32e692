/* SPDX-License-Identifier: BSD-2-Clause */
/* The start of a difference (?seconds=): the figures of a snapshot that profiles show. Names and labels come from the
 * snapshot at the end. A start takes a fifth of the memory of a snapshot. Several requests can share one.
 */
#ifndef JESPAN_HTTP_START_H
#define JESPAN_HTTP_START_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "snapshot/snapshot.h"

struct http_start_figures {
    uint64_t alloc_objects, alloc_bytes, inuse_objects, inuse_bytes, cpu;
};

struct http_start_row {
    uint32_t id, generation;
    struct http_start_figures figures;
};

struct http_start {
    uint64_t taken_ns; /* on the monotonic clock. The owner sets this and `callers` */
    unsigned callers;
    pid_t pid;        /* of the process. The owner sets this and `began_ns`, as those of struct http_source */
    int64_t began_ns; /* of its program */
    uint64_t age_ns; /* time since tracking began */
    struct http_start_figures retired, all;
    uint32_t n_rows; /* without contexts that have no figures */
    struct http_start_row rows[];
};

/* The bytes of memory of a start for the snapshot. */
size_t http_start_bytes(const struct snapshot *s);

/* NULL: no memory. The caller calls free(). */
struct http_start *http_start_make(const struct snapshot *s);

/* Subtracts the start from `end`, a later snapshot, which is of no other use then. Figures in use may be negative.
 * Figures of recycled contexts are in `retired`. */
void http_start_subtract(const struct http_start *start, struct snapshot *end);

#endif
