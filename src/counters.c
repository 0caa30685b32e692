/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters by thread and context: making them. */
#include "counters.h"

#include <errno.h>

#include "meta.h"

static struct counters *orphan_counters;

int counters_boot(uint32_t max_contexts)
{
    orphan_counters = meta_map((size_t)max_contexts * sizeof *orphan_counters);
    return orphan_counters ? 0 : -ENOMEM;
}

COLD struct counters *counters_make(struct thread *t, uint32_t context)
{
    struct counters *chunk = meta_alloc(COUNTERS_PER_CHUNK * sizeof *chunk);
    if (!chunk)
        return NULL;
    store_release(&t->chunks[context >> COUNTERS_CHUNK_BITS], chunk);
    return &chunk[context & (COUNTERS_PER_CHUNK - 1)];
}

COLD struct counters *counters_orphan(uint32_t context)
{
    uint32_t first = context & ~(COUNTERS_PER_CHUNK - 1);
    store_release(&thread_orphan.chunks[context >> COUNTERS_CHUNK_BITS], &orphan_counters[first]);
    return &orphan_counters[context];
}
