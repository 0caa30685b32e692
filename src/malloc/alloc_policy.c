/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations by threads in a context with an allocation policy. */
#include "malloc/alloc_policy.h"

#include <errno.h>
#include <string.h>

#include "base/libc_calls.h"
#include "base/mailbox.h"
#include "guard/guard.h"
#include "guard/guard_sample.h"
#include "heap/large.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "malloc/early.h"
#include "malloc/peak_looks.h"
#include "malloc/probes.h"
#include "malloc/temporary.h"
#include "malloc/track.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/span.h"
#include "span/stack_context.h"
#include "span/stack_find.h"
#include "span/tree.h"

#define ALIGN_MASK 63         /* of MALLOCX_LG_ALIGN() */
#define ARENA_SHIFT 20        /* of MALLOCX_ARENA(), which stores the arena's number + 1 there */
#define ARENA_MASK (~0u << ARENA_SHIFT)

/* jemalloc's mallocx() does not take a size of 0. */
static size_t at_least_1(size_t size)
{
    return size ? size : 1;
}

/* The class of a small object with no flag but MALLOCX_ZERO. Otherwise a class of 0 bytes. */
static struct class_info plain_class(size_t size, int flags)
{
    return flags & ~MALLOCX_ZERO ? (struct class_info){CODE_BIG, 0} : class_of_request(size);
}

/* Counts a small object in the thread's current context. If the context came below a limit since the thread asked, that
 * limit is asked here. False: it refuses. */
HOT_INLINE bool count_small(struct thread *t, header_t *slot, size_t usable, size_t requested)
{
    uint32_t section = limits_begin(t);
    while (unlikely(limits_of(t->tag)) && unlikely(!limits_has_held(t))) {
        limits_end(t, section);
        if (limits_hold(t, t->tag, usable, false) == LIMITS_REFUSED)
            return false;
        section = limits_begin(t);
    }
    header_set_fast(slot, false, t->tag);
    counters_add_alloc(t->current, usable, requested);
    if (limits_has_held(t))
        limits_use(t, usable);
    limits_end(t, section);
    return true;
}

static COLD void *refuse_late(void *p)
{
    jespan_je_dallocx(p, MALLOCX_TCACHE_NONE);
    errno = ENOMEM;
    return NULL;
}

/* Allocates as malloc.c does, from the magazine if possible, without a span arena. */
static void *alloc_without_arena(struct thread *t, size_t size, int flags)
{
    struct class_info info = plain_class(size, flags);
    struct free_object *object = t && info.bytes ? magazine_take(t, CODE_CLASS(info.code)) : NULL;
    if (!object && t && info.bytes && track_may_begin_again(t, CODE_CLASS(info.code)))
        object = magazine_take(t, CODE_CLASS(info.code));
    void *p = object ? object->p : NULL;
    if (likely(p) && unlikely(!count_small(t, object->slot, info.bytes, size)))
        return refuse_late(p);
    if (likely(p))
        return flags ? memset(p, 0, info.bytes) : p;
    if (t && info.bytes)
        magazine_was_empty(t, CODE_CLASS(info.code));
    unsigned arena = (unsigned)flags >> ARENA_SHIFT;
    if (unlikely(arena))
        extents_watch_arena(arena - 1);
    if (unlikely(!t))
        extents_note_stranger();
    p = flags || !size ? LARGE_OR_AGAIN(jespan_je_mallocx(at_least_1(size), flags)) : large_malloc(size);
    if (unlikely(!p))
        errno = ENOMEM;
    page_entry_t *page = t && p && info.bytes ? pagemap_page_of((uintptr_t)p) : NULL;
    uint64_t entry = page ? load_acquire(page) : 0;
    if (unlikely(page_entry_code(entry) != info.code) || !page)
        return track_alloc_slow(t, p, size);
    return likely(count_small(t, page_entry_slot(entry, (uintptr_t)p), info.bytes, size)) ? p : refuse_late(p);
}

/* Counts a new object in a page of a span arena. The quick way is for small objects if the thread has a cache of the
 * arena. NULL: a limit refuses the object. */
