/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of one context, summed over all threads. All are cumulative: in use is the difference of alloc and free.
 */
#ifndef JESPAN_TOTALS_H
#define JESPAN_TOTALS_H

#include <stdint.h>

struct totals {
    uint64_t alloc_objects;
    uint64_t alloc_bytes;           /* usable bytes */
    uint64_t alloc_requested_bytes; /* as asked for by the program */
    uint64_t free_objects;
    uint64_t free_bytes; /* usable bytes */
    uint64_t enters;
    uint64_t exits;
};

static inline uint64_t totals_inuse_objects(const struct totals *t)
{
    return t->alloc_objects - t->free_objects;
}

static inline uint64_t totals_inuse_bytes(const struct totals *t)
{
    return t->alloc_bytes - t->free_bytes;
}

#endif
