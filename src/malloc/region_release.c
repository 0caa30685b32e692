/* SPDX-License-Identifier: BSD-2-Clause */
/* Releasing a region: survivors, and the objects that go. */
#include "malloc/region_release.h"

#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/lock.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "heap/timing.h"
#include "jemalloc/binding.h"
#include "malloc/peak_looks.h"
#include "malloc/region_exceptions.h"
#include "malloc/track_slow.h"
#include "policy/arena_cache.h"
#include "policy/regions.h"
#include "span/handles.h"
#include "span/tree.h"

/* ---- Objects in the arena ---- */

static uint64_t live_objects(uint16_t arena)
{
    struct arena_sums sums = arena_cache_sums(arena);
    return sums.alloc_objects - sums.free_objects;
}

/* A walk over the live objects of an arena. It stops when all were seen: jemalloc puts objects at low addresses, so a
 * small region is quick in an arena that once had a large one. */
#define PAGES_WITH_TABLES 4096 /* this many pages keep their header tables for the next region */
struct visit {
    struct thread *t;
    uint16_t arena;
    bool takes_away; /* the objects go; otherwise survivors are counted */
    uint64_t left, survivors, objects, bytes;
    uint32_t tag; /* of the last object, as the next one is likely to have the same owner */
    uint64_t pages; /* seen so far */
    uint64_t freed_objects, freed_bytes; /* not counted for that owner yet */
};

static void turn_to(struct visit *v, uint32_t tag)
{
    if (v->takes_away && v->freed_objects) {
        track_note_lifetime(v->t, v->tag & ~TAG_SURVIVOR);
        track_count_frees(v->t, v->tag & ~TAG_SURVIVOR, v->freed_objects, v->freed_bytes);
    }
    v->freed_objects = v->freed_bytes = 0;
    v->tag = tag;
}

static void visit_objects(struct visit *v, uint64_t n, size_t usable)
{
    v->freed_objects += n;
    v->freed_bytes += n * usable;
    v->objects += n;
    v->bytes += n * usable;
    v->survivors += v->tag & TAG_SURVIVOR ? n : 0;
    v->left -= n < v->left ? n : v->left;
}

/* Overwrites the objects that begin in a page, if the arena wants that. The last one may reach into following pages, so
 * more than that is overwritten, up to the end of the range, all of which is the arena's. */
static void wipe(const struct visit *v, uintptr_t page, uintptr_t end, size_t usable)
{
    size_t reach = HEADER_PAGE_BYTES + usable;
    if (v->takes_away && arenas_wipes(v->arena))
        explicit_bzero((void *)page, reach < end - page ? reach : end - page);
}