HOT_INLINE void *count_in_arena(struct thread *t, struct arena_cache *arena_cache, void *p, struct class_info info, size_t requested)
{
    uint64_t entry = load_acquire(pagemap_page_of((uintptr_t)p));
    if (unlikely(!info.bytes || !arena_cache || page_entry_plain_code(entry) != info.code))
        return track_alloc_usable(t, p, requested, info.bytes ? info.bytes : jespan_je_sallocx(p, 0));
    if (unlikely(!count_small(t, page_entry_slot_any(entry, (uintptr_t)p), info.bytes, requested)))
        return track_refuse(t, p, info.bytes);
    arena_cache_count_alloc(arena_cache, info.bytes);
    arena_cache->last = p;
    return p;
}

/* Flushes the free buffer and tries again. If the arena has a limit of its own (limit_bytes), empties the thread's
 * cache and purges the arena too. */
static COLD void *alloc_after_flush(struct thread *t, uint16_t arena, size_t size, int flags)
{
    if (!(load_relaxed(&t->free_buffer_sequence) & 1))
        track_flush_any(t);
    large_give_back();
    void *p = jespan_je_mallocx(size, flags);
    if (p || !load_relaxed(&arenas[arena].extents.limit_bytes))
        return p;
    arena_cache_give_back(t, arena);
    p = jespan_je_mallocx(size, flags);
    arenas_count_refusals(arena, !p);
    return p;
}

static void *alloc_at(struct thread *t, uint16_t arena, int place, size_t size, int flags)
{
    struct arena_cache *arena_cache = arena_cache_of(t, arena);
    void *p = jespan_je_mallocx(at_least_1(size), flags | place);
    if (unlikely(!p))
        p = alloc_after_flush(t, arena, at_least_1(size), flags | place);
    if (unlikely(!p)) {
        errno = ENOMEM;
        return load_relaxed(&arenas[arena].extents.limit_bytes) ? NULL : track_alloc_slow(t, NULL, size);
    }
    struct class_info info = plain_class(size, flags);
    p = count_in_arena(t, arena_cache, p, info, size);
    if (p && info.bytes && arena_cache && arena_cache->region)
        region_note_alloc(arena_cache->region, p);
    if (likely(p && arena_cache) && info.bytes && arena_cache->place && arena_cache_is_tcache(place) && !arenas_wipes(arena) &&
        !load_relaxed(&arenas[arena].extents.limit_bytes))
        peak_looks_moved(t, arena_cache_refill(arena_cache, info));
    return p;
}

static void *alloc_in_arena(struct thread *t, uint16_t arena, size_t size, int flags)
{
    const struct arena_cache *arena_cache = arena_cache_of(t, arena);
    int place = arena_cache ? arena_cache->place : 0;
    if (unlikely(!place) && !arena_cache_find_place(t, arena, &place))
        return alloc_without_arena(t, size, flags);
    return alloc_at(t, arena, place, size, flags);
}

static COLD void *alloc_without_cache(struct thread *t, uint16_t arena, size_t size, int flags)
{
    int place;
    if (!arena_cache_find_place(t, arena, &place))
        return alloc_without_arena(t, size, flags | MALLOCX_TCACHE_NONE);
    return alloc_at(t, arena, (place & ~PLACE_TCACHE) | MALLOCX_TCACHE_NONE, size, flags);
}

/* An arena that the program chose by flags is used, unless it is a region's, which only jespan may allocate from. If
 * the program chose no cache, none is used. A cache that it chose is not used, since that may hold objects of other
 * arenas. */
static void *alloc(struct thread *t, uint16_t arena, size_t size, int flags)
{
    unsigned chosen = (unsigned)flags >> ARENA_SHIFT;
    if (unlikely(chosen) && arenas_is_regions(chosen - 1))
        flags &= (int)~ARENA_MASK;
    if (!arena || (unsigned)flags & ARENA_MASK)
        return alloc_without_arena(t, size, flags);
    bool without_cache = (flags & PLACE_TCACHE) == MALLOCX_TCACHE_NONE;
    flags &= ~PLACE_TCACHE;
    return unlikely(without_cache) ? alloc_without_cache(t, arena, size, flags) : alloc_in_arena(t, arena, size, flags);
}

/* 0: no object can be that large. */
static size_t usable_of(size_t size, int flags)
{
    size_t usable = plain_class(size, flags).bytes;
    return usable ? usable : jespan_je_nallocx(at_least_1(size), flags & ALIGN_MASK);
}

