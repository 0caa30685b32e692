/* SPDX-License-Identifier: BSD-2-Clause */
/* Accounting of frees off the hot path: big objects, span arenas, limits, threads without a block.
 * free() arrives at track_free_slow(). */
#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "conf/conf.h"
#include "guard/guard.h"
#include "heap/large.h"
#include "heap/lifetimes.h"
#include "heap/sums.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "malloc/early.h"
#include "malloc/peak_looks.h"
#include "malloc/probes.h"
#include "malloc/temporary.h"
#include "malloc/track_slow.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/span.h"

/* ---- Counting ---- */

COLD void track_count_frees_orphan(uint32_t context, uint64_t objects, uint64_t bytes)
{
    lock(LOCK_ORPHAN);
    if (conf.lifetimes)
        lifetimes_pass(counters_orphan(context), 0);
    track_add_frees(counters_orphan(context), objects, bytes);
    counters_moved(&thread_orphan, context);
    limits_uncharge_orphan(context, bytes);
    unlock(LOCK_ORPHAN);
}

NOINLINE void track_count_frees(struct thread *t, uint32_t context, uint64_t objects, uint64_t bytes)
{
    struct counters *c = t ? counters_get(t, context) : NULL;
    if (unlikely(!c)) {
        track_count_frees_orphan(context, objects, bytes);
        return;
    }
    uint32_t section = limits_begin(t);
    track_add_frees(c, objects, bytes);
    counters_moved(t, context);
    limits_give(t, limits_of(context), bytes);
    limits_end(t, section);
}

/* ---- Freeing at once ---- */

/* Frees into the thread's cache of that arena, or into no cache if the flags say so. A cache that the flags name is not
 * used, because objects of a region would stay in it; nor is jemalloc's automatic cache, because it serves other
 * arenas.
 *
 * A survivor of a region is counted after jemalloc has it: another thread may look for survivors at any moment, and the
 * arena must not be reset before. */
void track_free_to_arena(struct thread *t, void *p, size_t usable, int flags)
{
    if (guard_has(p)) {
        guard_free(t, p);
        return;
    }
    uint16_t arena = arenas_find(p);
    bool counts_late = arena && arenas[arena].region, names_cache = flags & PLACE_TCACHE && !(flags & MALLOCX_TCACHE_NONE);
    if (arenas_wipes(arena))
        explicit_bzero(p, usable);
    else if (counts_late)
        exceptions_forget(p, usable);
    if (arena && !counts_late)
        arena_cache_count_frees_by(t, arena, 1, usable);
    if (arena && (names_cache || !(flags & PLACE_TCACHE)))
        flags = arena_cache_free_flags(t ? arena_cache_of(t, arena) : NULL);
    jespan_je_sdallocx(p, usable, flags);
    if (counts_late)
        arena_cache_count_frees_by(t, arena, 1, usable);
}

static NOINLINE void free_in_claimed_page(struct thread *t, void *p, const struct object_owner *owner, int flags)
{
    if (guard_has(p))
        guard_note_owner(p, owner->tag);
    track_count_frees(t, owner->tag, 1, owner->usable);
    track_free_to_arena(t, p, owner->usable, flags);
}

void track_free_now(struct thread *t, void *p, int flags)
{
    if (unlikely(early_has(p)))
        return;
    struct object_owner owner = track_take_header(p);
    peak_looks_before_free(t, owner.usable);
    probes_before_free(p, owner.tag);
    temporary_before_free(t, p, owner.tag);
    if (unlikely(owner.in_arena)) {
        free_in_claimed_page(t, p, &owner, flags);
        return;
    }
    track_count_frees(t, owner.tag, 1, owner.usable);
    if (flags)
        jespan_je_sdallocx(p, owner.usable, flags);
    else
        large_free(p, owner.usable);
}

/* ---- From free() ---- */

/* Frees a small object of a span arena without buffering it. False: the thread has no counters for the owner, or p is
 * not a live object; nothing has changed. */
