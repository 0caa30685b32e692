/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans, in records that are reused but never unmapped. */
#include "span/handles.h"

#include <errno.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "span/tree.h"

_Atomic(struct open_span *) handle_chunks[CHUNKS_MAX];
static uint32_t made, first_free; /* LOCK_TREE */

static struct open_span *make_record(uint32_t *index)
{
    if (made == CHUNKS_MAX * SPANS_PER_CHUNK)
        return NULL;
    if (!handle_at(made)) {
        struct open_span *chunk = meta_alloc(SPANS_PER_CHUNK * sizeof *chunk);
        if (!chunk)
            return NULL;
        store_release(&handle_chunks[made / SPANS_PER_CHUNK], chunk);
    }
    *index = made++;
    return handle_at(*index);
}

static struct open_span *take_record(uint32_t *index)
{
    if (!first_free)
        return make_record(index);
    *index = first_free - 1;
    struct open_span *record = handle_at(*index);
    first_free = record->next_free;
    return record;
}

/* The generation for a record whose handle has this generation: with HANDLE_HAS_POLICY, or without. */
static uint32_t by_policy(const struct open_span *record, uint32_t generation)
{
    bool has_policy = load_relaxed(&record->region) || tree_has_policy(load_relaxed(&record->context));
    return (generation & ~HANDLE_HAS_POLICY) | (has_policy ? HANDLE_HAS_POLICY : 0);
}

jespan_span_t *handle_open(uint32_t context, bool borrows, uint16_t region)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t index;
    struct open_span *record = take_record(&index);
    if (!record)
        return NULL;
    uint32_t generation = load_relaxed(&record->generation) + 1;
    generation &= ~HANDLE_HAS_POLICY;
    record->borrows = borrows;
    store_relaxed(&record->region, region);
    store_relaxed(&record->inside, 0);
    store_relaxed(&record->context, context);
    record->references = 1;
    record->born = 0;
    store_release(&record->generation, by_policy(record, generation));
    return (jespan_span_t *)(uintptr_t)((uint64_t)generation << 32 | (index + 1));
}

uint32_t handle_close(jespan_span_t *span)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct open_span *record = handle_find(span);
    if (!record)
        return 0;
    store_release(&record->generation, (load_relaxed(&record->generation) + 1) & ~HANDLE_HAS_POLICY);
    record->next_free = first_free;
    first_free = (uint32_t)(uintptr_t)span;
    return load_relaxed(&record->context);
}

void handle_set_context(struct open_span *record, uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    store_relaxed(&record->context, context);
    store_release(&record->generation, by_policy(record, load_relaxed(&record->generation)));
}

COLD void handles_review(void)
{
    for (uint32_t i = 0; i < made; i++) {
        struct open_span *record = handle_at(i);
        if (load_relaxed(&record->generation) & 1)
            handle_set_context(record, load_relaxed(&record->context));
    }
}

int handle_ref(jespan_span_t *span)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct open_span *record = handle_find(span);
    if (!record || record->references == UINT32_MAX)
        return -EINVAL;
    record->references++;
    return 0;
}

int handle_unref(jespan_span_t *span, uint32_t *context)
{
    struct open_span *record = handle_find(span);
    if (!record)
        return -EINVAL;
    jespan_assert(record->references);
    *context = --record->references ? 0 : handle_close(span);
    return 0;
}

void handle_set_period(struct open_span *record, uint32_t period)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (record->born) {
        jespan_assert(contexts[record->born].open_spans);
        contexts[record->born].open_spans--;
    }
    record->born = period;
    if (period)
        contexts[period].open_spans++;
}
