/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters by thread and context: finding, making and summing them.
 *
 * A block's chunks are made by its owner and never go away. The orphan's lie in one mapping made at boot, so that there
 * is always a place to count a free, whatever memory is left.
 */
#ifndef JESPAN_COUNTERS_H
#define JESPAN_COUNTERS_H

#include "thread.h"
#include "totals.h"

/* Once. Returns 0 or -ENOMEM. */
int counters_boot(uint32_t max_contexts);

/* NULL where this thread never counted anything for the context. */
HOT_INLINE struct counters *counters_find(const struct thread *t, uint32_t context)
{
    struct counters *chunk = load_acquire(&t->chunks[context >> COUNTERS_CHUNK_BITS]);
    return likely(chunk) ? &chunk[context & (COUNTERS_PER_CHUNK - 1)] : NULL;
}

/* Makes them where they are missing; NULL when out of memory. Only the owner may call it. */
struct counters *counters_make(struct thread *t, uint32_t context);

HOT_INLINE struct counters *counters_get(struct thread *t, uint32_t context)
{
    struct counters *c = counters_find(t, context);
    return likely(c) ? c : counters_make(t, context);
}

/* The other half. */
HOT_INLINE struct counters_more *counters_more(struct counters *c)
{
    return (struct counters_more *)(c + COUNTERS_PER_CHUNK);
}

HOT_INLINE void counters_add_alloc(struct counters *c, uint64_t usable_bytes, uint64_t requested_bytes)
{
    own_add(&c->alloc_objects, 1);
    own_add(&c->alloc_bytes, usable_bytes);
    own_add(&c->alloc_requested_bytes, requested_bytes);
}

HOT_INLINE void counters_add_free(struct counters *c, uint64_t usable_bytes)
{
    own_add_release(&c->free_objects, 1);
    own_add_release(&c->free_bytes, usable_bytes);
}

/* The orphan's counters of a context. Under LOCK_ORPHAN. */
struct counters *counters_orphan(uint32_t context);

#endif
