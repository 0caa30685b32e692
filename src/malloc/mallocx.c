/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's own allocation API, and resizing, which realloc uses too. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "guard/guard.h"
#include "jemalloc/binding.h"
#include "malloc/alloc_policy.h"
#include "malloc/early.h"
#include "malloc/family.h"
#include "malloc/probes.h"
#include "malloc/temporary.h"
#include "malloc/track.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/stack_context.h"

#define ALIGN_MASK 63 /* of MALLOCX_LG_ALIGN() */

EXPORT void *FAMILY(mallocx)(size_t size, int flags)
{
    if (likely(!flags))
        return FAMILY(malloc)(size);
    struct thread *t = track_thread();
    return unlikely(alloc_stack_is_used(t)) ? alloc_stack_alloc(t, size, flags) : alloc_policy_alloc(t, size, flags);
}

/* Whether an object of a span arena must move when it is resized, for one of two reasons. Where freed objects are
 * wiped, the bytes that are cut off must be wiped too. An object that is resized outside its region must not be
 * released with the region. */
static bool must_move(const struct thread *t, const void *p, bool is_cut)
{
    uint16_t arena = arenas_find(p);
    if (!arena || !arenas[arena].region)
        return arena && is_cut && arenas_wipes(arena);
    return (is_cut && arenas_wipes(arena)) || !t || t->region != arena || track_is_survivor(p);
}

/* Returns 1 if the object was resized where it is, with its new usable size in *usable: its size class is right
 * already, or jemalloc extended or trimmed it. Returns 0 if it has to move, -ENOMEM if a limit does not let it grow at
 * all. */
static int resize_in_place(struct thread *t, void *p, size_t size, int flags, size_t old_usable, size_t *usable)
{
    size_t alignment = (size_t)1 << (flags & ALIGN_MASK);
    if (guard_has(p)) { /* always moves, so that the old object is watched */
        track_check_live(p);
        return 0;
    }
    if ((uintptr_t)p & (alignment - 1) || early_has(p))
        return 0;
    size_t wanted = jespan_je_nallocx(size, flags);
    *usable = old_usable;
    if (wanted == 0 || (wanted != old_usable && (wanted <= HEADER_PAGE_BYTES || old_usable <= HEADER_PAGE_BYTES)))
        return 0; /* a small object never changes its class in place */
    if (old_usable <= HEADER_PAGE_BYTES || class_of_big(old_usable)) /* an object that moves is freed, which finds a double free */
        track_check_not_freed(t, p);
    if (unlikely(arenas) && must_move(t, p, wanted < old_usable))
        return 0;
    int admitted = wanted > old_usable ? alloc_policy_admits_growth(t, p, wanted - old_usable) : 1;
    if (unlikely(admitted <= 0))
        return admitted;
    if (wanted != old_usable || (flags & MALLOCX_ZERO))
        *usable = jespan_je_xallocx(p, size, 0, flags);
    return *usable == wanted;
}

static void free_with(void *p, int flags)
{
    if (!flags) {
        FAMILY(free)(p);
        return;
    }
    struct thread *t = track_thread();
    track_publish_free(t, p);
    track_free_now(t, p, flags);
}

static bool is_inside(const struct thread *t, uint16_t region)
{
    for (uint32_t i = 0; region && i < t->depth; i++)
        if (entry_region(&t->entries[i]) == region)
            return true;
    return false;
}

/* Allocates the new object on a thread that is in a region. If the old one is from outside, or was credited elsewhere, the new
 * one must not be in the region, since the owner does not know of it. If the old one is of an outer region, so is the
 * new one. */
static void *alloc_beside(struct thread *t, const void *p, size_t size, int flags)
{
    uint16_t from = arenas_find(p);
    return alloc_policy_alloc_in(t, is_inside(t, from) && !track_is_survivor(p) ? from : 0, size, flags);
}