/* Neighbours tend to have the same owner, so objects are counted in runs with the same tag. */
static void visit_small(struct visit *v, uintptr_t page, uintptr_t end, uint64_t entry)
{
    size_t usable = class_bytes[page_entry_class(entry)], n_slots = HEADER_PAGE_BYTES >> CODE_SLOT_SHIFT(page_entry_plain_code(entry));
    header_t *table = page_entry_slot_any(entry, page);
    uint64_t n = 0;
    for (header_t *slot = table; slot < table + n_slots; slot++) {
        uint32_t tag = header_get(slot, false);
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
    wipe(v, page, end, usable);
}

/* The object begins somewhere in the page: jemalloc moves large objects by up to a page (opt.cache_oblivious). While
 * survivors are counted, another thread may free it, so the entry is read once, and jemalloc is not asked for the size. */
static void visit_big(struct visit *v, uintptr_t page, uintptr_t end, page_entry_t *at, uint64_t entry)
{
    size_t usable = v->takes_away ? track_usable((void *)page) : 0;
    uint32_t tag = page_entry_big_tag(entry);
    if (tag != v->tag)
        turn_to(v, tag);
    visit_objects(v, 1, usable);
    wipe(v, page, end, usable);
    if (v->takes_away)
        store_relaxed(at, (uint64_t)(uint32_t)entry);
}

static int visit_range(void *visit, uintptr_t start, size_t bytes)
{
    struct visit *v = visit;
    for (uintptr_t page = start; page < start + bytes && v->left; page += HEADER_PAGE_BYTES) {
        page_entry_t *at = pagemap_page(page);
        uint64_t entry = at ? load_relaxed(at) : 0;
        if (page_entry_is_small_any(entry))
            visit_small(v, page, start + bytes, entry);
        else if (page_entry_big_tag(entry))
            visit_big(v, page, start + bytes, at, entry);
        if (v->takes_away && v->pages++ >= PAGES_WITH_TABLES)
            pagemap_drop_tables(page, HEADER_PAGE_BYTES);
    }
    return !v->left;
}

static void visit_all(struct visit *v)
{
    if (v->left)
        extent_arena_each_range(&arenas[v->arena].extents, visit_range, v);
    turn_to(v, CONTEXT_ID_ROOT);
}

/* There are no survivors if no object was credited to another context and no other thread allocated there. An object
 * that is counted and not found is being freed, and jemalloc is not done with it. */
static uint64_t count_survivors(struct thread *t, uint16_t arena)
{
    if (!load_acquire(&arenas[arena].has_survivors))
        return 0;
    struct visit v = {.t = t, .arena = arena, .left = live_objects(arena)};
    visit_all(&v);
    return v.survivors + v.left;
}

bool regions_refuses(struct thread *t, uint16_t arena)
{
    bool asks = arenas[arena].site->arena.flags & JESPAN_ARENA_REFUSE;
    uint64_t n = asks ? count_survivors(t, arena) : 0;
    regions_count(&regions_counters.survivors, n);
    return n;
}

/* ---- Releasing ---- */

static int drop_range(void *unused, uintptr_t start, size_t bytes)
{
    (void)unused;
    pagemap_drop_tables(start, bytes);
    return 0;
}

/* Without a live object, or with all of them counted out. */
static void reset(struct span_arena *a)
{
    if (a->kept)
        arena_magazines_forget(&a->kept->magazines);
    arena_cache_flush_region(a->extents.id);
    arenas_call("arena.0.reset", a);
    a->is_warm = false;
    store_relaxed(&a->has_survivors, false);
}

/* Gives header tables back if jemalloc purged much since the last time. That means that a large part of the arena was
 * not in use lately. No other thread uses the arena. */
#define TABLES_PURGED_BYTES ((uint64_t)16 << 20)
static void drop_tables(struct span_arena *a)
{
    uint64_t purged = load_relaxed(&a->extents.figures.purged_lazy_bytes) + load_relaxed(&a->extents.figures.purged_forced_bytes);
    if (purged - a->purged_bytes < TABLES_PURGED_BYTES)
        return;
    a->purged_bytes = purged;
    if (a->kept && arena_magazines_forget(&a->kept->magazines)) /* they know headers in the tables */
        reset(a);
    extent_arena_each_range(&a->extents, drop_range, NULL);
}

/* Frees one object that the region's owners have allocated, unless it was freed before. The page may have objects of another class by
 * now, which are the region's too. */
static void free_taken(struct visit *v, struct arena_cache *c, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (unlikely(!page_entry_is_small_any(entry)))
        return;
    size_t class = page_entry_class(entry);
    header_t *slot = page_entry_slot_any(entry, (uintptr_t)p);
    uint32_t tag = header_get(slot, false);
    if (unlikely(!tag || !track_is_start(p, entry)))
        return;
    if (unlikely(tag != v->tag))
        turn_to(v, tag);
    visit_objects(v, 1, class_bytes[class]);
    store_relaxed(slot, 0);
    arena_cache_free(c, class, (struct free_object){p, slot});
}

/* If all objects are among those that the owners noted, as in a small region, they are freed one by one: that leaves the arena warm for
 * the next region. Objects that are left are found by visit_all(), and the arena is reset. */
static void free_all_taken(struct visit *v)
{
    const struct region_kept *kept = arenas[v->arena].kept;
    if (!v->t || !v->left || !kept || kept->taken > REGION_TAKEN_MAX || v->left > kept->taken || arenas_wipes(v->arena))
        return;
    struct arena_cache *c = arena_cache_take_place(v->t, v->arena);
    for (uint32_t i = c ? kept->taken : 0; i-- > 0;)
        free_taken(v, c, kept->object[i]);
    if (c)
        arena_cache_leave_place(v->t, v->arena);
}

static void release_all(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct arena_sums sums = arena_cache_sums(arena);
    struct visit v = {.t = t, .arena = arena, .takes_away = true, .left = sums.alloc_objects - sums.free_objects};
    peak_looks_before_free(t, sums.alloc_bytes - sums.free_bytes);
    free_all_taken(&v);
    bool is_done = v.objects && !v.left;
    visit_all(&v);
    jespan_assert(!v.left || a->site->arena.flags & JESPAN_ARENA_RELEASE); /* no other thread is freeing one of them */
    if (v.objects)
        arena_cache_count_frees_by(t, arena, v.objects, v.bytes);
    if (is_done) {
        a->is_warm = true;
        store_relaxed(&a->has_survivors, false);
    } else if (v.objects) {
        reset(a);
    }
    drop_tables(a);
    regions_count(&regions_counters.released_objects, v.objects);
    regions_count(&regions_counters.released_bytes, v.bytes);
}

static bool sets_aside(struct thread *t, uint16_t arena)
{
    bool thrown = !arenas[arena].set_aside && arenas[arena].is_thrown_through && live_objects(arena);
    if (thrown && t)
        region_keep_exceptions(t, &arenas[arena]);
    if (!thrown && !arenas[arena].set_aside && arenas[arena].site->arena.flags & JESPAN_ARENA_RELEASE)
        return false;
    store_relaxed(&arenas[arena].aside_objects, live_objects(arena)); /* before the count: objects may be freed meanwhile */
    uint64_t n = count_survivors(t, arena);
    regions_count(&regions_counters.survivors, arenas[arena].set_aside ? 0 : n);
    if (n || likely(!arenas[arena].is_thrown_through) || !live_objects(arena))
        return n;
    lock(LOCK_TREE);
    bool waits = region_has_throwers(&arenas[arena]);
    unlock(LOCK_TREE);
    return waits;
}

/* The region was not opened since the last look, so what it keeps for the next one goes back. */
static void cool(struct span_arena *a)
{
    if (a->is_warm && a->opened == a->opened_before)
        reset(a);
    a->opened_before = a->opened;
}

/* jemalloc gives an arena's free pages back only as the arena is used. After a peak many regions are idle and keep free
 * pages, so now and then one of them is decayed here. */
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
    bool is_due = a->region && region_is_idle(a) && load_relaxed(&a->state) == ARENA_READY;
    a->busy |= is_due;
    unlock(LOCK_TREE);
    if (!is_due)
        return;
    bool is_empty = !live_objects(a->extents.id);
    if (is_empty)
        cool(a);
    arenas_call("arena.0.decay", a);
    if (is_empty)
        drop_tables(a);
    lock(LOCK_TREE);
    a->busy = false;
    unlock(LOCK_TREE);
}

