/* SPDX-License-Identifier: BSD-2-Clause */
/* What is entered on a thread, and the context that follows from it. The public span API is in span_api.c. */
#ifndef JESPAN_SPAN_H
#define JESPAN_SPAN_H

#include <errno.h>

#include "heap/counters.h"
#include "heap/thread.h"
#include "heap/timing.h"
#include "span/tree.h"

/* Makes `context` the one outside any span on this thread, in place of the former base. Takes LOCK_TREE.
 * Returns 0 or -ENOMEM. */
int span_set_base(struct thread *t, uint32_t context);

/* Where ages are kept: what is born on this thread from now on belongs to the present period, though the thread stays
 * where it is. */
void span_grow_older(struct thread *t);

/* The base for a thread of this name. Returns 0 or -ENOMEM. */
int span_set_base_by_name(struct thread *t, const char *name);

/* Leaves everything that is entered, and the base. For a thread that ends; or one that fork(2) left behind, whose clocks
 * are not to be had any more. */
void span_leave_all(struct thread *t);
void span_abandon_all(struct thread *t);

/* The calling thread looks whether anything that it has entered has an allocation policy; if so it goes the cold ways from here on, where
 * alloc_policy.h has its say. To be called after anything with an allocation policy may have been entered or left. */
void span_review(struct thread *t);

/* The same when one entry was put on top of what was looked at before, and at no cost by what is below. */
void span_review_innermost(struct thread *t);

/* From here to span_leave_self() the thread's allocations are jespan's own. Return 0 or -ENOMEM; nothing to leave then. */
int span_enter_self(struct thread *t);
void span_leave_self(struct thread *t);

/* Counts that the thread is inside `context`. NULL: no memory. */
HOT_INLINE struct counters *span_count_enter(struct thread *t, uint32_t context)
{
    struct counters *c = counters_get(t, context);
    if (likely(c))
        own_add(&c->enters, 1);
    return c;
}

HOT_INLINE void span_count_exit(struct counters *c)
{
    own_add_release(&c->exits, 1);
}

/* As if it had not been counted. */
static inline void span_undo_enter(struct counters *c)
{
    own_add_release(&c->enters, (uint64_t)-1);
}

/* Makes room for one more entry. Returns 0 or -ENOMEM. */
int span_make_room(struct thread *t);

/* Enters `context`, whose enter was counted in `c`, so that it cannot be recycled. Returns 0 or -ENOMEM. */
HOT_INLINE int span_push(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c)
{
    if (unlikely(t->depth == t->capacity) && span_make_room(t))
        return -ENOMEM;
    struct counters *timed = kind == ENTRY_OWNER ? t->timed : c;
    struct entry *e = &t->entries[t->depth++];
    e->key = key;
    e->counters = c;
    e->timed = timed;
    e->context = context;
    e->kind = kind;
    t->tag = context;
    t->current = c;
    if (kind == ENTRY_OWNER)
        return 0;
    uint64_t now = timing_switch(t, c);
    if (kind == ENTRY_SCOPE)
        timing_open_scope(c, now);
    return 0;
}

/* Takes the innermost entry, of this kind, out and counts the exit: last, since from there on the context may be
 * recycled. */
HOT_INLINE void span_pop(struct thread *t, enum entry_kind kind)
{
    struct counters *c = t->entries[--t->depth].counters, *timed = t->base_counters;
    t->tag = t->base;
    t->current = t->base_counters;
    if (likely(t->depth)) {
        const struct entry *innermost = &t->entries[t->depth - 1];
        t->tag = innermost->context;
        t->current = innermost->counters;
        timed = innermost->timed;
    }
    if (kind != ENTRY_OWNER) {
        uint64_t now = timing_switch(t, timed);
        if (kind == ENTRY_SCOPE)
            timing_close_scope(c, now);
    }
    span_count_exit(c);
}

/* Never of an entry that was moved to another period: that takes span_remove(). */
HOT_INLINE bool span_is_innermost(const struct thread *t, enum entry_kind kind, uint64_t key)
{
    return t->depth && t->entries[t->depth - 1].key == key && t->entries[t->depth - 1].kind == kind;
}

/* Takes the entry at `index` out, wherever it is, and what was attached while it was innermost. */
void span_remove(struct thread *t, uint32_t index);

/* The entries of that kind and key are in `context` from now on, whose counters are `c`, as if they were exited and
 * entered; a block ends there and begins here. Under LOCK_TREE. */
void span_move(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c);

/* The innermost entry of that kind and key; −1 when there is none. */
int64_t span_find(const struct thread *t, enum entry_kind kind, uint64_t key);

#endif
