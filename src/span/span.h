/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of a thread, and its current context, which follows from them. The public API is in src/api. */
#ifndef JESPAN_SPAN_H
#define JESPAN_SPAN_H

#include <errno.h>

#include "heap/counters.h"
#include "heap/thread.h"
#include "heap/timing.h"
#include "jespan/jespan.h"
#include "span/tree.h"

/* Makes `context` the base context of this thread. Takes LOCK_TREE. Returns 0 or -ENOMEM. */
int span_set_base(struct thread *t, uint32_t context);

/* Moves the thread to the present period, if ages are kept: its new memory belongs to that period from now on. The
 * thread's entries stay. */
void span_grow_older(struct thread *t);

/* Sets the base context by the thread's name. Returns 0 or -ENOMEM. */
int span_set_base_by_name(struct thread *t, const char *name);

/* Remove all entries and the base context. span_leave_all() is for a thread that ends. span_abandon_all() is for a
 * thread that a forked child does not have, whose clocks cannot be read any more. */
void span_leave_all(struct thread *t);
void span_abandon_all(struct thread *t);

/* Looks whether any entry of the calling thread has an allocation policy. If so, the thread takes the slow path from
 * now on: alloc_policy.h. To be called after something with an allocation policy may have been entered or left. */
void span_review(struct thread *t);

/* The same after one entry was pushed. It looks only at that entry. */
void span_review_innermost(struct thread *t);

/* Until span_leave_self() the thread's allocations belong to "(jespan)". Returns 0, or -ENOMEM, and then there is
 * nothing to leave. */
int span_enter_self(struct thread *t);
void span_leave_self(struct thread *t);

/* The context that a caller of the API names by a number; 0: there is none. Without LOCK_TREE it may be gone the next moment. The number
 * may be a guess, so what was written of a context that was just made is acquired. */
static inline uint32_t span_context_named(const struct thread *t, jespan_context_t number)
{
    if (number == JESPAN_CURRENT)
        return t->tag;
    if (number == JESPAN_BASE)
        return t->base;
    return number < load_acquire(&tree_next_id) && tree_is_live(number) ? number : 0;
}

/* Counts an enter of `context`. Returns NULL when out of memory. */
HOT_INLINE struct counters *span_count_enter(struct thread *t, uint32_t context)
{
    struct counters *c = counters_get(t, context);
    if (likely(c)) {
        own_add(&c->enters, 1);
        counters_moved(t, context);
    }
    return c;
}

HOT_INLINE void span_count_exit(struct counters *c)
{
    own_add_release(&c->exits, 1);
}

/* Undoes the count of an enter. */
static inline void span_undo_enter(struct counters *c)
{
    own_add_release(&c->enters, (uint64_t)-1);
}

/* Makes room for one more entry. Returns 0 or -ENOMEM. */
int span_grow_entries(struct thread *t);

HOT_INLINE bool span_has_room(const struct thread *t)
{
    return likely(t->depth != t->capacity);
}

/* Puts an entry for `context` on top, where there is room. Its enter is already counted in `c`, so it cannot be recycled. Time
 * passes as before. */
HOT_INLINE void span_put(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c)
{
    struct counters *timed = kind == ENTRY_CREDIT ? t->timed : c;
    struct entry *e = &t->entries[t->depth++];
    e->key = key;
    e->counters = c;
    e->timed = timed;
    e->context = context;
    e->kind = kind;
    t->tag = context;
    t->current = c;
}

/* Puts an entry on top, after making room, and switches the time: `now` is of timing_now(), read before, and does not matter
 * for ENTRY_CREDIT. Returns 0 or -ENOMEM. */
HOT_INLINE int span_push_at(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c,
                            uint64_t now)
{
    if (unlikely(!span_has_room(t)) && span_grow_entries(t))
        return -ENOMEM;
    span_put(t, kind, key, context, c);
    if (kind == ENTRY_CREDIT)
        return 0;
    now = timing_switch_at(t, c, now);
    if (kind == ENTRY_BLOCK)
        timing_open_block(c, now);
    return 0;
}