static NOINLINE void *alloc_with_limit(struct thread *t, uint16_t arena, size_t size, int flags)
{
    struct class_info info = plain_class(size, flags);
    size_t usable = info.bytes ? info.bytes : usable_of(size, flags);
    if (unlikely(t->event_due)) {
        t->event_due = false;
        boot_slow_event(t);
        mailbox_look_or_start();
    }
    enum limits_answer answer = usable ? limits_hold(t, t->tag, usable, false) : LIMITS_REFUSED;
    if (answer == LIMITS_REFUSED) {
        errno = ENOMEM;
        return NULL;
    }
    uint32_t held = t->n_held;
    void *p = alloc(t, arena, size, flags);
    if (unlikely(answer == LIMITS_HELD && t->n_held == held))
        limits_drop(t);
    return p;
}

static COLD void *alloc_without_block(size_t size, int flags)
{
    if (unlikely(boot_is_under_way()))
        return early_alloc(size, (size_t)1 << (flags & ALIGN_MASK));
    if (track_may_allocate(NULL))
        return alloc_without_arena(NULL, size, flags);
    errno = ENOMEM;
    return NULL;
}

HOT_INLINE bool is_invalidated(const struct thread *t)
{
    return unlikely(load_acquire(&thread_invalidations) != t->invalidations_seen);
}

static NOINLINE void review(struct thread *t)
{
    boot_look_at_new_name(t);
    span_review(t);
}

/* After an invalidation, finds t->region and the policy again from what the thread has entered. */
HOT_INLINE void review_if_invalidated(struct thread *t)
{
    if (is_invalidated(t))
        review(t);
}

/* The same before an allocation. A guarded sample that is due has the effect of an invalidation. */
static NOINLINE void *review_and_guard(struct thread *t, size_t size, int flags)
{
    if (load_acquire(&thread_invalidations) != t->invalidations_seen + t->guard_due)
        review(t);
    return unlikely(guard_sample_wants(t)) ? alloc_guarded(t, size, flags) : NULL;
}

/* Allocates from the magazine as alloc_policy_reuse(). NULL also where the flags ask for something else. */
HOT_INLINE void *reuse(struct thread *t, size_t size, int flags)
{
    if (flags & ~MALLOCX_ZERO)
        return NULL;
    size_t class = class_number_of(size);
    void *p = alloc_policy_reuse(t, t->region, class, size);
    return p && flags ? memset(p, 0, t->magazine_object_bytes[class]) : p;
}

static void *alloc_by_policy(struct thread *t, size_t size, int flags)
{
    const struct context_head *c = &context_heads[t->tag];
    uint16_t limit = load_relaxed(&c->limit), arena = t->region ? t->region : load_relaxed(&c->arena);
    void *p = limit || arena ? reuse(t, size, flags) : NULL;
    if (!p && arena && unlikely(track_may_wait(t)) && size <= HEADER_PAGE_BYTES && track_flush_waiting(t, class_number_of(size)))
        p = reuse(t, size, flags);
    if (p)
        return p;
    return limit ? alloc_with_limit(t, arena, size, flags) : alloc(t, arena, size, flags);
}

void *alloc_policy_alloc(struct thread *t, size_t size, int flags)
{
    void *p;
    if (likely(t)) {
        p = is_invalidated(t) ? review_and_guard(t, size, flags) : NULL;
        if (likely(!p))
            p = alloc_by_policy(t, size, flags);
    } else {
        p = alloc_without_block(size, flags);
    }
    track_publish_alloc(t, p);
    return p;
}

COLD void *alloc_policy_alloc_in(struct thread *t, uint16_t region, size_t size, int flags)
{
    review_if_invalidated(t);
    uint16_t own = t->region;
    t->region = region;
    void *p = alloc_by_policy(t, size, flags);
    t->region = own;
    track_publish_alloc(t, p);
    return p;
}

void *alloc_policy_alloc_for(struct thread *t, size_t size, int flags, const void *return_address)
{
    if (unlikely(t && t->region && libc_calls(return_address)))
        return alloc_policy_alloc_in(t, 0, size, flags);
    return alloc_policy_alloc(t, size, flags);
}

