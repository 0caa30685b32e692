/* SPDX-License-Identifier: BSD-2-Clause */
/* A bump allocator for jespan's own memory. */
#include "base/bump.h"

#include "base/die.h"
#include "base/meta.h"

struct bump_chunk {
    struct bump_chunk *next;
    size_t used;
};

void *bump_alloc(struct bump *r, size_t bytes)
{
    jespan_assert(bytes <= META_CHUNK_BYTES / 2);
    struct bump_chunk *c = r->chunks;
    if (!c || META_CHUNK_BYTES - c->used < bytes) {
        c = meta_map(META_CHUNK_BYTES);
        if (!c)
            return NULL;
        *c = (struct bump_chunk){r->chunks, sizeof *c};
        r->chunks = c;
    }
    c->used += bytes;
    return (char *)c + c->used - bytes;
}

void bump_free(struct bump *r)
{
    while (r->chunks) {
        struct bump_chunk *c = r->chunks;
        r->chunks = c->next;
        meta_unmap(c, META_CHUNK_BYTES);
    }
}