HOT_INLINE int span_push(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c)
{
    return span_push_at(t, kind, key, context, c, timing_now());
}

/* Takes the innermost entry away, and tells for which counters time passes from now on. Returns those of the entry. */
HOT_INLINE struct counters *span_take(struct thread *t, struct counters **timed)
{
    struct counters *c = t->entries[--t->depth].counters;
    *timed = t->base_counters;
    t->tag = t->base;
    t->current = t->base_counters;
    if (likely(t->depth)) {
        const struct entry *innermost = &t->entries[t->depth - 1];
        t->tag = innermost->context;
        t->current = innermost->counters;
        *timed = innermost->timed;
    }
    return c;
}

/* Removes the innermost entry, which is of this kind. `now` is as above. It counts the exit last, since the context may be
 * recycled from then on. */
HOT_INLINE void span_pop_at(struct thread *t, enum entry_kind kind, uint64_t now)
{
    struct counters *timed, *c = span_take(t, &timed);
    if (kind != ENTRY_CREDIT) {
        now = timing_switch_at(t, timed, now);
        if (kind == ENTRY_BLOCK)
            timing_close_block(c, now);
    }
    span_count_exit(c);
}

/* Time passes for `to` from `now` on, then the exit from `left` is counted (NULL: none). Returns 0. For callers that call it
 * last, where the CPU clock may not stand. */
int span_switch_slowly(struct thread *t, struct counters *to, uint64_t now, struct counters *left);

/* Whether it is the entry that ends with an exit of that kind and key. False for an entry that was moved to another period,
 * since only span_remove() can remove it. */
HOT_INLINE bool span_is_entry(const struct entry *e, enum entry_kind kind, uint64_t key)
{
    return e->key == key && e->kind == kind;
}

/* Removes the entry at any `index`, and the entry that was attached while it was innermost. */
void span_remove(struct thread *t, uint32_t index);

/* Where the stack of the exported function's caller ends, for code that is inline in that function. */
HOT_INLINE uintptr_t span_end_of_caller(void)
{
    return (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *);
}

/* Whether the entry is a block that longjmp() left: its variable was in the frame of a function that is over, below `stack`, where the
 * caller's frame ends. What lies more than `bytes` below may belong to other stacks, those of coroutines or of signal handlers. */
#define LEFT_STACK_BYTES ((uintptr_t)1 << 20)
#define DEAD_STACK_BYTES ((uintptr_t)1 << 16)

HOT_INLINE bool span_is_left(const struct entry *e, uintptr_t stack, uintptr_t bytes)
{
    return unlikely(stack - e->key - 1 < bytes) && entry_is_block(e);
}

/* Removes blocks that are left, from those that were entered after the entry at `index`. */
void span_remove_left(struct thread *t, uint32_t index, uintptr_t stack, uintptr_t bytes);

/* Before a block with this key is entered: removes blocks with this key, since no block is entered twice, and those that were entered
 * after them and are left. */
void span_remove_dead(struct thread *t, uint64_t key, uintptr_t stack);

/* The same where it is likely that there are none. A block far above on the stack is one of a caller's, and is alive: the search ends
 * there, so recursion makes it no longer. */
#define FRAME_BYTES 4096

HOT_INLINE void span_drop_dead(struct thread *t, uint64_t key)
{
    for (const struct entry *e = t->entries + t->depth; e-- != t->entries && e->key < key + FRAME_BYTES;)
        if (unlikely(e->key == key)) {
            span_remove_dead(t, key, span_end_of_caller());
            return;
        }
}

/* Moves the entries of that kind and key to `context`, whose counters are `c`. It counts exits and enters. A JESPAN()
 * block ends in the old context and begins in the new one. Under LOCK_TREE. */
void span_move(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c);

/* The innermost entry of that kind and key; −1 when there is none. */
int64_t span_find(const struct thread *t, enum entry_kind kind, uint64_t key);

#endif
