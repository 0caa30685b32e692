/* SPDX-License-Identifier: BSD-2-Clause */
/* A bump allocator for jespan's own memory: it gives pieces and frees all of them at once. One thread at a time. */
#ifndef JESPAN_BUMP_H
#define JESPAN_BUMP_H

#include <stddef.h>

struct bump_chunk;

/* Zeroed, it is empty. */
struct bump {
    struct bump_chunk *chunks;
};

/* Returns zeroed memory, or NULL when the system has no more. `bytes` is at most META_CHUNK_BYTES / 2, and a multiple
 * of 8 where the next piece must be aligned. */
void *bump_alloc(struct bump *r, size_t bytes);
void bump_free(struct bump *r);

#endif
