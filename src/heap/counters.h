/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters by thread and context.
 *
 * The owner of a thread block allocates its chunks, which are never freed. The chunks of the orphan are mapped before a
 * context gets its number, so a free can always be counted, even without memory.
 */
#ifndef JESPAN_COUNTERS_H
#define JESPAN_COUNTERS_H

#include "base/totals.h"
#include "heap/thread.h"

/* To be called once. Returns 0 or -ENOMEM. */
int counters_boot(uint32_t max_contexts);

/* Maps the orphan's counters of all contexts below `end`. Returns false when out of memory. Under LOCK_TREE. */
bool counters_grow_orphan(uint32_t end);

/* Returns NULL where this thread never counted anything for the context. */
HOT_INLINE struct counters *counters_find(const struct thread *t, uint32_t context)
{
    struct counters *chunk = load_acquire(&t->chunks[context >> COUNTERS_CHUNK_BITS]);
    return likely(chunk) ? &chunk[context & (COUNTERS_PER_CHUNK - 1)] : NULL;
}

/* Tells readers that counters of the context's chunk changed, so that they need not read all chunks each time (snapshot/sums_kept.h).
 * Only the owner may call it, in one of two places:
 *
 * - after it has counted an enter. From then on until the exit is counted, which is the last that is counted, it counts what it
 *   likes: a reader that saw the enter, and no exit, reads the chunk again.
 * - after it has counted anything outside of such a time. */
HOT_INLINE void counters_moved(struct thread *t, uint32_t context)
{
    own_add_release(&t->moved[context >> COUNTERS_CHUNK_BITS], 1);
}

/* Allocates the counters of the context. Returns NULL when out of memory. Only the owner may call it. */
struct counters *counters_make(struct thread *t, uint32_t context);

HOT_INLINE struct counters *counters_get(struct thread *t, uint32_t context)
{
    struct counters *c = counters_find(t, context);
    return likely(c) ? c : counters_make(t, context);
}

HOT_INLINE struct counters_chunk *counters_chunk(struct counters *c)
{
    return (struct counters_chunk *)((uintptr_t)c & ~(uintptr_t)(COUNTERS_PAGE_BYTES - 1));
}

HOT_INLINE uint32_t counters_index(const struct counters *c)
{
    return (uint32_t)((uintptr_t)c & (COUNTERS_PAGE_BYTES - 1)) / (uint32_t)sizeof *c;
}

HOT_INLINE _Atomic uint64_t *counters_cpu(struct counters *c)
{
    return &counters_chunk(c)->cpu[counters_index(c)];
}

/* The rarer counters, which must be in use. */
HOT_INLINE struct counters_more *counters_more(struct counters *c)
{
    return &counters_chunk(c)->more[counters_index(c)];
}

/* Puts the rarer counters to use, and returns them. Only the owner may call it. */
static inline struct counters_more *counters_use_more(struct counters *c)
{
    struct counters_chunk *chunk = counters_chunk(c);
    uint32_t used = load_relaxed(&chunk->more_used), bit = 1u << counters_index(c);
    if (!(used & bit))
        store_relaxed(&chunk->more_used, used | bit);
    return counters_more(c);
}

/* The rarer counters, for a reader. NULL: they are not in use. */
static inline struct counters_more *counters_used_more(struct counters *c)
{
    return load_relaxed(&counters_chunk(c)->more_used) >> counters_index(c) & 1 ? counters_more(c) : NULL;
}

/* Only the owner may call it. */
static inline void counters_add_temporary(struct counters *c, uint64_t objects)
{
    struct counters_chunk *chunk = counters_chunk(c);
    if (unlikely(!load_relaxed(&chunk->has_temporary)))
        store_relaxed(&chunk->has_temporary, 1);
    own_add(&chunk->temporary_objects[counters_index(c)], objects);
}

static inline uint64_t counters_temporary(struct counters *c)
{
    struct counters_chunk *chunk = counters_chunk(c);
    return likely(!load_relaxed(&chunk->has_temporary)) ? 0 : load_relaxed(&chunk->temporary_objects[counters_index(c)]);
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
