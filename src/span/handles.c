/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans, in slots that are reused but never unmapped. */
#include "span/handles.h"

#include <errno.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "span/tree.h"

_Atomic(struct slot *) handle_chunks[CHUNKS_MAX];
static uint32_t made, first_free; /* LOCK_TREE */

static struct slot *make_slot(uint32_t *index)
{
    if (made == CHUNKS_MAX * SLOTS_PER_CHUNK)
        return NULL;
    if (!handle_slot_at(made)) {
        struct slot *chunk = meta_alloc(SLOTS_PER_CHUNK * sizeof *chunk);
        if (!chunk)
            return NULL;
        store_release(&handle_chunks[made / SLOTS_PER_CHUNK], chunk);
    }
    *index = made++;
    return handle_slot_at(*index);
}

static struct slot *take_slot(uint32_t *index)
{
    if (!first_free)
        return make_slot(index);
    *index = first_free - 1;
    struct slot *slot = handle_slot_at(*index);
    first_free = slot->next_free;
    return slot;
}

/* The generation for a slot whose handle has this generation: with HANDLE_HAS_POLICY, or without. */
static uint32_t by_policy(const struct slot *slot, uint32_t generation)
{
    bool has_policy = slot->region || tree_has_policy(load_relaxed(&slot->context));
    return (generation & ~HANDLE_HAS_POLICY) | (has_policy ? HANDLE_HAS_POLICY : 0);
}

jespan_span_t *handle_open(uint32_t context, bool borrows, uint16_t region)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t index;
    struct slot *slot = take_slot(&index);
    if (!slot)
        return NULL;
    uint32_t generation = load_relaxed(&slot->generation) + 1;
    generation &= ~HANDLE_HAS_POLICY;
    slot->borrows = borrows;
    slot->region = region;
    store_relaxed(&slot->inside, 0);
    store_relaxed(&slot->context, context);
    slot->references = 1;
    slot->born = 0;
    store_release(&slot->generation, by_policy(slot, generation));
    return (jespan_span_t *)(uintptr_t)((uint64_t)generation << 32 | (index + 1));
}

uint32_t handle_close(jespan_span_t *span)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct slot *slot = handle_slot(span);
    if (!slot)
        return 0;
    store_release(&slot->generation, (load_relaxed(&slot->generation) + 1) & ~HANDLE_HAS_POLICY);
    slot->next_free = first_free;
    first_free = (uint32_t)(uintptr_t)span;
    return load_relaxed(&slot->context);
}

void handle_set_context(struct slot *slot, uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    store_relaxed(&slot->context, context);
    store_release(&slot->generation, by_policy(slot, load_relaxed(&slot->generation)));
}

COLD void handles_review(void)
{
    for (uint32_t i = 0; i < made; i++) {
        struct slot *slot = handle_slot_at(i);
        if (load_relaxed(&slot->generation) & 1)
            handle_set_context(slot, load_relaxed(&slot->context));
    }
}

int handle_ref(jespan_span_t *span)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct slot *slot = handle_slot(span);
    if (!slot || slot->references == UINT32_MAX)
        return -EINVAL;
    slot->references++;
    return 0;
}

int handle_unref(jespan_span_t *span, uint32_t *context)
{
    struct slot *slot = handle_slot(span);
    if (!slot)
        return -EINVAL;
    jespan_assert(slot->references);
    *context = --slot->references ? 0 : handle_close(span);
    return 0;
}

void handle_set_period(struct slot *slot, uint32_t period)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (slot->born) {
        jespan_assert(contexts[slot->born].open_spans);
        contexts[slot->born].open_spans--;
    }
    slot->born = period;
    if (period)
        contexts[period].open_spans++;
}
