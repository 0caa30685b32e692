/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters by thread and context: allocating them. */
#include "heap/counters.h"

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"

static struct meta_array orphan_chunks; /* of struct counters_chunk */

int counters_boot(uint32_t max_contexts)
{
    return meta_array_begin(&orphan_chunks, (size_t)max_contexts / COUNTERS_PER_CHUNK * sizeof(struct counters_chunk));
}

COLD bool counters_grow_orphan(uint32_t end)
{
    uint32_t chunks = (end + COUNTERS_PER_CHUNK - 1) / COUNTERS_PER_CHUNK;
    return meta_array_grow(&orphan_chunks, chunks * sizeof(struct counters_chunk));
}

COLD struct counters *counters_make(struct thread *t, uint32_t context)
{
    struct counters_chunk *chunk = meta_alloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    store_release(&t->chunks[context >> COUNTERS_CHUNK_BITS], chunk->counters);
    return &chunk->counters[context & (COUNTERS_PER_CHUNK - 1)];
}

COLD struct counters *counters_orphan(uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_ORPHAN));
    uint32_t number = context >> COUNTERS_CHUNK_BITS;
    struct counters *chunk = ((struct counters_chunk *)orphan_chunks.start)[number].counters;
    store_release(&thread_orphan.chunks[number], chunk);
    return &chunk[context & (COUNTERS_PER_CHUNK - 1)];
}
