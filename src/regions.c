/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: open spans with a span arena to themselves, whose memory goes in one go when they are closed. */
#include "regions.h"

#include <string.h>

#include "../jemalloc-hooks/binding.h"
#include "arenas.h"
#include "clock.h"
#include "counters.h"
#include "headers.h"
#include "lock.h"
#include "span.h"
#include "track.h"
#include "tree.h"

static _Atomic uint64_t released, released_objects, released_bytes, shared, set_aside, survivors, lost;

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- Who has an arena ---- */

static bool is_idle(const struct span_arena *a)
{
    return !a->users && !a->inside && !a->busy && !a->set_aside;
}

static bool is_like(const struct span_arena *a, const struct site *site)
{
    return a->region && a->site && !memcmp(&a->site->arena, &site->arena, sizeof site->arena);
}

static uint16_t find_idle(const struct site *site)
{
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (is_like(&arenas[id], site) && is_idle(&arenas[id]))
            return (uint16_t)id;
    return 0;
}

/* The one with the fewest users. */
static uint16_t find_shared(const struct site *site)
{
    uint32_t best = 0;
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (is_like(&arenas[id], site) && arenas[id].site == site && arenas[id].users &&
            (!best || arenas[id].users < arenas[best].users))
            best = id;
    return (uint16_t)best;
}

uint16_t regions_open(const struct site *site, uint32_t borrowed)
{
    uint16_t arena = find_idle(site);
    if (!arena)
        arena = arenas_make_region(site);
    if (!arena) {
        arena = find_shared(site);
        count(&shared, arena != 0);
    }
    if (arena) {
        arenas[arena].site = site;
        if (borrowed || !arenas[arena].users)
            arenas[arena].borrowed = borrowed;
        arenas[arena].users++;
    }
    return arena;
}

void regions_cancel(uint16_t arena)
{
    arenas[arena].users--;
}

/* Whoever finds it so has the arena to himself. */
static bool ends(struct span_arena *a)
{
    if (a->users || a->inside)
        return false;
    a->busy = true;
    return true;
}

bool regions_close(uint16_t arena)
{
    arenas[arena].users--;
    return ends(&arenas[arena]);
}

void regions_enter(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct thread *owner = load_relaxed(&a->owner);
    a->inside++;
    if (!owner)
        store_relaxed(&a->owner, t);
    a->owner_depth += !owner || owner == t;
}

bool regions_leave(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    a->inside--;
    if (load_relaxed(&a->owner) == t && !--a->owner_depth) {
        arenas_leave_place(t, arena);
        store_relaxed(&a->owner, NULL);
    }
    return ends(a);
}

COLD void regions_before_fork(struct thread *self)
{
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (load_relaxed(&arenas[id].owner) == self) {
            arenas_end_region_cache((uint16_t)id);
            arenas_leave_place(self, (uint16_t)id);
        }
}

/* Caches from before are not to be touched: see before_fork(). */
static COLD void stay_inside(struct thread *self, struct span_arena *a)
{
    a->tcache_flags = 0;
    if (load_relaxed(&a->owner) != self) {
        store_relaxed(&a->owner, NULL);
        a->owner_depth = 0;
    }
    a->inside = 0;
    arenas_leave_place(self, a->extents.id);
    for (uint32_t i = 0; self && i < self->depth; i++)
        if (entry_region(&self->entries[i]) == a->extents.id)
            a->inside++;
}

COLD void regions_after_fork(struct thread *self)
{
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (arenas[id].region)
            stay_inside(self, &arenas[id]);
}

/* ---- What is in it ---- */

static uint64_t live_objects(uint16_t arena)
{
    struct arena_sums sums = arenas_sums(arena);
    return sums.alloc_objects - sums.free_objects;
}

/* A walk over the live objects of an arena, until all of them were seen: jemalloc puts them at low addresses, so that a small
 * region in an arena that once had a large one is as quick as it ought to be. */
struct visit {
    struct thread *t;
    uint16_t arena;
    bool takes_away; /* else survivors are counted */
    uint64_t left, survivors, objects, bytes;
    /* Of the owner that was seen last, as the next object's is likely to be the same. */
    uint32_t tag;
    bool is_own;
    uint64_t freed_objects, freed_bytes; /* not counted for him yet */
};

