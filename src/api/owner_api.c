/* SPDX-License-Identifier: BSD-2-Clause */
/* Ownership: objects that are handed over, and JESPAN_FOR() blocks, which allocate for another. */
#include <errno.h>

#include "api/block.h"
#include "base/lock.h"
#include "malloc/track.h"
#include "span/age.h"

/* ---- Objects ---- */

/* What a caller means by a number: 0 when no such context exists. Without the lock, so the next moment it may not. */
static uint32_t named_context(const struct thread *t, jespan_context_t context)
{
    if (context == JESPAN_CURRENT)
        return t->tag;
    if (context == JESPAN_ROOT)
        return t->base;
    return tree_is_live(context) ? context : 0;
}

static int retag(struct thread *t, void *p, jespan_context_t number)
{
    uint32_t context = named_context(t, number);
    if (!context)
        return EINVAL;
    context = age_period_of(context);
    return context ? -track_retag(t, p, context) : ENOMEM;
}

EXPORT int jespan_retag(void *p, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (!p)
        return 0;
    if (!t)
        return ENOMEM;
    if (likely(tree_lockless))
        return retag(t, p, context);
    lock(LOCK_TREE);
    int error = retag(t, p, context);
    unlock(LOCK_TREE);
    return error;
}

/* ---- Blocks ---- */

/* Counts first, looks afterwards: see tree.h. */
static int enter_owner(struct thread *t, uint64_t key, jespan_context_t number)
{
    uint32_t context = named_context(t, number);
    context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    compiler_barrier();
    if (tree_is_live(context) && span_push(t, ENTRY_OWNER, key, context, c) == 0) {
        if (unlikely(tree_has_policy(context) || t->region))
            span_review(t);
        return 0;
    }
    span_undo_enter(c);
    return EINVAL;
}

EXPORT void jespan_owner_enter(struct jespan_scope *scope, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (unlikely(!scope))
        return;
    scope->entered = 0;
    if (unlikely(!t))
        return;
    uint64_t key = (uintptr_t)scope;
    block_drop_dead(t, key);
    if (likely(tree_lockless)) {
        scope->entered = enter_owner(t, key, context) == 0;
        return;
    }
    lock(LOCK_TREE);
    scope->entered = enter_owner(t, key, context) == 0;
    unlock(LOCK_TREE);
}

EXPORT void jespan_owner_exit(struct jespan_scope *scope)
{
    block_exit(scope, ENTRY_OWNER);
}