HOT_INLINE bool free_at_once(struct thread *t, struct arena_cache *arena_cache, void *p, uint64_t entry)
{
    header_t *slot = page_entry_slot_any(entry, (uintptr_t)p);
    uint32_t tag = header_get(slot, false) & ~TAG_SURVIVOR;
    struct counters *c = counters_find(t, tag);
    if (unlikely(!c || !tag || !track_is_start(p, entry)))
        return false;
    size_t usable = class_bytes[page_entry_class(entry)];
    peak_looks_before_free(t, usable);
    probes_before_free(p, tag);
    temporary_before_free(t, p, tag);
    uint32_t section = limits_begin(t);
    uint32_t limit = limits_of(tag);
    store_relaxed(slot, 0);
    counters_add_free(c, usable);
    counters_moved(t, tag);
    limits_give(t, limit, usable);
    limits_end(t, section);
    arena_cache_count_frees(arena_cache, 1, usable);
    if (arena_cache->region)
        region_note_free(arena_cache->region, p);
    arena_cache_free(arena_cache, page_entry_class(entry), (struct free_object){p, slot});
    return true;
}

/* Frees a small object of a span arena on a thread that has a cache of the arena. In a region's arena the thread must
 * be inside the region. False: this does not hold, or the buffer is full. */
HOT_INLINE bool free_in_arena(struct thread *t, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    uint16_t arena = entry & PAGE_ENTRY_ARENA && page_entry_is_small_any(entry) ? arenas_find(p) : 0;
    struct arena_cache *arena_cache = arena ? arena_cache_of(t, arena) : NULL;
    if (!arena_cache || unlikely(arenas_wipes(arena)))
        return false;
    if (arenas[arena].region) { /* the region may end while the object is in the buffer */
        if (t->region != arena)
            return false;
        exceptions_forget(p, class_bytes[page_entry_class(entry)]);
        return free_at_once(t, arena_cache, p, entry);
    }
    if (arena_cache->last == p)
        return free_at_once(t, arena_cache, p, entry);
    if (unlikely(!classes_of_arenas || load_relaxed(&t->free_buffer_count) == FREE_BUFFER_MAX ||
                 !track_is_start(p, entry)))
        return false;
    track_free_later(t, load_relaxed(&t->free_buffer_count), p, page_entry_slot_any(entry, (uintptr_t)p),
                     page_entry_class(entry) + CLASS_IN_ARENA);
    return true;
}

#define MIDDLE_BYTES_MAX 65536u

/* Objects of middle classes wait as small ones do, but not many of them. */
static void note_middle(struct thread *t, size_t class)
{
    t->middle_bytes = class_bytes[class] + (track_has_middle(t) ? t->middle_bytes : 0);
    t->middle_sequence = load_relaxed(&t->free_buffer_sequence) + 1;
    if (t->middle_bytes > MIDDLE_BYTES_MAX && track_has_middle(t)) {
        int saved = errno;
        track_flush_any(t);
        errno = saved;
    }
}

/* As track_find_small(), for a page that is part of another slab than when its place was learned. */
static bool learn_and_find_small(struct thread *t, void *p, struct small_object *o)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    return page_entry_is_small(entry) && pagemap_find_start((uintptr_t)p) && track_find_small(t, p, o);
}

/* As track_free_fast(), also for middle classes, and uncharges an object that goes back to the magazine. */
static bool free_small(struct thread *t, void *p)
{
    struct small_object o;
    if (!track_find_small(t, p, &o) && !learn_and_find_small(t, p, &o) && !track_find_middle(t, p, &o))
        return false;
    if (!track_was_taken_last(t, p, &o)) {
        bool is_put = track_put_in_buffer(t, p, &o);
        if (is_put && class_bytes[o.class] > HEADER_PAGE_BYTES)
            note_middle(t, o.class);
        return is_put;
    }
    uint32_t section = limits_begin(t);
    track_count_freed(t, &o);
    limits_give(t, limits_of(t->tag), class_bytes[o.class]);
    limits_end(t, section);
    track_put_back(t, &o);
    return true;
}

/* Flushes the full buffer first. */
HOT_INLINE void free_after_flush(struct thread *t, void *p)
{
    track_flush_any(t);
    boot_slow_event(t);
    if ((!track_flush_is_plain() || !track_free_fast(t, p)) && !free_small(t, p))
        track_free_now(t, p, 0);
}

/* Frees what free_in_arena() does not, when the buffer has room or is being flushed. */
static void free_without_flush(struct thread *t, void *p)
{
    if (!t || !free_small(t, p))
        track_free_now(t, p, 0);
}

static NOINLINE void free_slow(void *p, struct thread *t)
{
    if (!p)
        return;
    int saved = errno;
    if (!t) {
        t = likely(thread_current) ? thread_current : track_thread_slow();
        track_publish_free(t, p);
    }
    if (t && !magazine_knows_headers(t) && !(load_relaxed(&t->free_buffer_sequence) & 1))
        magazine_forget_taken(t);
    /* If the sequence is odd, this is a signal handler that interrupted a flush. */
    if (!t || !free_in_arena(t, p)) {
        if (t && load_relaxed(&t->free_buffer_count) == FREE_BUFFER_MAX && !(load_relaxed(&t->free_buffer_sequence) & 1))
            free_after_flush(t, p);
        else
            free_without_flush(t, p);
    }
    errno = saved;
}