/* Growth is charged to the object's owner. Afterwards the object becomes the resizing context's, if that context's
 * limits admit it: track_resized(). So if the limit of another owner refuses, the object may still grow elsewhere. */
int alloc_policy_admits_growth(struct thread *t, void *p, size_t bytes)
{
    uint32_t owner = track_context(p);
    if (!tree_is_live(owner) || !limits_of(owner))
        return 1;
    if (!t)
        return 0;
    bool is_own = limits_of(owner) == limits_of(t->tag);
    bool is_held = limits_hold(t, owner, bytes, !is_own) != LIMITS_REFUSED;
    return is_held ? 1 : is_own ? -ENOMEM : 0;
}

/* ---- Threads that take stacks ---- */

void *alloc_stack_alloc_more(struct thread *t, size_t size, int flags)
{
    void *p = reuse(t, size, flags);
    return likely(p) ? p : alloc_policy_alloc(t, size, flags);
}

/* Allocates in the child that was entered, and leaves it. */
HOT_INLINE void *alloc_and_leave(struct thread *t, size_t size, int flags, const struct stack_hold *hold, const void *return_address)
{
    void *p = likely(!t->region) ? reuse(t, size, flags) : NULL;
    if (unlikely(!p))
        p = alloc_policy_alloc_for(t, size, flags, return_address);
    stack_context_leave(t, hold);
    if (unlikely(hold->is_sample))
        probes_alloc(p, size);
    temporary_after_alloc(t, p, hold->stack);
    return p;
}

NOINLINE void *alloc_stack_alloc(struct thread *t, size_t size, int flags)
{
    struct stack_hold hold;
    stack_context_enter(t, __builtin_frame_address(0), size, &hold);
    return alloc_and_leave(t, size, flags, &hold, __builtin_return_address(0));
}

/* The same for a child that the quick way has entered. */
static NOINLINE void *alloc_stack_entered(struct thread *t, size_t size, int flags, struct stack_entered stack)
{
    struct stack_hold hold = {.stack = stack.tag, .counters = stack.counters};
    stack_context_hold(t, &hold);
    return alloc_and_leave(t, size, flags, &hold, __builtin_return_address(0));
}

/* Takes an object from the magazine for a stack that the thread has entered. NULL: the magazine is empty, or another thread
 * has just set a limit. */
__attribute__((no_sanitize("address", "thread"), always_inline)) /* as its caller: see unwind.c */
static inline void *reuse_for_stack(struct thread *t, size_t size, size_t class, uint32_t tag, struct counters *c)
{
    _Atomic(struct free_object *) *top = &t->magazine_top[class];
    struct free_object *object = load_relaxed(top);
    uint32_t section;
    if (unlikely(!object->p) || unlikely(!limits_try_begin(t, &section)))
        return NULL;
    bool is_taken = likely(!limits_of(tag));
    if (is_taken) {
        store_relaxed(top, object - 1);
        store_relaxed(&t->taken_from, top);
        header_set_fast(object->slot, false, tag);
        counters_add_alloc(c, magazine_bytes_beside(top), size);
    }
    limits_end_tried(t, section);
    return is_taken ? object->p : NULL;
}

/* Counts an object from jemalloc for a stack that the thread has entered. False: its page has no header table of the class, or there may be
 * a limit. */
HOT_INLINE bool count_for_stack(struct thread *t, void *p, size_t size, const struct stack_entered *stack)
{
    struct class_info info = class_of(size);
    page_entry_t *page = likely(p) ? pagemap_page_of((uintptr_t)p) : NULL;
    uint64_t entry = likely(page) ? load_acquire(page) : 0;
    uint32_t section;
    if (unlikely(!page) || unlikely(page_entry_code(entry) != info.code) || unlikely(!limits_try_begin(t, &section)))
        return false;
    bool is_counted = likely(!limits_of(stack->tag));
    if (is_counted) {
        header_set_fast(page_entry_slot(entry, (uintptr_t)p), false, stack->tag);
        counters_add_alloc(stack->counters, info.bytes, size);
    }
    limits_end_tried(t, section);
    return is_counted;
}

