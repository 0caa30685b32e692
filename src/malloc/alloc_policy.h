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

#include "base/exceptions.h"
#include "heap/thread.h"
#include "malloc/peak_looks.h"
#include "malloc/probes.h"
#include "malloc/temporary.h"
#include "malloc/track.h"
#include "policy/arena_cache.h"
#include "policy/limits.h"

/* Begins a section and takes bytes of a new object from the thread's stock, if there is a limit. False: the stock does not have
 * them, or the thread would have to wait; nothing has changed. */
HOT_INLINE bool alloc_policy_begin(struct thread *t, uint64_t usable, uint32_t *section)
{
    if (unlikely(!limits_try_begin(t, section)))
        return false;
    uint32_t limit = limits_of(t->tag);
    if (likely(!limit) || likely(limits_take(t, limit, usable)))
        return true;
    limits_end_tried(t, *section);
    return false;
}

/* Takes an object of the class from the thread's magazine for the arena and counts it. NULL: the magazine is empty, or the
 * limit must be asked. */
HOT_INLINE void *alloc_policy_reuse_in_arena(struct thread *t, uint16_t arena, bool is_region, size_t class, size_t requested)
{
    struct arena_cache *c = arena_cache_of(t, arena);
    _Atomic(struct free_object *) *top = c ? &c->magazines->top[class] : NULL;
    struct free_object *object = likely(top) ? load_relaxed(top) : NULL;
    void *p = likely(object) && likely(c->place) ? object->p : NULL;
    uint64_t usable = class_bytes[class];
    uint32_t section;
    if (unlikely(!p) || unlikely(!alloc_policy_begin(t, usable, &section)))
        return NULL;
    store_relaxed(top, object - 1);
    header_set_fast(object->slot, false, t->tag);
    counters_add_alloc(t->current, usable, requested);
    limits_end_tried(t, section);
    arena_cache_count_alloc(c, usable);
    c->last = p;
    if (is_region) { /* its object is looked at before it is freed */
        region_note_alloc(c->region, p);
    } else {
        t->taken_in = c;
        t->taken_class = (uint32_t)class;
    }
    return p;
}

/* Whether nothing has to be looked at before an allocation. */
HOT_INLINE bool alloc_policy_is_settled(const struct thread *t)
{
    return likely(load_acquire(&thread_invalidations) == t->invalidations_seen) && likely(!t->notes);
}

/* Takes an object of the class from the thread's magazine and counts it. `region` is that of the thread. If there is a limit, the
 * thread's stock must have enough for the object. NULL: one of these conditions does not hold, and nothing has changed. Calls no
 * function, so callers need no stack frame. */
HOT_INLINE void *alloc_policy_reuse(struct thread *t, uint16_t region, size_t class, size_t requested)
{
    _Atomic(struct free_object *) *top = &t->magazine_top[class];
    struct free_object *object = load_relaxed(top);
    uint32_t section;
    if (unlikely(!alloc_policy_is_settled(t)))
        return NULL;
    uint16_t arena = region ? region : load_relaxed(&context_heads[t->tag].arena);
    if (unlikely(arena))
        return alloc_policy_reuse_in_arena(t, arena, region, class, requested);
    if (unlikely(!object->p || !alloc_policy_begin(t, magazine_bytes_beside(top), &section)))
        return NULL;
    store_relaxed(top, object - 1);
    store_relaxed(&t->taken_from, top);
    header_set_fast(object->slot, false, t->tag);
    counters_add_alloc(t->current, magazine_bytes_beside(top), requested);
    limits_end_tried(t, section);
    return object->p;
}

/* Begins a section, counts that the thread's context freed an object, and puts its bytes into the thread's stock. The caller ends
 * the section. False: the stock is full, or the thread would have to wait; nothing has changed, and no section was begun. */
HOT_INLINE bool alloc_policy_begin_free(struct thread *t, header_t *slot, uint64_t usable, uint32_t *section)
{
    if (unlikely(!limits_try_begin(t, section)))
        return false;
    uint32_t limit = limits_of(t->tag);
    if (limit && unlikely(!limits_try_give(t, limit, usable))) {
        limits_end_tried(t, *section);
        return false;
    }
    store_relaxed(slot, 0);
    counters_add_free(t->current, usable);
    return true;
}

/* Whether track_free_taken() could free this object, which lies above the top of a magazine. */
HOT_INLINE bool alloc_policy_was_taken(const struct thread *t, const struct free_object *taken, const void *p)
{
    return taken->p == p && likely(p) && likely(magazine_knows_headers(t)) && likely(header_is(taken->slot, t->tag)) &&
           likely(free_buffer_newest(t, load_relaxed(&t->free_buffer_count)) != p);
}

/* As track_free_taken(), with a policy: frees the object that the thread took last, from its magazine or from one for an arena. */
HOT_INLINE bool alloc_policy_free_taken(struct thread *t, void *p)
{
    _Atomic(struct free_object *) *top = load_relaxed(&t->taken_from);
    struct free_object *taken = magazine_taken(top);
    uint32_t section;
    if (!alloc_policy_was_taken(t, taken, p) || unlikely(!alloc_policy_begin_free(t, taken->slot, magazine_bytes_beside(top), &section)))
        return false;
    limits_end_tried(t, section);
    store_release(top, taken);
    return true;
}

