/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of our own in pieces that go back all at once. One thread at a time. */
#ifndef JESPAN_ROOM_H
#define JESPAN_ROOM_H

#include <stddef.h>

struct bump_chunk;

/* All zero: nothing taken yet. */
struct bump {
    struct bump_chunk *chunks;
};

/* Of at most META_CHUNK_BYTES / 2; a multiple of 8 keeps what follows aligned. NULL: no memory. */
void *bump_alloc(struct bump *r, size_t bytes);
void bump_free(struct bump *r);

#endif
