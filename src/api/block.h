/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks: what JESPAN() and JESPAN_FOR() have in common. The address of a block's struct jespan_scope is its key. */
#ifndef JESPAN_BLOCK_H
#define JESPAN_BLOCK_H

#include "jespan/jespan.h"
#include "span/span.h"

static inline bool block_is_one(const struct entry *entry)
{
    return entry_kind(entry) == ENTRY_SCOPE || entry_kind(entry) == ENTRY_OWNER;
}

/* A block at this address was left without its end (longjmp): it cannot be entered twice. */
HOT_INLINE void block_drop_dead(struct thread *t, uint64_t key)
{
    while (t->depth && unlikely(t->entries[t->depth - 1].key == key) && block_is_one(&t->entries[t->depth - 1]))
        span_remove(t, t->depth - 1);
}

/* Blocks inside this one are over too, however they were left, and so is what was attached in them; spans entered inside and
 * not exited stay. */
static COLD __attribute__((unused)) void block_exit_outer(struct thread *t, enum entry_kind kind, uint64_t key)
{
    int64_t index = span_find(t, kind, key);
    for (int64_t i = (int64_t)t->depth - 1; index >= 0 && i >= index; i--)
        if (i == index || block_is_one(&t->entries[i]))
            span_remove(t, (uint32_t)i);
}

/* On a thread that has entered something with an allocation policy, or has entered nothing. */
static COLD __attribute__((unused)) void block_exit_by_policy(enum entry_kind kind, uint64_t key)
{
    struct thread *t = thread_current;
    if (!t)
        return;
    block_exit_outer(t, kind, key);
    span_review(t);
}

HOT_INLINE void block_exit(struct jespan_scope *scope, enum entry_kind kind)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!scope || !scope->entered))
        return;
    if (unlikely(!t))
        block_exit_by_policy(kind, (uintptr_t)scope);
    else if (likely(span_is_innermost(t, kind, (uintptr_t)scope)))
        span_pop(t, kind);
    else
        block_exit_outer(t, kind, (uintptr_t)scope);
}

/* jespan_close() of a region whose block is over: one that would refuse, for its survivors, is set aside. */
int span_close_anyway(jespan_span_t *span);

#endif
