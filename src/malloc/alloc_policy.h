/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations on threads that have entered a context with an allocation policy: from a span arena, or within a limit.
 *
 * Such a thread's thread_fast is NULL (span_review()), so that malloc and its kin come here with no question asked on
 * their own way: programs without arenas and limits pay nothing for them.
 */
#ifndef JESPAN_GOVERNED_H
#define JESPAN_GOVERNED_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"
#include "malloc/track.h"
#include "policy/limit.h"

/* Whether something governs what the thread allocates now. */
static inline bool alloc_policy_is_used(const struct thread *t)
{
    return t && !load_relaxed(&thread_fast);
}

/* Whether nothing governs what the thread allocates, but for a limit perhaps. */
HOT_INLINE bool has_limit_only(const struct thread *t)
{
    return likely(load_acquire(&thread_invalidations) == t->invalidations_seen && !t->region && !t->publishes && !load_relaxed(&contexts[t->tag].arena));
}

/* An object of the class that the thread freed before, accounted for and within what the thread has in stock where there is a limit. NULL: it is not as
 * simple as that, and nothing has changed. Calls nothing, so that whoever calls it needs no stack. */
HOT_INLINE void *alloc_policy_reuse(struct thread *t, struct class_info info, size_t requested)
{
    struct free_object *kept = load_relaxed(&t->magazine_top[CODE_CLASS(info.code)]);
    uint32_t section;
    if (unlikely(!kept->p || !has_limit_only(t) || !limits_try_begin(t, &section)))
        return NULL;
    uint32_t limit = limits_of(t->tag);
    if (limit && unlikely(!limits_take(t, limit, info.bytes))) {
        limits_end_tried(t, section);
        return NULL;
    }
    store_relaxed(&t->magazine_top[CODE_CLASS(info.code)], kept - 1);
    store_relaxed(kept->slot, t->tag);
    counters_add_alloc(t->current, info.bytes, requested);
    limits_end_tried(t, section);
    return kept->p;
}

/* As track_free_fast(), and what goes back at once is uncharged into the thread's stock. False: track_free_slow(). */
HOT_INLINE bool alloc_policy_free(struct thread *t, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (unlikely(!entry_is_small(entry) || t->publishes))
        return false;
    header_t *slot = entry_slot(entry, (uintptr_t)p);
    struct free_object *last = magazine_last(t, entry_class(entry));
    uint32_t n = load_relaxed(&t->free_buffer_count), section;
    if (last->p != p || unlikely(load_relaxed(slot) != t->tag) ||
        unlikely(load_relaxed(&t->free_buffer_object[(n - 1) % PENDING_MAX]) == p)) {
        if (unlikely(n == PENDING_MAX || last[-1].p == p))
            return false;
        track_free_later(t, p, slot, entry_class(entry));
        return true;
    }
    if (unlikely(!limits_try_begin(t, &section)))
        return false;
    uint32_t bytes = class_bytes[entry_class(entry)], limit = limits_of(t->tag);
    bool given = !limit || limits_try_give(t, limit, bytes);
    if (likely(given)) {
        store_relaxed(slot, 0);
        counters_add_free(t->current, bytes);
    }
    limits_end_tried(t, section);
    if (unlikely(!given))
        return false;
    last->slot = slot;
    magazine_put_last(t, entry_class(entry), last);
    return true;
}

/* As jemalloc's mallocx(), also for a size of 0, in whatever context the thread is. t may be NULL. NULL with ENOMEM: there is no
 * memory, or a limit is reached. */
void *alloc_policy_alloc(struct thread *t, size_t size, int flags);

/* The same in a region that need not be the thread's own, 0: in none. */
void *alloc_policy_alloc_in(struct thread *t, uint16_t region, size_t size, int flags);

/* As alloc_policy_alloc(), for who called malloc, calloc and the like, which return there. In a region, what libc allocates for itself
 * is not the region's (libc_calls.h). */
void *alloc_policy_alloc_for(struct thread *t, size_t size, int flags, const void *return_address);

/* Whether limits let an object grow in place by so many bytes: 1, and they are held for the owner where it has a limit; 0:
 * not there; -ENOMEM: refused. Afterwards alloc_policy_end_growth(), with what was held before. */
int alloc_policy_admits_growth(struct thread *t, void *p, size_t bytes);
static inline void alloc_policy_end_growth(struct thread *t, uint32_t held_before)
{
    if (t && unlikely(t->n_held > held_before))
        limits_drop(t);
}

#endif