/* A context that owns memory stays, and so does what is above it. */
static bool is_below_site(uint32_t id, const struct site *site)
{
    while (id > CONTEXT_ID_UNSAMPLED && contexts[id].site != site)
        id = contexts[id].parent;
    return id > CONTEXT_ID_UNSAMPLED;
}

static void turn_to(struct visit *v, uint32_t tag)
{
    if (v->takes_away && v->freed_objects)
        track_count_frees(v->t, v->tag, v->freed_objects, v->freed_bytes);
    v->freed_objects = v->freed_bytes = 0;
    v->tag = tag;
    v->is_own = is_below_site(tag, arenas[v->arena].site) || tree_whole(tag) == arenas[v->arena].borrowed;
}

static void visit_objects(struct visit *v, uint64_t n, size_t usable)
{
    v->freed_objects += n;
    v->freed_bytes += n * usable;
    v->objects += n;
    v->bytes += n * usable;
    v->survivors += v->is_own ? 0 : n;
    v->left -= n < v->left ? n : v->left;
}

static void wipe(const struct visit *v, uintptr_t start, size_t bytes)
{
    if (v->takes_away && arenas_wipes(v->arena))
        explicit_bzero((void *)start, bytes);
}

/* Objects that are behind each other tend to have the same owner. */
static void visit_small(struct visit *v, uintptr_t page, uintptr_t end, uint64_t entry)
{
    size_t usable = class_bytes[entry_class(entry)], slots = HEADER_PAGE_BYTES >> CODE_SLOT_SHIFT(entry_plain_code(entry));
    header_t *table = entry_slot_any(entry, page);
    uint64_t n = 0;
    for (header_t *slot = table; slot < table + slots; slot++) {
        uint32_t tag = load_relaxed(slot);
        if (tag != v->tag && tag) {
            visit_objects(v, n, usable);
            turn_to(v, tag);
            n = 0;
        }
        n += tag != 0;
        if (tag && v->takes_away)
            store_relaxed(slot, 0);
    }
    visit_objects(v, n, usable);
    wipe(v, page, end - page < 2 * HEADER_PAGE_BYTES ? end - page : 2 * HEADER_PAGE_BYTES); /* the last one may reach into the next */
}

static void visit_big(struct visit *v, uintptr_t page, page_entry_t *at)
{
    size_t usable = track_usable((void *)page);
    uint32_t tag = entry_big_tag(load_relaxed(at));
    if (tag != v->tag)
        turn_to(v, tag);
    visit_objects(v, 1, usable);
    wipe(v, page, usable);
    if (v->takes_away)
        store_relaxed(at, (uint64_t)(uint32_t)load_relaxed(at));
}

static int visit_range(void *visit, uintptr_t start, size_t bytes)
{
    struct visit *v = visit;
    for (uintptr_t page = start; page < start + bytes && v->left; page += HEADER_PAGE_BYTES) {
        page_entry_t *at = headers_page(page);
        uint64_t entry = at ? load_relaxed(at) : 0;
        if (entry_is_small_any(entry))
            visit_small(v, page, start + bytes, entry);
        else if (entry_big_tag(entry))
            visit_big(v, page, at);
    }
    return !v->left;
}

static struct visit visit_all(struct thread *t, uint16_t arena, bool takes_away)
{
    struct visit v = {.t = t, .arena = arena, .takes_away = takes_away, .left = live_objects(arena)};
    if (v.left)
        extent_arena_each_range(&arenas[arena].extents, visit_range, &v);
    turn_to(&v, CONTEXT_ID_ROOT);
    return v;
}

/* Where nothing was handed over, and nobody else allocated there, there is no need to look. What is counted and not found is
 * being freed, and jemalloc not through with it. */
static uint64_t count_survivors(struct thread *t, uint16_t arena)
{
    if (!load_acquire(&arenas[arena].handed_over))
        return 0;
    struct visit v = visit_all(t, arena, false);
    return v.survivors + v.left;
}

bool regions_refuses(struct thread *t, uint16_t arena)
{
    bool asks = arenas[arena].site->arena.flags & JESPAN_ARENA_REFUSE;
    uint64_t n = asks ? count_survivors(t, arena) : 0;
    count(&survivors, n);
    return n;
}

