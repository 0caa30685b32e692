/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans: slots that are reused but never unmapped. */
#include "handles.h"

#include "compiler.h"
#include "meta.h"

#define SLOTS_PER_CHUNK 1024u
#define CHUNKS_MAX 16384u

struct slot {
    _Atomic uint32_t generation;
    _Atomic uint32_t context;
    uint32_t next_free; /* index + 1 */
};

static _Atomic(struct slot *) chunks[CHUNKS_MAX];
static uint32_t made, first_free; /* LOCK_TREE */

static struct slot *slot_at(uint32_t index)
{
    struct slot *chunk = index < CHUNKS_MAX * SLOTS_PER_CHUNK ? load_acquire(&chunks[index / SLOTS_PER_CHUNK]) : NULL;
    return chunk ? &chunk[index % SLOTS_PER_CHUNK] : NULL;
}

/* The slot of a handle that is open, else NULL. */
static struct slot *slot_of(jespan_span_t *span)
{
    uint64_t number = (uintptr_t)span;
    struct slot *slot = slot_at((uint32_t)number - 1);
    uint32_t generation = (uint32_t)(number >> 32);
    return slot && (generation & 1) && load_acquire(&slot->generation) == generation ? slot : NULL;
}

static struct slot *make_slot(uint32_t *index)
{
    if (made == CHUNKS_MAX * SLOTS_PER_CHUNK)
        return NULL;
    if (!slot_at(made)) {
        struct slot *chunk = meta_alloc(SLOTS_PER_CHUNK * sizeof *chunk);
        if (!chunk)
            return NULL;
        store_release(&chunks[made / SLOTS_PER_CHUNK], chunk);
    }
    *index = made++;
    return slot_at(*index);
}

static struct slot *take_slot(uint32_t *index)
{
    if (!first_free)
        return make_slot(index);
    *index = first_free - 1;
    struct slot *slot = slot_at(*index);
    first_free = slot->next_free;
    return slot;
}

jespan_span_t *handle_open(uint32_t context)
{
    uint32_t index;
    struct slot *slot = take_slot(&index);
    if (!slot)
        return NULL;
    uint32_t generation = load_relaxed(&slot->generation) + 1;
    store_relaxed(&slot->context, context);
    store_release(&slot->generation, generation);
    return (jespan_span_t *)(uintptr_t)((uint64_t)generation << 32 | (index + 1));
}

uint32_t handle_close(jespan_span_t *span)
{
    struct slot *slot = slot_of(span);
    if (!slot)
        return 0;
    store_release(&slot->generation, load_relaxed(&slot->generation) + 1);
    slot->next_free = first_free;
    first_free = (uint32_t)(uintptr_t)span;
    return load_relaxed(&slot->context);
}

uint32_t handle_context(jespan_span_t *span)
{
    struct slot *slot = slot_of(span);
    uint32_t context = slot ? load_relaxed(&slot->context) : 0;
    return slot_of(span) ? context : 0;
}
