/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations on threads that have something governed entered. */
#include "governed.h"

#include <errno.h>
#include <string.h>

#include "../jemalloc-hooks/binding.h"
#include "../jemalloc-hooks/extents.h"
#include "arenas.h"
#include "limit.h"
#include "span.h"
#include "track.h"

#define ALIGN_MASK 63         /* of MALLOCX_LG_ALIGN() */
#define PLACE_MASK (~0xff)    /* of MALLOCX_TCACHE() and MALLOCX_ARENA() */
#define ARENA_SHIFT 20        /* of the latter, which has 1 more than its number there */

/* jemalloc does not take 0. */
static size_t at_least_1(size_t size)
{
    return size ? size : 1;
}

/* The class of a small object with no wishes but zeroes; else one of no bytes. */
static struct class_info plain_class(size_t size, int flags)
{
    return flags & ~MALLOCX_ZERO ? (struct class_info){CODE_BIG, 0} : class_of_request(size);
}

/* As in malloc.c, with what the thread keeps. */
static void *alloc_as_all(struct thread *t, size_t size, int flags)
{
    struct class_info info = plain_class(size, flags);
    void *p = t && info.bytes ? track_reuse(t, info, size) : NULL;
    if (p)
        return flags ? memset(p, 0, info.bytes) : p;
    unsigned arena = (unsigned)flags >> ARENA_SHIFT;
    if (unlikely(arena))
        extents_watch_arena(arena - 1);
    if (unlikely(!t))
        extents_note_stranger();
    p = flags || !size ? jespan_je_mallocx(at_least_1(size), flags) : jespan_je_malloc(size);
    if (unlikely(!p))
        errno = ENOMEM;
    if (t && p && info.bytes && track_alloc_fast(t, p, info, size))
        return p;
    return track_alloc_slow(t, p, size);
}

/* As track_alloc_fast(), in a page of a span arena, whose lane the thread has. */
HOT_INLINE bool account_in_arena(struct thread *t, struct lane *lane, void *p, struct class_info info, size_t requested)
{
    uint64_t entry = load_acquire(headers_page_of((uintptr_t)p));
    if (unlikely(!info.bytes || !lane || entry_plain_code(entry) != info.code))
        return false;
    store_relaxed(entry_slot_any(entry, (uintptr_t)p), t->tag);
    counters_add_alloc(t->current, info.bytes, requested);
    lane_count_alloc(lane, info.bytes);
    lane->last = p;
    return true;
}

/* What waits to be freed may be what is missing. */
static COLD void *alloc_after_flush(struct thread *t, size_t size, int flags)
{
    if (load_relaxed(&t->pending_sequence) & 1)
        return NULL;
    track_flush(t);
    return jespan_je_mallocx(size, flags);
}

static void *alloc_in_arena(struct thread *t, uint16_t arena, size_t size, int flags)
{
    struct lane *lane = arenas_lane(t, arena);
    int place = lane ? lane->place : 0;
    if (unlikely(!place) && !arenas_find_place(t, arena, &place))
        return alloc_as_all(t, size, flags);
    void *p = jespan_je_mallocx(at_least_1(size), flags | place);
    if (unlikely(!p) && load_relaxed(&t->pending_count))
        p = alloc_after_flush(t, at_least_1(size), flags | place);
    if (unlikely(!p)) {
        errno = ENOMEM;
        return load_relaxed(&arenas[arena].extents.limit_bytes) ? NULL : track_alloc_slow(t, NULL, size);
    }
    struct class_info info = plain_class(size, flags);
    if (likely(account_in_arena(t, lane, p, info, size)))
        return p;
    return track_alloc_usable(t, p, size, info.bytes ? info.bytes : jespan_je_sallocx(p, 0));
}

static void *alloc(struct thread *t, uint16_t arena, size_t size, int flags)
{
    return arena && !(flags & PLACE_MASK) ? alloc_in_arena(t, arena, size, flags) : alloc_as_all(t, size, flags);
}

/* 0: larger than anything can be. */
static size_t usable_of(size_t size, int flags)
{
    size_t usable = plain_class(size, flags).bytes;
    return usable ? usable : jespan_je_nallocx(at_least_1(size), flags & ALIGN_MASK);
}

static void *alloc_within(struct thread *t, uint16_t limit, uint16_t arena, size_t size, int flags)
{
    size_t usable = usable_of(size, flags);
    if (!usable || !limits_admit(t, limit, usable)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = alloc(t, arena, size, flags);
    limits_settle(t);
    return p;
}

static COLD void *alloc_without_block(size_t size, int flags)
{
    if (track_may_allocate(NULL))
        return alloc_as_all(NULL, size, flags);
    errno = ENOMEM;
    return NULL;
}

static void *alloc_as_governed(struct thread *t, size_t size, int flags)
{
    if (unlikely(load_acquire(&thread_pokes) != t->poked))
        span_review(t);
    const struct context *c = &contexts[t->tag];
    uint16_t limit = load_relaxed(&c->limit), arena = t->region ? t->region : load_relaxed(&c->arena);
    if (limit)
        return alloc_within(t, limit, arena, size, flags);
    return alloc(t, arena, size, flags);
}

void *governed_alloc(struct thread *t, size_t size, int flags)
{
    void *p = likely(t) ? alloc_as_governed(t, size, flags) : alloc_without_block(size, flags);
    track_publish_alloc(t, p);
    return p;
}

/* An object that comes from elsewhere is new to the limit as a whole. */
bool governed_admits_resize(struct thread *t, void *p, size_t old_usable, size_t new_usable)
{
    uint16_t limit = load_relaxed(&contexts[t->tag].limit);
    uint32_t owner = track_owner(p);
    if (!limit)
        return true;
    if (tree_is_live(owner) && load_relaxed(&contexts[owner].limit) == limit)
        new_usable -= old_usable < new_usable ? old_usable : new_usable;
    if (!new_usable)
        return true;
    return limits_admit(t, limit, new_usable);
}
