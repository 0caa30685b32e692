/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters by thread and context: making them. */
#include "counters.h"

#include <errno.h>

#include "meta.h"

static struct counters *orphan_counters;

int counters_boot(uint32_t max_contexts)
{
    orphan_counters = meta_map((size_t)max_contexts / COUNTERS_PER_CHUNK * COUNTERS_CHUNK_BYTES);
    return orphan_counters ? 0 : -ENOMEM;
}

COLD struct counters *counters_make(struct thread *t, uint32_t context)
{
    struct counters *chunk = meta_alloc(COUNTERS_CHUNK_BYTES);
    if (!chunk)
        return NULL;
    store_release(&t->chunks[context >> COUNTERS_CHUNK_BITS], chunk);
    return &chunk[context & (COUNTERS_PER_CHUNK - 1)];
}

COLD struct counters *counters_orphan(uint32_t context)
{
    uint32_t number = context >> COUNTERS_CHUNK_BITS;
    struct counters *chunk = &orphan_counters[number * (COUNTERS_CHUNK_BYTES / sizeof *chunk)];
    store_release(&thread_orphan.chunks[number], chunk);
    return &chunk[context & (COUNTERS_PER_CHUNK - 1)];
}
