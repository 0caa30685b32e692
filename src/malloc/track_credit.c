/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that change their size in place, and objects that get another owner. */
#include <errno.h>

#include "base/die.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "heap/lifetimes.h"
#include "heap/sums.h"
#include "heap/thread.h"
#include "jemalloc/binding.h"
#include "malloc/peak_looks.h"
#include "malloc/probes.h"
#include "malloc/track.h"
#include "malloc/track_slow.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/span.h"
#include "span/tree.h"

/* ---- Resizing in place ---- */

/* A thread without a block resized the object: its owner stays. */
static COLD void count_resize_orphan(uint32_t owner, size_t old_usable, size_t new_usable, size_t requested)
{
    lock(LOCK_ORPHAN);
    track_add_frees(counters_orphan(owner), 1, old_usable);
    limits_uncharge_orphan(owner, old_usable);
    limits_charge_anyway(limits_of(owner), 0, new_usable); /* without a block, no object grows whose owner has a limit */
    counters_add_alloc(counters_orphan(owner), new_usable, requested);
    counters_moved(&thread_orphan, owner);
    unlock(LOCK_ORPHAN);
}

/* Returns the new owner. The object's bytes stay charged all the time. */
static uint32_t count_resize(struct thread *t, uint32_t owner, size_t old_usable, size_t new_usable, size_t requested)
{
    struct counters *from = counters_get(t, owner);
    if (!from) {
        count_resize_orphan(owner, old_usable, new_usable, requested);
        return owner;
    }
    /* Makes room below the limits of the new owner: bytes that are held and dropped stay in the thread's stock. */
    uint32_t to = limits_of(t->tag);
    if (unlikely(to && to != limits_of(owner)) && limits_hold(t, t->tag, new_usable, true) == LIMITS_HELD)
        limits_drop(t);
    uint32_t section = limits_begin(t);
    if (t->n_held && t->held[t->n_held - 1].context == owner && new_usable > old_usable)
        limits_use(t, new_usable - old_usable);
    else if (new_usable < old_usable)
        limits_give(t, limits_of(owner), old_usable - new_usable);
    else if (new_usable > old_usable) /* the limit was set while the object grew */
        limits_charge_anyway(limits_of(owner), 0, new_usable - old_usable);
    bool moves = limits_transfer(t, owner, t->tag, new_usable);
    counters_add_alloc(moves ? t->current : from, new_usable, requested);
    track_add_frees(from, 1, old_usable);
    counters_moved(t, owner);
    limits_end(t, section);
    return moves ? t->tag : owner;
}

/* The old object ends here, and the new one begins. */
static COLD void note_resize(struct thread *t, uint32_t owner, size_t old_usable, size_t new_usable)
{
    if (t->notes & NOTES_BYTES) {
        t->published.allocated += new_usable;
        t->published.deallocated += old_usable;
    }
    if (t->notes & NOTES_LIFETIMES)
        lifetimes_pass(t->current, 0);
    track_note_lifetime(t, owner);
}

void track_resized(struct thread *t, void *p, size_t old_usable, size_t new_usable, size_t requested)
{
    struct object_owner owner = track_take_header(p);
    if (unlikely(t && t->notes))
        note_resize(t, owner.tag, old_usable, new_usable);
    uint16_t arena = unlikely(owner.in_arena) ? arenas_find(p) : 0;
    peak_looks_before_free(t, old_usable);
    probes_before_free(p, owner.tag);
    int error = track_set_header(t, p, new_usable, owner.tag);
    jespan_assert(error >= 0); /* the page has its table or entry already */
    track_count_in_arena(t, arena, p, new_usable);
    if (arena) /* after the allocation, so that the arena never seems to be empty */
        arena_cache_count_frees_by(t, arena, 1, old_usable);
    uint32_t tag = owner.tag;
    if (likely(t))
        tag = count_resize(t, owner.tag, old_usable, new_usable, requested);
    else
        count_resize_orphan(owner.tag, old_usable, new_usable, requested);
    const struct object_place place = track_find_header(p);
    if (tag != owner.tag)
        track_set_tag(&place, place.is_survivor ? tag | TAG_SURVIVOR : tag);
}

/* ---- Another owner ---- */

static void count_moved_in(struct counters_more *c, uint64_t objects, uint64_t usable)
{
    own_add(&c->credited_in_objects, objects);
    own_add(&c->credited_in_bytes, usable);
}

/* Whether an object of the region must outlive it when the context gets the object. If several regions are in that
 * context, the one that the thread is in counts. */
static bool leaves_region(const struct thread *t, uint16_t arena, uint32_t context)
{
    return !arenas_is_home(arena, context) ||
           (t->region && t->region != arena && arenas_is_home(t->region, context));
}

/* The object is counted in before anything else. A context that has something in use is not recycled, so from there on
 * the context stays, unless it is gone already (tree.h). */