HOT_INLINE bool alloc_policy_free_taken_in_arena(struct thread *t, struct arena_cache *c, void *p)
{
    if (unlikely(!c))
        return false;
    _Atomic(struct free_object *) *top = &c->magazines->top[t->taken_class];
    struct free_object *taken = magazine_taken(top);
    uint64_t usable = class_bytes[t->taken_class];
    uint32_t section;
    if (!alloc_policy_was_taken(t, taken, p) || unlikely(!c->place) || unlikely(!alloc_policy_begin_free(t, taken->slot, usable, &section)))
        return false;
    limits_end_tried(t, section);
    arena_cache_count_frees(c, 1, usable);
    store_release(top, taken);
    return true;
}

/* Puts a small object of a span arena into the free buffer. False: it is one of those that do not wait (track_free.c), or the buffer
 * is full; nothing has changed. */
HOT_INLINE bool alloc_policy_free_later_in_arena(struct thread *t, void *p, uint64_t entry, uint16_t arena)
{
    size_t n = load_relaxed(&t->free_buffer_count);
    struct arena_cache *c = arena_cache_of(t, arena);
    if (unlikely(n == FREE_BUFFER_MAX || !classes_of_arenas || !magazine_knows_headers(t)) ||
        unlikely(!c || c->last == p || arenas[arena].region || arenas_wipes(arena)))
        return false;
    track_free_later(t, n, p, page_entry_slot_any(entry, (uintptr_t)p), page_entry_class(entry) + CLASS_IN_ARENA);
    return true;
}

/* Frees a small object of the region that the thread is in, if the thread's context owns it. It goes to the region's magazine at
 * once, as the region may end while objects wait. False: it is not freed, but its bytes may be counted for the next look for peaks.
 * free_at_once() in track_free.c takes the same steps for objects of any context. */
HOT_INLINE bool alloc_policy_free_in_region(struct thread *t, void *p, uint64_t entry)
{
    struct arena_cache *c = arena_cache_of(t, t->region);
    struct free_object object = {p, page_entry_slot_any(entry, (uintptr_t)p)};
    size_t class = page_entry_class(entry), usable = class_bytes[class];
    uint32_t section;
    if (unlikely(!c || !arena_cache_has_room(c, class) || !header_is(object.slot, t->tag) || arenas_wipes(t->region)) ||
        unlikely(t->stacks || load_relaxed(&peak_looks_due) || load_relaxed(&probes_want_frees)) ||
        unlikely(!peak_looks_try_moved(t, usable)) || unlikely(!alloc_policy_begin_free(t, object.slot, usable, &section)))
        return false;
    limits_end_tried(t, section);
    exceptions_forget(p, usable);
    arena_cache_count_frees(c, 1, usable);
    region_note_free(c->region, p);
    arena_cache_put(c, class, object);
    return true;
}

/* Frees what lies in a page of a span arena. False: it is not small, or one of the two above returned that. */
HOT_INLINE bool alloc_policy_free_of_arena(struct thread *t, void *p, uint64_t entry)
{
    uint16_t arena = pagemap_claimed_by((uintptr_t)p);
    if (unlikely(!page_entry_is_small_any(entry) || !page_entry_starts_at(entry, (uintptr_t)p) || !arena))
        return false;
    return arena == t->region ? alloc_policy_free_in_region(t, p, entry) : alloc_policy_free_later_in_arena(t, p, entry, arena);
}

/* As track_free_fast(), and puts the bytes of an object that goes back to the magazine into the thread's stock. False:
 * call track_free_slow(). */
HOT_INLINE bool alloc_policy_free(struct thread *t, void *p)
{
    struct small_object o;
    uint32_t section;
    if (unlikely(t->notes))
        return false;
    if (load_relaxed(&context_heads[t->tag].arena) ? alloc_policy_free_taken_in_arena(t, t->taken_in, p) : alloc_policy_free_taken(t, p))
        return true;
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (entry & PAGE_ENTRY_ARENA)
        return alloc_policy_free_of_arena(t, p, entry);
    if (unlikely(!track_find_small_at(t, p, entry, &o)))
        return false;
    if (!track_was_taken_last(t, p, &o))
        return track_put_in_buffer(t, p, &o);
    if (unlikely(!alloc_policy_begin_free(t, o.slot, class_bytes[o.class], &section)))
        return false;
    limits_end_tried(t, section);
    track_put_back(t, &o);
    return true;
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
void *alloc_stack_aligned_quick(struct thread *t, size_t alignment, size_t size); /* a power of two */

/* Frees the object that the thread took from a magazine last, if it belongs to the stack of the thread's last allocation. It
 * goes back to the magazine at once, as track_free_taken() puts back what belongs to the thread's context. False: nothing has
 * changed. */
HOT_INLINE bool alloc_stack_free(struct thread *t, void *p)
{
    _Atomic(struct free_object *) *taken_from = load_relaxed(&t->taken_from);
    struct free_object *taken = magazine_taken(taken_from);
    uint32_t tag = t->stack_tag, section;
    if (taken->p != p)
        return false;
    bool is_big = magazine_bytes_beside(taken_from) > HEADER_PAGE_BYTES;
    if (unlikely(!p || !magazine_knows_headers(t) || !tag || header_get(taken->slot, is_big) != tag ||
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
