/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations by threads in a context with an allocation policy: from a span arena, or within a limit.
 *
 * thread_fast.alloc is NULL on such a thread (span_review()), so malloc's one branch leads here. Programs without arenas and
 * limits pay nothing for them.
 */
#ifndef JESPAN_ALLOC_POLICY_H
#define JESPAN_ALLOC_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"
#include "malloc/temporary.h"
#include "malloc/track.h"
#include "policy/limits.h"

/* Whether the thread's allocations have no policy, or only a limit. */
HOT_INLINE bool has_limit_only(const struct thread *t)
{
    return likely(load_acquire(&thread_invalidations) == t->invalidations_seen && !t->region && !t->notes &&
                  !load_relaxed(&context_heads[t->tag].arena));
}

/* Takes an object of the class from the thread's magazine and counts it. If there is a limit, the thread's stock must
 * have enough for it. NULL: one of these conditions does not hold, and nothing has changed. Calls no function, so
 * callers need no stack frame. */
HOT_INLINE void *alloc_policy_reuse(struct thread *t, size_t class, size_t requested)
{
    _Atomic(struct free_object *) *top = &t->magazine_top[class];
    struct free_object *object = load_relaxed(top);
    uint32_t section;
    if (unlikely(!object->p || !has_limit_only(t) || !limits_try_begin(t, &section)))
        return NULL;
    uint32_t limit = limits_of(t->tag);
    if (limit && unlikely(!limits_take(t, limit, magazine_bytes_beside(top)))) {
        limits_end_tried(t, section);
        return NULL;
    }
    store_relaxed(top, object - 1);
    store_relaxed(&t->taken_from, top);
    header_set_fast(object->slot, false, t->tag);
    counters_add_alloc(t->current, magazine_bytes_beside(top), requested);
    limits_end_tried(t, section);
    return object->p;
}

/* As track_free_fast(), and puts the bytes of an object that goes back to the magazine into the thread's stock. False:
 * call track_free_slow(). */
HOT_INLINE bool alloc_policy_free(struct thread *t, void *p)
{
    struct small_object o;
    uint32_t section;
    if (unlikely(!track_find_small(t, p, &o) || t->notes))
        return false;
    if (!track_was_taken_last(t, p, &o))
        return track_put_in_buffer(t, p, &o);
    if (unlikely(!limits_try_begin(t, &section)))
        return false;
    uint32_t limit = limits_of(t->tag);
    bool given = !limit || limits_try_give(t, limit, class_bytes[o.class]);
    if (likely(given))
        track_count_freed(t, &o);
    limits_end_tried(t, section);
    if (likely(given))
        track_put_back(t, &o);
    return given;
}

/* Allocates as jemalloc's mallocx(), by the policy of the thread's context. The size may be 0, and t NULL. Returns NULL
 * with ENOMEM if there is no memory or a limit is reached. */
void *alloc_policy_alloc(struct thread *t, size_t size, int flags);

/* The same in the given region, whatever region the thread is in; 0: in none. */
void *alloc_policy_alloc_in(struct thread *t, uint16_t region, size_t size, int flags);

/* As alloc_policy_alloc(), for a call of the malloc family that returns to `return_address`. Memory that libc allocates
 * for itself is not put into a region (libc_calls.h). */
void *alloc_policy_alloc_for(struct thread *t, size_t size, int flags, const void *return_address);

/* Asks limits whether an object may grow in place by `bytes`. Returns 1 if so, and holds the bytes if the owner has a
 * limit; 0 if it may not grow there, but elsewhere; -ENOMEM if refused. Then call alloc_policy_end_growth() with the
 * n_held of before. */
int alloc_policy_admits_growth(struct thread *t, void *p, size_t bytes);
static inline void alloc_policy_end_growth(struct thread *t, uint32_t held_before)
{
    if (t && unlikely(t->n_held > held_before))
        limits_drop(t);
}

/* ---- Threads that take stacks: span/stack_context.h ---- */

static inline bool alloc_stack_is_used(const struct thread *t)
{
    return t && t->stacks;
}

/* As alloc_policy_alloc_for(), for the malloc family, which reaches this function by a jump. So the stack begins with
 * the caller of malloc. */
void *alloc_stack_alloc(struct thread *t, size_t size, int flags);

/* The same for thread_fast.alloc_stacks: a thread that takes all stacks and has no policy. `flags` are 0 or MALLOCX_ZERO. */
void *alloc_stack_alloc_quick(struct thread *t, size_t size, int flags);

/* Frees the object that the thread took from a magazine last, if it belongs to the stack of the thread's last allocation. It
 * goes back to the magazine at once, as track_free_taken() puts back what belongs to the thread's context. False: nothing has
 * changed. */
HOT_INLINE bool alloc_stack_free(struct thread *t, void *p)
{
    _Atomic(struct free_object *) *taken_from = load_relaxed(&t->taken_from);
    struct free_object *taken = magazine_taken(taken_from);
    uint32_t tag = t->stack_tag, section;
    bool is_big = magazine_bytes_beside(taken_from) > HEADER_PAGE_BYTES;
    if (unlikely(taken->p != p || !p || !magazine_knows_headers(t) || !tag || header_get(taken->slot, is_big) != tag ||
                 free_buffer_newest(t, load_relaxed(&t->free_buffer_count)) == p || !limits_try_begin(t, &section)))
        return false;
    bool is_free = likely(!limits_of(tag));
    if (is_free) {
        store_relaxed(taken->slot, 0);
        counters_add_free(t->stack_counters, magazine_bytes_beside(taken_from));
        counters_moved(t, tag);
        store_release(taken_from, taken);
    }
    limits_end_tried(t, section);
    if (is_free)
        temporary_after_free(t, p, tag, t->stack_counters);
    return is_free;
}

/* After stack_context_enter(): allocates in the thread's context as it is. */
void *alloc_stack_alloc_more(struct thread *t, size_t size, int flags);

/* ---- Guarded objects: guard/guard.h ---- */

/* Returns a guarded object, which is counted; NULL if it cannot be guarded, or if the context has an allocation policy. To
 * be called when guard_sample_wants() one. */
void *alloc_guarded(struct thread *t, size_t size, int flags);

#endif
