/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans. A handle is a number (slot and generation), never an address: a stale or invented one is recognised.
 *
 * A slot's generation is odd while its span is open. After 2^30 spans in the same slot a number comes back. While the
 * span's context has an allocation policy, or the span is a region, the generation has HANDLE_HAS_POLICY added, so that the hot path does not
 * find it.
 */
#ifndef JESPAN_HANDLES_H
#define JESPAN_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "jespan/jespan.h"

#define HANDLE_HAS_POLICY 0x80000000u

struct slot {
    _Atomic uint32_t generation;
    _Atomic uint32_t context; /* changes under LOCK_TREE while the span is open: jespan_add_label() */
    uint32_t next_free;       /* index + 1 */
    uint32_t references;      /* LOCK_TREE */
    uint32_t born;            /* LOCK_TREE: the period that it was opened in, 0 where there are none */
    bool borrows;             /* LOCK_TREE: the context is an ancestor's */
    uint16_t region;          /* LOCK_TREE: its arena, 0 for a span that is no region */
    _Atomic uint64_t inside;  /* the region that the span was opened inside: arenas_place_in_time(); 0: none */
};
#define SLOTS_PER_CHUNK 1024u
#define CHUNKS_MAX 16384u
extern _Atomic(struct slot *) handle_chunks[CHUNKS_MAX];

HOT_INLINE struct slot *handle_slot_at(uint32_t index)
{
    struct slot *chunk =
        index < CHUNKS_MAX * SLOTS_PER_CHUNK ? load_acquire(&handle_chunks[index / SLOTS_PER_CHUNK]) : NULL;
    return chunk ? &chunk[index % SLOTS_PER_CHUNK] : NULL;
}

/* Open, without an allocation policy, and no region. */
HOT_INLINE bool handle_is_free(struct slot *slot, jespan_span_t *span)
{
    uint32_t generation = (uint32_t)((uintptr_t)span >> 32);
    return (generation & 1) && load_acquire(&slot->generation) == generation;
}

HOT_INLINE bool handle_is_open(struct slot *slot, jespan_span_t *span)
{
    uint32_t generation = (uint32_t)((uintptr_t)span >> 32);
    return (generation & 1) && (load_acquire(&slot->generation) & ~HANDLE_HAS_POLICY) == generation;
}

/* The slot of a handle that is open, else NULL. Needs no lock; may be outdated the next moment. */
HOT_INLINE struct slot *handle_slot(jespan_span_t *span)
{
    struct slot *slot = handle_slot_at((uint32_t)(uintptr_t)span - 1);
    return slot && handle_is_open(slot, span) ? slot : NULL;
}

/* Its span is of that context from now on. Under LOCK_TREE. */
void handle_set_context(struct slot *slot, uint32_t context);

/* What governs contexts has changed. Under LOCK_TREE. */
void handles_review(void);

/* Opens a span of `context`, its own or one that it borrows from an ancestor. Under LOCK_TREE. NULL when out of memory. */
jespan_span_t *handle_open(uint32_t context, bool borrows, uint16_t region);

/* Closes it and returns its context, 0 when it is not open. Under LOCK_TREE. */
uint32_t handle_close(jespan_span_t *span);

/* The period that the span is of (0: none) stays until it has another, so that what is born since cannot be taken for memory
 * that outlived it. Under LOCK_TREE; the span may be closed. */
void handle_set_period(struct slot *slot, uint32_t period);

/* One reference more, or less: then the span is closed with the last one, and *context is its context, else 0. Under
 * LOCK_TREE. Return 0, or -EINVAL for what is not an open span. */
int handle_ref(jespan_span_t *span);
int handle_unref(jespan_span_t *span, uint32_t *context);

/* The context of an open span, else 0. As outdated. */
HOT_INLINE uint32_t handle_context(jespan_span_t *span)
{
    struct slot *slot = handle_slot(span);
    uint32_t context = slot ? load_relaxed(&slot->context) : 0;
    return slot && handle_is_open(slot, span) ? context : 0;
}

#endif