/* ---- The short ways for big objects, in programs that never had a limit ---- */

HOT_INLINE void free_middle(struct thread *t, void *p, page_entry_t *page, size_t class)
{
    struct small_object o = {page_entry_big_slot(page), class, magazine_last(t, class), load_relaxed(&t->free_buffer_count)};
    if (track_was_taken_last(t, p, &o)) {
        track_count_freed(t, &o);
        track_put_back(t, &o);
    } else if (likely(track_put_in_buffer(t, p, &o))) {
        note_middle(t, class);
    } else {
        free_slow(p, t);
    }
}

static NOINLINE void free_big(struct thread *t, void *p, page_entry_t *page, uint64_t entry)
{
    uint32_t tag = page_entry_big_tag(entry);
    size_t usable = page_entry_big_bytes(entry);
    struct counters *c = tag && usable ? counters_find(t, tag) : NULL; /* the entry has no room for the bytes of some */
    if (unlikely(!c)) {
        free_slow(p, t);
        return;
    }
    peak_looks_before_free(t, usable);
    uint32_t section = limits_begin(t);
    store_relaxed(page, (uint64_t)(uint32_t)entry);
    counters_add_free(c, usable);
    counters_moved(t, tag);
    limits_give(t, limits_of(tag), usable);
    limits_end(t, section);
    int saved = errno;
    large_free(p, usable);
    errno = saved;
}

void track_free_slow(void *p, struct thread *t)
{
    page_entry_t *page = likely(t) ? pagemap_page((uintptr_t)p) : NULL;
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (!page_entry_is_big(entry) || unlikely(!page_entry_big_starts_at(entry, (uintptr_t)p) || !track_flush_is_plain())) {
        free_slow(p, t);
        return;
    }
    size_t class = class_of_big(page_entry_big_bytes(entry));
    if (class)
        free_middle(t, p, page, class);
    else
        free_big(t, p, page, entry);
}

/* ---- Freed twice ---- */

bool track_is_waiting(const struct thread *t, const void *p)
{
    for (uint32_t i = t ? load_relaxed(&t->free_buffer_count) : 0; i-- > 0;)
        if (load_relaxed(&t->free_buffer_object[i]) == p)
            return true;
    return false;
}

void track_check_not_freed(const struct thread *t, const void *p)
{
    if (unlikely(track_is_waiting(t, p)))
        track_die_not_allocated(p);
}

/* Entries leave a buffer only in a flush, which changes the sequence. */
static void check_buffer(struct thread *t)
{
    uint32_t sequence = load_acquire(&t->free_buffer_sequence);
    void *freed_twice = NULL;
    if (sequence & 1)
        return;
    for (uint32_t i = load_acquire(&t->free_buffer_done), n = load_acquire(&t->free_buffer_count); i < n && i < FREE_BUFFER_MAX; i++) {
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        if (!load_relaxed(slot))
            freed_twice = load_relaxed(&t->free_buffer_object[i]);
    }
    if (freed_twice && sums_stood_still(t, sequence))
        track_die_not_allocated(freed_twice);
}

COLD void track_check_waiting(void)
{
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (load_relaxed(&t->live))
            check_buffer(t);
}

/* ---- Fork ---- */

/* The frees in the thread's buffer stay for the next owner of its block. If it was flushing, the entry at
 * free_buffer_done may be half done. That entry is dropped, which leaks an object, and a second one if a magazine was
 * being halved. */
COLD void track_abandon(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    if (sequence & 1) {
        uint32_t done = load_relaxed(&t->free_buffer_done) + 1;
        bool all = done >= load_relaxed(&t->free_buffer_count);
        limits_unclaim(t, done - 1);
        store_relaxed(&t->free_buffer_done, all ? 0 : done);
        if (all) /* the claims were for these entries, not for the next ones */
            store_relaxed(&t->free_buffer_count, 0);
        else if (load_relaxed(&t->claimed_sequence) == sequence - 1)
            store_relaxed(&t->claimed_sequence, sequence + 1);
        store_relaxed(&t->free_buffer_sequence, sequence + 1);
    }
    magazine_after_fork(t);
    arena_cache_abandon(t);
    span_abandon_all(t);
}