HOT_INLINE void *resize(struct thread *t, void *p, size_t size, int flags)
{
    size_t old_usable = track_usable(p), usable;
    if (unlikely(!old_usable))
        track_free_now(t, p, 0); /* not an object of jespan: ends the program with the pointer's address */
    if (unlikely(!track_may_allocate(t))) {
        errno = ENOMEM;
        return NULL;
    }
    uint32_t held = t ? t->n_held : 0;
    int in_place = resize_in_place(t, p, size, flags, old_usable, &usable);
    if (in_place > 0)
        track_resized(t, p, old_usable, usable, size);
    alloc_policy_end_growth(t, held);
    if (in_place < 0)
        errno = ENOMEM;
    if (in_place)
        return in_place > 0 ? p : NULL;
    void *q = unlikely(t && t->region)            ? alloc_beside(t, p, size, flags)
              : unlikely(alloc_stack_is_used(t)) ? alloc_stack_alloc_more(t, size, flags)
              : flags                            ? FAMILY(mallocx)(size, flags)
                                                 : FAMILY(malloc)(size);
    if (unlikely(!q))
        return NULL;
    memcpy(q, p, old_usable < size ? old_usable : size);
    free_with(p, flags & ~(MALLOCX_ZERO | ALIGN_MASK));
    return q;
}

/* The object is credited to the stack that resizes it, whether it moves or not. */
static NOINLINE void *resize_with_stack(struct thread *t, void *p, size_t size, int flags)
{
    struct stack_hold hold;
    stack_context_enter(t, __builtin_frame_address(0), size, &hold);
    uint32_t tag = temporary_begin_resize(t, p);
    void *q = resize(t, p, size, flags);
    stack_context_leave(t, &hold);
    temporary_end_resize(t, tag, q, hold.stack);
    if (unlikely(hold.is_sample))
        probes_alloc(q, size);
    return q;
}

void *family_resize(void *p, size_t size, int flags)
{
    struct thread *t = track_thread();
    return unlikely(alloc_stack_is_used(t)) ? resize_with_stack(t, p, size, flags) : resize(t, p, size, flags);
}

EXPORT void *FAMILY(rallocx)(void *p, size_t size, int flags)
{
    return family_resize(p, size, flags);
}

/* Whether limits admit the object's growth to `most` bytes. `most` is 0 if no object can be that large; jemalloc might
 * still grow the object by a part. */
static bool may_grow(struct thread *t, void *p, size_t old_usable, size_t most)
{
    return most && (most <= old_usable || alloc_policy_admits_growth(t, p, most - old_usable) > 0);
}

EXPORT size_t FAMILY(xallocx)(void *p, size_t size, size_t extra, int flags)
{
    struct thread *t = track_thread();
    size_t old_usable = track_usable(p);
    track_check_not_freed(t, p);
    if (!track_may_allocate(t) || guard_has(p) || early_has(p) || (unlikely(arenas) && must_move(t, p, size < old_usable)))
        return old_usable;
    uint32_t held = t ? t->n_held : 0;
    if (unlikely(load_relaxed(&limits_are_used)) && !may_grow(t, p, old_usable, jespan_je_nallocx(size + extra, flags)))
        return old_usable;
    jespan_je_xallocx(p, size, extra, flags);
    size_t usable = jespan_je_sallocx(p, 0); /* jemalloc 5.3.0 may return the old size after it grew by a part of `extra` */
    if (usable != old_usable)
        track_resized(t, p, old_usable, usable, usable < size + extra ? usable : size + extra);
    alloc_policy_end_growth(t, held);
    return usable;
}

EXPORT size_t FAMILY(sallocx)(const void *p, int flags)
{
    (void)flags;
    return track_usable(p);
}

EXPORT void FAMILY(dallocx)(void *p, int flags)
{
    free_with(p, flags & ~(MALLOCX_ZERO | ALIGN_MASK));
}

EXPORT void FAMILY(sdallocx)(void *p, size_t size, int flags)
{
    (void)size;
    free_with(p, flags & ~(MALLOCX_ZERO | ALIGN_MASK));
}

EXPORT size_t FAMILY(nallocx)(size_t size, int flags)
{
    return track_may_allocate(track_thread()) ? jespan_je_nallocx(size, flags) : 0;
}
