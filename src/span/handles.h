/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans, in an array of records that are reused. A handle is a number, record and generation, and no address. So
 * stale and invented handles are recognised.
 *
 * A record's generation is odd while its span is open. A number comes again after 2^30 spans in the same record. While
 * the span's context has an allocation policy, or the span is a region, the generation also has HANDLE_HAS_POLICY, so
 * the hot path does not find it.
 */
#ifndef JESPAN_HANDLES_H
#define JESPAN_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "jespan/jespan.h"

#define HANDLE_HAS_POLICY 0x80000000u

struct open_span {
    _Atomic uint32_t generation;
    _Atomic uint32_t context; /* changes under LOCK_TREE while the span is open: jespan_add_label() */
    uint32_t next_free;       /* index + 1 */
    uint32_t references;      /* LOCK_TREE */
    uint32_t born;            /* LOCK_TREE: the period in which it was opened; 0: none */
    bool borrows;             /* LOCK_TREE: the context belongs to an ancestor */
    _Atomic uint16_t region;  /* its arena if it is a region, else 0; set under LOCK_TREE when it is opened */
    _Atomic uint64_t inside;  /* the region in which the span was opened: arenas_place_in_time(); 0: none */
};
#define SPANS_PER_CHUNK 1024u
#define CHUNKS_MAX 16384u
extern _Atomic(struct open_span *) handle_chunks[CHUNKS_MAX];

HOT_INLINE struct open_span *handle_at(uint32_t index)
{
    struct open_span *chunk =
        index < CHUNKS_MAX * SPANS_PER_CHUNK ? load_acquire(&handle_chunks[index / SPANS_PER_CHUNK]) : NULL;
    return chunk ? &chunk[index % SPANS_PER_CHUNK] : NULL;
}

/* Whether the span is open, has no allocation policy, and is no region. */
HOT_INLINE bool handle_is_free(struct open_span *record, jespan_span_t *span)
{
    uint32_t generation = (uint32_t)((uintptr_t)span >> 32);
    return (generation & 1) && load_acquire(&record->generation) == generation;
}

HOT_INLINE bool handle_is_open(struct open_span *record, jespan_span_t *span)
{
    uint32_t generation = (uint32_t)((uintptr_t)span >> 32);
    return (generation & 1) && (load_acquire(&record->generation) & ~HANDLE_HAS_POLICY) == generation;
}

/* The record of an open span, or NULL. Needs no lock. The answer may be outdated the next moment. */
HOT_INLINE struct open_span *handle_find(jespan_span_t *span)
{
    struct open_span *record = handle_at((uint32_t)(uintptr_t)span - 1);
    return record && handle_is_open(record, span) ? record : NULL;
}

/* Whether the span is open and a region. Without the lock, the answer may be that of a later span of the record; then the
 * handle is no longer valid. */
HOT_INLINE bool handle_is_region(jespan_span_t *span)
{
    const struct open_span *record = handle_find(span);
    return record && load_relaxed(&record->region);
}

/* Moves the span to another context. Under LOCK_TREE. */
void handle_set_context(struct open_span *record, uint32_t context);

/* The allocation policies of contexts have changed. Under LOCK_TREE. */
void handles_review(void);

/* Opens a span of `context`, which is its own or borrowed from an ancestor. Returns NULL when out of memory. Under
 * LOCK_TREE. */
jespan_span_t *handle_open(uint32_t context, bool borrows, uint16_t region);

/* Closes a span. Returns its context, or 0 where it is not open. Under LOCK_TREE. */
uint32_t handle_close(jespan_span_t *span);

/* Sets the period of the span (0: none), which may be closed. That period counts as in use until the span has another.
 * So its new memory cannot be taken for memory that outlived it. Under LOCK_TREE. */
void handle_set_period(struct open_span *record, uint32_t period);

/* Add and remove a reference. Without references the span is closed, and *context is its context; else *context is 0.
 * Return 0, or -EINVAL where the span is not open. Under LOCK_TREE. */
int handle_ref(jespan_span_t *span);
int handle_unref(jespan_span_t *span, uint32_t *context);

/* The context of an open span, or 0. Needs no lock. The answer may be outdated the next moment. */
HOT_INLINE uint32_t handle_context(jespan_span_t *span)
{
    struct open_span *record = handle_find(span);
    uint32_t context = record ? load_relaxed(&record->context) : 0;
    return record && handle_is_open(record, span) ? context : 0;
}

#endif