/* Leaves the stack after an allocation that did not change the thread's tag. */
HOT_INLINE void leave_stack(struct thread *t, const void *p, const struct stack_entered *stack)
{
    span_undo_enter(stack->counters);
    t->stack_tag = stack->tag;
    t->stack_counters = stack->counters;
    if (unlikely(!temporary_keep(t, p)))
        temporary_count(t, p, stack->tag);
}

static COLD void *count_for_stack_slow(struct thread *t, void *p, size_t size, struct stack_entered stack)
{
    struct stack_hold hold = {.stack = stack.tag, .counters = stack.counters};
    stack_context_hold(t, &hold);
    p = track_alloc_slow(t, p, size);
    stack_context_leave(t, &hold);
    temporary_after_alloc(t, p, stack.tag);
    return p;
}

/* For a small object of which the magazine has none: as malloc_new() in malloc.c. */
static NOINLINE void *alloc_stack_new(struct thread *t, size_t size, size_t class, int flags, struct stack_entered stack)
{
    void *p = NULL;
    if (track_may_begin_again(t, class))
        p = reuse_for_stack(t, size, class, stack.tag, stack.counters);
    if (likely(p)) {
        leave_stack(t, p, &stack);
        return flags ? memset(p, 0, t->magazine_object_bytes[class]) : p;
    }
    magazine_was_empty(t, class);
    p = flags ? large_calloc(size) : large_malloc(size);
    if (unlikely(!count_for_stack(t, p, size, &stack)))
        return count_for_stack_slow(t, p, size, stack);
    leave_stack(t, p, &stack);
    return p;
}

/* alloc_stack_alloc() does all that is not usual. The thread's tag stays that of its context. */
__attribute__((no_sanitize("address", "thread"), always_inline)) /* it reads the stack itself: layout_is_same() */
static inline void *alloc_quick(struct thread *t, size_t size, size_t class, int flags, const void *frame)
{
    struct stack_entered stack = stack_enter_known(t, frame, size);
    if (unlikely(!stack.counters))
        return alloc_stack_alloc(t, size, flags);
    void *p = reuse_for_stack(t, size, class, stack.tag, stack.counters);
    if (unlikely(!p) && likely(class) && likely(!(flags & ~MALLOCX_ZERO)))
        return alloc_stack_new(t, size, class, flags, stack);
    if (unlikely(!p))
        return alloc_stack_entered(t, size, flags, stack);
    leave_stack(t, p, &stack);
    return flags & MALLOCX_ZERO ? memset(p, 0, t->magazine_object_bytes[class]) : p;
}

/* Both are reached by a jump, as alloc_stack_alloc(). */
__attribute__((no_sanitize("address", "thread")))
NOINLINE void *alloc_stack_alloc_quick(struct thread *t, size_t size, int flags)
{
    return alloc_quick(t, size, class_number_of(size), flags, __builtin_frame_address(0));
}

__attribute__((no_sanitize("address", "thread")))
NOINLINE void *alloc_stack_aligned_quick(struct thread *t, size_t alignment, size_t size)
{
    size_t class = CODE_CLASS(class_of_aligned_request(alignment, size).code);
    return alloc_quick(t, size, class, MALLOCX_ALIGN(alignment), __builtin_frame_address(0));
}

/* ---- Guarded objects ---- */

#define ALIGN_MASK 63 /* of MALLOCX_LG_ALIGN() */

/* An allocation policy, and a program that chooses arena or cache, decide where objects lie. jespan's own allocations
 * are not guarded, since they are not the program's. */
static bool may_be_guarded(const struct thread *t, int flags)
{
    return !(flags & ~(ALIGN_MASK | MALLOCX_ZERO)) && !t->region && !tree_has_policy(t->tag) && !contexts[t->tag].is_own;
}

COLD void *alloc_guarded(struct thread *t, size_t size, int flags)
{
    size_t usable;
    if (!may_be_guarded(t, flags) || size > GUARD_SLOT_BYTES)
        return NULL;
    void *p = guard_alloc(t, size, (size_t)1 << (flags & ALIGN_MASK), guard_sample_is_left(t), &usable);
    guard_sample_done(t);
    span_review(t);
    if (p && flags & MALLOCX_ZERO)
        memset(p, 0, usable);
    return p ? track_alloc_guarded(t, p, size, usable) : NULL;
}
