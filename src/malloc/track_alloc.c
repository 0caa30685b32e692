/* SPDX-License-Identifier: BSD-2-Clause */
/* Accounting of allocations off the hot path: big objects, pages without a header table, threads without a block. */
#include <errno.h>

#include "base/dump_on.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "conf/conf.h"
#include "heap/lifetimes.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "malloc/peak_looks.h"
#include "malloc/track_slow.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/tree.h"

/* ---- Counting ---- */

static COLD bool count_alloc_orphan(size_t usable, size_t requested)
{
    lock(LOCK_ORPHAN);
    bool admitted = limits_charge_orphan(CONTEXT_ID_ROOT, usable);
    if (admitted && conf.lifetimes)
        lifetimes_pass(counters_orphan(CONTEXT_ID_ROOT), 0);
    if (admitted)
        counters_add_alloc(counters_orphan(CONTEXT_ID_ROOT), usable, requested);
    counters_moved(&thread_orphan, CONTEXT_ID_ROOT);
    unlock(LOCK_ORPHAN);
    return admitted;
}

/* Counts an allocation in the thread's context. If the context came below a limit after the caller looked, no bytes are
 * held for the allocation, and the limit is asked here. False: it refuses. */
static bool count_alloc(struct thread *t, size_t usable, size_t requested)
{
    if (unlikely(!t))
        return count_alloc_orphan(usable, requested);
    uint32_t section = limits_begin(t);
    while (unlikely(limits_of(t->tag)) && !limits_has_held(t)) {
        limits_end(t, section);
        if (limits_hold(t, t->tag, usable, false) == LIMITS_REFUSED)
            return false;
        section = limits_begin(t);
    }
    counters_add_alloc(t->current, usable, requested);
    if (unlikely(limits_has_held(t)))
        limits_use(t, usable);
    limits_end(t, section);
    return true;
}

/* An object in a region's arena becomes a survivor if the thread that has it is not in the region: the object was resized
 * there, or comes from elsewhere. */
void track_count_in_arena(struct thread *t, uint16_t arena, void *p, size_t usable)
{
    if (!arena)
        return;
    arena_cache_count_alloc_by(t, arena, usable);
    struct object_place place = track_find_header(p);
    if (arenas[arena].region && (!t || t->region != arena))
        track_hand_over(&place, arena, place.tag);
}

/* ---- New objects ---- */

/* After track_set_header() returned something other than 0. False: there was no memory for the header, and p is
 * freed. */
static COLD bool finish_header(struct thread *t, void *p, size_t usable, int error)
{
    if (error < 0)
        jespan_je_dallocx(p, MALLOCX_TCACHE_NONE);
    else
        track_count_in_arena(t, arenas_find(p), p, usable);
    return error >= 0;
}

/* False, with ENOMEM: there is no memory for the header, and p is freed. */
static bool set_own_header(struct thread *t, void *p, size_t usable)
{
    int error = unlikely(!t && !boot_is_done()) ? -ENOMEM : track_set_header(t, p, usable, 0);
    bool is_set = likely(!error) || finish_header(t, p, usable, error);
    if (unlikely(!is_set))
        errno = ENOMEM;
    return is_set;
}

/* Gives back an object that has a header and is not counted. */
static COLD void *refuse(struct thread *t, void *p)
{
    struct object_owner owner = track_take_header(p);
    if (owner.in_arena)
        track_free_to_arena(t, p, owner.usable, 0);
    else
        jespan_je_sdallocx(p, owner.usable, MALLOCX_TCACHE_NONE);
    errno = ENOMEM;
    return NULL;
}

void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable)
{
    if (unlikely(!p))
        return NULL;
    if (unlikely(!set_own_header(t, p, usable)))
        return NULL;
    return likely(count_alloc(t, usable, requested)) ? p : refuse(t, p);
}

NOINLINE bool track_flush_waiting(struct thread *t, size_t class)
{
    if (load_relaxed(&t->free_buffer_sequence) & 1)
        return false;
    int saved = errno;
    magazine_was_empty(t, class);
    track_flush_any(t);
    errno = saved;
    return true;
}

/* ---- Big objects, where no other work is due: see track_reuse_big() ---- */

/* If objects of middle classes wait in the free buffer, looks for one of them there before jemalloc is asked. So a thread that has
 * one buffer at a time touches the memory of one. */
void *track_reuse_waiting(struct thread *t, size_t class, size_t requested)
{
    magazine_was_empty(t, class);
    void *p = NULL;
    if (track_has_middle(t)) {
        track_flush_any(t);
        p = track_reuse_big(t, class, requested);
    }
    return !p && magazine_refill(t, class) ? track_reuse_big(t, class, requested) : p;
}

bool track_alloc_big(struct thread *t, void *p, size_t requested)
{
    size_t usable = class_big_bytes(requested);
    if (unlikely(!p || !usable || usable >= extents_oversize_bytes || load_relaxed(&slow_work)))
        return false;
    peak_looks_moved(t, usable);
    uint32_t section = limits_begin(t);
    bool is_counted = likely(!limits_of(t->tag)) && pagemap_set_big_again((uintptr_t)p, usable, t->tag);
    if (likely(is_counted))
        counters_add_alloc(t->current, usable, requested);
    limits_end(t, section);
    return is_counted;
}

/* Setting the header cannot fail: the page has a place in the map, since it is claimed. */
COLD void *track_alloc_guarded(struct thread *t, void *p, size_t requested, size_t usable)
{
    pagemap_set_big((uintptr_t)p, usable, t->tag);
    return likely(count_alloc(t, usable, requested)) ? p : refuse(t, p);
}

COLD void *track_refuse(struct thread *t, void *p, size_t usable)
{
    return set_own_header(t, p, usable) ? refuse(t, p) : NULL;
}

void *track_alloc_slow(struct thread *t, void *p, size_t requested)
{
    if (likely(p))
        return track_alloc_usable(t, p, requested, jespan_je_sallocx(p, 0));
    mailbox_start_if_due(); /* the thread that writes the dump */
    dump_on_failure(requested, !t || t->tag == CONTEXT_ID_SELF);
    return NULL;
}