/* ---- Releasing ---- */

static void call_arena(const char *name, const struct span_arena *a)
{
    size_t mib[3], length = 3;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return;
    mib[1] = a->extents.index;
    jespan_je_mallctlbymib(mib, length, NULL, NULL, NULL, 0);
}

static void release_all(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct visit v = visit_all(t, arena, true);
    if (!v.objects)
        return;
    arenas_count_frees(t, arena, v.objects, v.bytes);
    arenas_flush_region(arena);
    call_arena("arena.0.reset", a);
    store_relaxed(&a->handed_over, false);
    count(&released_objects, v.objects);
    count(&released_bytes, v.bytes);
}

static bool sets_aside(struct thread *t, uint16_t arena)
{
    if (arenas[arena].site->arena.flags & JESPAN_ARENA_RELEASE)
        return false;
    store_relaxed(&arenas[arena].aside_objects, live_objects(arena)); /* first: one may be freed meanwhile */
    uint64_t n = count_survivors(t, arena);
    count(&survivors, arenas[arena].set_aside ? 0 : n);
    return n;
}

/* jemalloc gives an arena's pages back as the arena is used. After a rush many are idle, with pages that nobody wants: now and
 * then one of them gets its turn. */
#define DECAY_NS 2000000u
static void decay_one(void)
{
    static _Atomic uint64_t next_ns;
    static uint32_t last; /* LOCK_TREE */
    uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE), due = load_relaxed(&next_ns);
    if (now < due || !atomic_compare_exchange_strong(&next_ns, &due, now + DECAY_NS))
        return;
    lock(LOCK_TREE);
    last = last + 1 < arenas_end() ? last + 1 : 1;
    struct span_arena *a = &arenas[last];
    bool is_due = a->region && is_idle(a) && load_relaxed(&a->state) == ARENA_READY;
    a->busy |= is_due;
    unlock(LOCK_TREE);
    if (!is_due)
        return;
    call_arena("arena.0.decay", a);
    lock(LOCK_TREE);
    a->busy = false;
    unlock(LOCK_TREE);
}

void regions_release(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    bool aside = sets_aside(t, arena);
    if (!aside)
        release_all(t, arena);
    lock(LOCK_TREE);
    count(&set_aside, (uint64_t)aside - a->set_aside);
    a->set_aside = aside;
    a->busy = false;
    unlock(LOCK_TREE);
    count(&released, !aside);
    decay_one();
}

/* Under LOCK_TREE. The next one that was set aside, is nobody's, and has lost something since it was looked through, which the
 * caller then has; 0: none. */
static uint16_t claim_set_aside(uint32_t after)
{
    for (uint32_t id = after + 1; id < arenas_end(); id++)
        if (arenas[id].set_aside && !arenas[id].busy && live_objects((uint16_t)id) != load_relaxed(&arenas[id].aside_objects)) {
            arenas[id].busy = true;
            return (uint16_t)id;
        }
    return 0;
}

COLD void regions_tidy(struct thread *t)
{
    uint16_t arena = 0;
    if (!load_relaxed(&set_aside))
        return;
    do {
        lock(LOCK_TREE);
        arena = claim_set_aside(arena);
        unlock(LOCK_TREE);
        if (arena)
            regions_release(t, arena);
    } while (arena);
}

static void leave(struct thread *t, struct entry *e)
{
    uint16_t arena = entry_region(e);
    e->kind &= ~(~0u << ENTRY_REGION_SHIFT);
    t->regions_entered--;
    lock(LOCK_TREE);
    bool ends = regions_leave(t, arena);
    unlock(LOCK_TREE);
    if (ends)
        regions_release(t, arena);
}

void regions_leave_all(struct thread *t)
{
    for (uint32_t i = 0; i < t->depth; i++)
        if (entry_region(&t->entries[i]))
            leave(t, &t->entries[i]);
    t->region = 0;
}

void regions_count_lost(void)
{
    count(&lost, 1);
}

struct regions_stats regions_stats(void)
{
    return (struct regions_stats){
        load_relaxed(&released), load_relaxed(&released_objects), load_relaxed(&released_bytes), load_relaxed(&shared),
        load_relaxed(&set_aside), load_relaxed(&survivors), load_relaxed(&lost)};
}