void regions_release(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    jespan_assert(a->busy); /* so nobody else releases the arena or opens a region in it */
    bool aside = sets_aside(t, arena);
    if (!aside)
        release_all(t, arena);
    lock(LOCK_TREE);
    regions_count(&regions_counters.set_aside, (uint64_t)aside - a->set_aside);
    a->set_aside = aside;
    a->busy = false;
    unlock(LOCK_TREE);
    regions_count(&regions_counters.released, !aside);
    decay_one();
}

/* The next warm region that no thread uses, which is the caller's now; 0: none. */
static uint16_t claim_warm(uint32_t after)
{
    uint32_t id = after + 1;
    lock(LOCK_TREE);
    while (id < arenas_end() && !(arenas[id].is_warm && region_is_idle(&arenas[id])))
        id++;
    if (id < arenas_end())
        arenas[id].busy = true;
    unlock(LOCK_TREE);
    return id < arenas_end() ? (uint16_t)id : 0;
}

COLD void regions_cool_idle(void)
{
    for (uint16_t arena = 0; (arena = claim_warm(arena));) {
        if (!live_objects(arena))
            reset(&arenas[arena]);
        lock(LOCK_TREE);
        arenas[arena].busy = false;
        unlock(LOCK_TREE);
    }
}

/* Under LOCK_TREE. Claims for the caller the next arena that was set aside, is not busy, and has had objects freed
 * since it was looked through; 0: none. */
static uint16_t claim_set_aside(struct thread *t, uint32_t after)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t id = after + 1; id < arenas_end(); id++)
        if (arenas[id].set_aside && !arenas[id].busy && !region_waits_for_exceptions(t, &arenas[id]) &&
            live_objects((uint16_t)id) != load_relaxed(&arenas[id].aside_objects)) {
            arenas[id].busy = true;
            return (uint16_t)id;
        }
    return 0;
}

COLD void regions_tidy(struct thread *t)
{
    uint16_t arena = 0;
    if (!load_relaxed(&regions_counters.set_aside))
        return;
    regions_begin();
    do {
        lock(LOCK_TREE);
        arena = claim_set_aside(t, arena);
        unlock(LOCK_TREE);
        if (arena)
            regions_release(t, arena);
    } while (arena);
    regions_end();
}

/* Under LOCK_TREE. Leaves the region of an entry, if it is one. True: the arena is to be released. */
static bool leave(struct thread *t, struct entry *e)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint16_t arena = entry_region(e);
    e->kind &= ~(~0u << ENTRY_REGION_SHIFT);
    t->regions_entered -= arena != 0;
    return arena && regions_leave(t, arena);
}

/* Under LOCK_TREE. Closes the span of a JESPAN() block that the thread never left; nobody else has the span. True: the
 * arena of its region is to be released. */
static bool close_block(const struct entry *e)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    jespan_span_t *span = (jespan_span_t *)(uintptr_t)e->key;
    const struct open_span *record = handle_find(span);
    uint16_t arena = record ? load_relaxed(&record->region) : 0;
    uint32_t context = handle_close(span);
    if (!context)
        return false;
    tree_close_span(context, timing_now());
    handle_set_period(handle_at((uint32_t)(uintptr_t)span - 1), 0);
    return arena && regions_close(NULL, arena, context);
}

void regions_leave_all(struct thread *t)
{
    regions_begin();
    t->region = 0;
    for (uint32_t i = t->depth; i-- > 0;) {
        struct entry *e = &t->entries[i];
        uint16_t arena = entry_region(e);
        bool is_block = e->kind & ENTRY_REGION_BLOCK;
        if (!arena && !is_block)
            continue;
        e->kind &= ~ENTRY_REGION_BLOCK;
        lock(LOCK_TREE);
        bool ends = leave(t, e);
        ends |= is_block && close_block(e);
        unlock(LOCK_TREE);
        if (ends)
            regions_release(t, arena);
    }
    region_end_exceptions(t);
    regions_end();
}
