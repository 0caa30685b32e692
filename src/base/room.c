/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of our own in pieces that go back all at once. */
#include "base/room.h"

#include "base/meta.h"

struct room_chunk {
    struct room_chunk *next;
    size_t used;
};

void *room_take(struct room *r, size_t bytes)
{
    struct room_chunk *c = r->chunks;
    if (!c || META_CHUNK_BYTES - c->used < bytes) {
        c = meta_map(META_CHUNK_BYTES);
        if (!c)
            return NULL;
        *c = (struct room_chunk){r->chunks, sizeof *c};
        r->chunks = c;
    }
    c->used += bytes;
    return (char *)c + c->used - bytes;
}

void room_free(struct room *r)
{
    while (r->chunks) {
        struct room_chunk *c = r->chunks;
        r->chunks = c->next;
        meta_unmap(c, META_CHUNK_BYTES);
    }
}