int track_credit(struct thread *t, void *p, uint32_t context)
{
    jespan_assert(tree_lockless || lock_is_held(LOCK_TREE));
    struct object_place place = track_find_header(p);
    size_t usable = track_usable(p);
    if (!place.tag || track_is_waiting(t, p))
        return -EINVAL;
    uint16_t arena = arenas_find(p);
    bool hands_over = unlikely(arena) && arenas[arena].region && leaves_region(t, arena, context);
    if (place.tag == context || tree_whole(place.tag) == tree_whole(context)) {
        if (hands_over)
            track_hand_over(&place, arena, place.tag);
        return 0;
    }
    struct counters *to = counters_get(t, context), *from = counters_get(t, place.tag);
    if (!to || !from)
        return -ENOMEM;
    track_note_lifetime(t, place.tag);
    track_note_lifetime(t, context);
    peak_looks_before_free(t, usable);
    uint32_t section;
    if (unlikely(!limits_begin_transfer(t, place.tag, context, usable, &section)))
        return -ENOMEM;
    count_moved_in(counters_use_more(to), 1, usable);
    compiler_barrier();
    if (!tree_is_live(context)) {
        count_moved_in(counters_more(to), (uint64_t)-1, -(uint64_t)usable);
        counters_moved(t, context);
        limits_transfer(t, context, place.tag, usable);
        limits_end(t, section);
        return -EINVAL;
    }
    if (hands_over)
        track_hand_over(&place, arena, context);
    else
        track_set_tag(&place, context);
    probes_before_free(p, place.tag); /* the tracer knows nothing of its new owner */
    if (arena)
        store_release(&arenas[arena].aside_objects, UINT64_MAX);
    own_add_release(&counters_use_more(from)->credited_out_objects, 1);
    own_add_release(&counters_more(from)->credited_out_bytes, usable);
    counters_moved(t, place.tag);
    counters_moved(t, context);
    limits_end(t, section);
    return 0;
}

/* ---- What threads note that are on the slow sides for it ---- */

void track_note_lifetime(struct thread *t, uint32_t context)
{
    struct counters *c = t && t->notes & NOTES_LIFETIMES && context ? counters_get(t, context) : NULL;
    if (c)
        lifetimes_pass(c, 0);
}

void track_note_alloc(struct thread *t, const void *p)
{
    if (t->notes & NOTES_BYTES)
        t->published.allocated += track_usable(p);
    if (t->notes & NOTES_LIFETIMES && p)
        lifetimes_pass(t->current, 1);
}

void track_note_free(struct thread *t, const void *p)
{
    if (t->notes & NOTES_BYTES)
        t->published.deallocated += track_usable(p);
    track_note_lifetime(t, p ? track_context(p) : 0);
}

/* ---- The bytes that a thread has allocated and freed: jemalloc's thread.allocated and thread.deallocated ---- */

/* A new thread may get a block that has counted for other threads before. Its counts of that time are subtracted. With
 * many contexts, it takes time to add them up. So with more contexts than this, it is done only if some thread has
 * asked for such a figure. Otherwise the threads stay together in the list of threads that have ended. */
#define START_CONTEXTS 4096

static _Atomic bool bytes_wanted;

void track_begin_bytes(struct thread *t)
{
    t->notes = conf.lifetimes ? NOTES_LIFETIMES : 0;
    t->start_is_known = tree_end() <= START_CONTEXTS || load_relaxed(&bytes_wanted);
    if (t->start_is_known) {
        const struct thread_sums sums = sums_of_thread(t, tree_end());
        t->at_start = (struct thread_bytes){sums.alloc_bytes, sums.free_bytes};
        thread_past_add(t, &sums);
    }
}

static uint64_t jemalloc_says(const char *name)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    return jespan_je_mallctl(name, &bytes, &size, NULL, 0) ? 0 : bytes;
}

struct thread_bytes track_thread_bytes(struct thread *t)
{
    store_relaxed(&bytes_wanted, true);
    track_flush_any(t);
    const struct thread_sums sums = sums_of_thread(t, tree_end());
    const struct thread_bytes now = {sums.alloc_bytes, sums.free_bytes};
    if (!t->start_is_known) {
        t->at_start.allocated = now.allocated - jemalloc_says("thread.allocated");
        t->at_start.deallocated = now.deallocated - jemalloc_says("thread.deallocated");
        t->start_is_known = true;
    }
    return (struct thread_bytes){now.allocated - t->at_start.allocated, now.deallocated - t->at_start.deallocated};
}

struct thread_bytes *track_publish_bytes(struct thread *t)
{
    if (!(t->notes & NOTES_BYTES)) {
        t->published = track_thread_bytes(t);
        t->notes |= NOTES_BYTES;
        span_review(t);
    }
    return &t->published;
}
