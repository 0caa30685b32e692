/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: open spans with a span arena to themselves, whose memory goes in one go when they are closed. */
#include "malloc/regions.h"

#include <string.h>

#include "base/clock.h"
#include "base/exceptions.h"
#include "base/futex.h"
#include "base/lock.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "heap/timing.h"
#include "jemalloc/binding.h"
#include "malloc/track.h"
#include "policy/arenas.h"
#include "span/handles.h"
#include "span/span.h"
#include "span/tree.h"

static _Atomic uint64_t released, released_objects, released_bytes, shared, set_aside, survivors, lost;

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- Nobody forks in the middle ----
 * A child has no thread that would go on with a release. So fork waits for those under way, and those that are to begin
 * wait for it. Paired by the order of at_work and forks, both sequentially consistent. */

static _Atomic uint32_t at_work, forks;
static THREAD_LOCAL uint32_t at_work_here;

void regions_begin(void)
{
    if (at_work_here++)
        return;
    for (;;) {
        atomic_fetch_add(&at_work, 1);
        uint32_t n = atomic_load(&forks);
        if (likely(!n))
            return;
        if (atomic_fetch_sub(&at_work, 1) == 1)
            futex_wake_all(&at_work);
        futex_wait(&forks, n, UINT64_MAX);
    }
}

void regions_end(void)
{
    if (--at_work_here)
        return;
    if (atomic_fetch_sub(&at_work, 1) == 1 && unlikely(atomic_load(&forks)))
        futex_wake_all(&at_work);
}

static COLD void wait_for_releases(void)
{
    uint32_t own = at_work_here != 0; /* a signal handler forks */
    atomic_fetch_add(&forks, 1);
    for (uint32_t n = atomic_load(&at_work); n != own; n = atomic_load(&at_work))
        futex_wait(&at_work, n, UINT64_MAX);
    at_work_here++; /* what is released in handlers of fork does not wait */
}

COLD void regions_after_fork_in_parent(void)
{
    at_work_here--;
    atomic_fetch_sub(&forks, 1);
    futex_wake_all(&forks);
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

/* Its place among those of the arena's open spans, or a free one; -1: there is none. */
static int find_home(const struct span_arena *a, uint32_t context)
{
    int free = -1;
    for (int i = ARENA_HOMES - 1; i >= 0; i--) {
        if (a->home_users[i] && load_relaxed(&a->homes[i]) == context)
            return i;
        if (!a->home_users[i])
            free = i;
    }
    return free;
}

/* One too many is left out: what is handed over to its context counts as another's, which is the safe mistake. */
static void add_home(struct span_arena *a, uint32_t context)
{
    int i = find_home(a, context);
    if (i < 0)
        return;
    a->home_users[i]++;
    store_relaxed(&a->homes[i], context);
}

static void remove_home(struct span_arena *a, uint32_t context)
{
    for (int i = 0; i < ARENA_HOMES; i++)
        if (a->home_users[i] && (load_relaxed(&a->homes[i]) & ~ARENA_HOME_BORROWED) == context) {
            if (!--a->home_users[i])
                store_relaxed(&a->homes[i], 0);
            return;
        }
}

void regions_move(uint16_t arena, uint32_t from, uint32_t to)
{
    remove_home(&arenas[arena], from);
    add_home(&arenas[arena], to);
}

static void forget_homes(struct span_arena *a)
{
    for (int i = 0; i < ARENA_HOMES; i++) {
        a->home_users[i] = 0;
        store_relaxed(&a->homes[i], 0);
    }
}

static void begin_anew(struct span_arena *a, struct thread *t)
{
    a->opened++;
    a->opened_by = t;
    a->level = exceptions_level();
    a->is_thrown_through = false;
    for (int i = 0; i < ARENA_THROWERS; i++)
        a->thrown_by[i] = NULL;
    forget_homes(a);
}

uint16_t regions_open(struct thread *t, const struct site *site, uint32_t context, bool borrowed)
{
    uint16_t arena = find_idle(site);
    if (!arena)
        arena = arenas_make_region(site);
    if (!arena) {
        arena = find_shared(site);
        count(&shared, arena != 0);
    }
    if (arena) {
        arenas_rename(arena, site);
        if (arenas[arena].users++)
            arenas[arena].opened_by = NULL;
        else
            begin_anew(&arenas[arena], t);
        add_home(&arenas[arena], context | (borrowed ? ARENA_HOME_BORROWED : 0));
    }
    return arena;
}

void regions_cancel(uint16_t arena, uint32_t context)
{
    arenas[arena].users--;
    remove_home(&arenas[arena], context);
}

/* Whoever finds it so has the arena to himself. */
static bool ends(struct span_arena *a)
{
    if (a->users || a->inside)
        return false;
    forget_homes(a);
    a->busy = true;
    return true;
}

/* Under LOCK_TREE. An exception takes the thread out of a span: memory of that may be in the arena for as long as it
 * lasts. Where more threads than that do so at once, the arena is lost. */
static void note_exceptions(struct thread *t, struct span_arena *a)
{
    unsigned then = a->opened_by == t ? a->level.uncaught : 0;
    if (likely(exceptions_level().uncaught <= then))
        return;
    a->is_thrown_through = true;
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (!a->thrown_by[i] || a->thrown_by[i] == t || i == ARENA_THROWERS - 1) {
            a->thrown_by[i] = a->thrown_by[i] && a->thrown_by[i] != t ? &thread_orphan : t;
            return;
        }
}

bool regions_close(struct thread *t, uint16_t arena, uint32_t context)
{
    struct span_arena *a = &arenas[arena];
    a->users--;
    remove_home(a, context);
    if (t)
        note_exceptions(t, a);
    return ends(a);
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
    note_exceptions(t, a);
    if (load_relaxed(&a->owner) == t && !--a->owner_depth) {
        arenas_leave_place(t, arena);
        store_relaxed(&a->owner, NULL);
    }
    return ends(a);
}

COLD void regions_before_fork(struct thread *self)
{
    wait_for_releases();
    if (!self)
        return;
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (load_relaxed(&arenas[id].owner) == self) {
            arenas_end_region_cache((uint16_t)id);
            arenas_leave_place(self, (uint16_t)id);
        }
}

static void forget_thrower(struct span_arena *a, int i)
{
    a->thrown_by[i] = NULL;
    store_relaxed(&a->aside_objects, UINT64_MAX); /* to be looked through */
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
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (a->thrown_by[i] && a->thrown_by[i] != self)
            forget_thrower(a, i);
    arenas_leave_place(self, a->extents.id);
    for (uint32_t i = 0; self && i < self->depth; i++)
        if (entry_region(&self->entries[i]) == a->extents.id)
            a->inside++;
}

COLD void regions_after_fork(struct thread *self)
{
    at_work_here--;
    atomic_store(&at_work, at_work_here != 0);
    atomic_store(&forks, 0);
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

/* A walk over the live objects of an arena, until all of them were seen: jemalloc puts them at low addresses, so that a
 * small region in an arena that once had a large one is as quick as it ought to be. */
#define PAGES_WITH_TABLES 4096 /* that keep them for the next region, at least */
struct visit {
    struct thread *t;
    uint16_t arena;
    bool takes_away; /* else survivors are counted */
    uint64_t left, survivors, objects, bytes;
    uint32_t tag; /* of the owner that was seen last, as the next object's is likely to be the same */
    uint64_t pages; /* seen so far */
    uint64_t freed_objects, freed_bytes; /* not counted for him yet */
};

static void turn_to(struct visit *v, uint32_t tag)
{
    if (v->takes_away && v->freed_objects)
        track_count_frees(v->t, v->tag & ~TAG_HANDED_OVER, v->freed_objects, v->freed_bytes);
    v->freed_objects = v->freed_bytes = 0;
    v->tag = tag;
}

static void visit_objects(struct visit *v, uint64_t n, size_t usable)
{
    v->freed_objects += n;
    v->freed_bytes += n * usable;
    v->objects += n;
    v->bytes += n * usable;
    v->survivors += v->tag & TAG_HANDED_OVER ? n : 0;
    v->left -= n < v->left ? n : v->left;
}

/* What begins in a page: more than enough of the run of pages that it is in, all of which the arena can touch. */
static void wipe(const struct visit *v, uintptr_t page, uintptr_t end, size_t usable)
{
    size_t reach = HEADER_PAGE_BYTES + usable;
    if (v->takes_away && arenas_wipes(v->arena))
        explicit_bzero((void *)page, reach < end - page ? reach : end - page);
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
    wipe(v, page, end, usable); /* the last one may reach into the next page */
}

/* Where in its page it begins, only jemalloc knows: it moves large objects by up to a page (opt.cache_oblivious). */
static void visit_big(struct visit *v, uintptr_t page, uintptr_t end, page_entry_t *at)
{
    size_t usable = track_usable((void *)page);
    uint32_t tag = entry_big_tag(load_relaxed(at));
    if (tag != v->tag)
        turn_to(v, tag);
    visit_objects(v, 1, usable);
    wipe(v, page, end, usable);
    if (v->takes_away)
        store_relaxed(at, (uint64_t)(uint32_t)load_relaxed(at));
}

static int visit_range(void *visit, uintptr_t start, size_t bytes)
{
    struct visit *v = visit;
    for (uintptr_t page = start; page < start + bytes && v->left; page += HEADER_PAGE_BYTES) {
        page_entry_t *at = pagemap_page(page);
        uint64_t entry = at ? load_relaxed(at) : 0;
        if (entry_is_small_any(entry))
            visit_small(v, page, start + bytes, entry);
        else if (entry_big_tag(entry))
            visit_big(v, page, start + bytes, at);
        if (v->takes_away && v->pages++ >= PAGES_WITH_TABLES)
            pagemap_drop_tables(page, HEADER_PAGE_BYTES);
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

/* ---- Exceptions ----
 * A region that an exception leaves may hold it, and what belongs to it. Those that lie in the region are made
 * survivors of the context outside. Where none does, as one was thrown in an inner region, say, the region stays until
 * its thread is through with the exceptions that it has now. */

struct search {
    struct thread *t;
    uint64_t found;
};

static void keep_one(struct search *s, const char *start, const char *stop, uintptr_t end)
{
    const void *p = exceptions_find(start, stop, (const char *)end);
    s->found += p && !track_retag(s->t, (void *)(uintptr_t)p, s->t->tag);
}

static void search_page(struct search *s, uintptr_t page, uintptr_t end, uint64_t entry)
{
    if (!entry_is_small_any(entry)) {
        if (entry_big_tag(entry))
            keep_one(s, (const char *)page, (const char *)(page + HEADER_PAGE_BYTES), end);
        return;
    }
    size_t step = (size_t)1 << CODE_SLOT_SHIFT(entry_plain_code(entry));
    if (class_bytes[entry_class(entry)] <= EXCEPTION_BYTES_MIN)
        return;
    for (uintptr_t at = page; at < page + HEADER_PAGE_BYTES; at += step)
        if (load_relaxed(entry_slot_any(entry, at)))
            keep_one(s, (const char *)at, (const char *)(at + step), end);
}

static int search_range(void *search, uintptr_t start, size_t bytes)
{
    for (uintptr_t page = start; page < start + bytes; page += HEADER_PAGE_BYTES) {
        page_entry_t *at = pagemap_page(page);
        search_page(search, page, start + bytes, at ? load_relaxed(at) : 0);
    }
    return 0;
}

static bool has_throwers(const struct span_arena *a)
{
    int i = 0;
    while (i < ARENA_THROWERS && !a->thrown_by[i])
        i++;
    return i < ARENA_THROWERS;
}

/* Where the one exception of the only thread is found, it says itself when it is over. */
static COLD void keep_exceptions(struct thread *t, struct span_arena *a)
{
    struct search s = {t, 0};
    if (!tree_lockless)
        lock(LOCK_TREE);
    extent_arena_each_range(&a->extents, search_range, &s);
    if (tree_lockless)
        lock(LOCK_TREE);
    if (s.found == 1 && a->opened_by == t && exceptions_level().uncaught == a->level.uncaught + 1)
        a->thrown_by[0] = NULL;
    unlock(LOCK_TREE);
}

/* Under LOCK_TREE. A thread says itself whether it is through with its exceptions: another could find it between two of
 * its steps. */
static bool is_held(struct thread *t, struct span_arena *a)
{
    struct exceptions_level level = exceptions_level(), then = a->opened_by == t ? a->level : (struct exceptions_level){0, NULL};
    bool is_through = level.uncaught <= then.uncaught && (!level.caught || level.caught == then.caught);
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (a->thrown_by[i] == t && is_through)
            forget_thrower(a, i);
    return has_throwers(a);
}

/* Where nothing was handed over, and nobody else allocated there, there is no need to look. What is counted and not
 * found is being freed, and jemalloc not through with it. */
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

static int drop_range(void *unused, uintptr_t start, size_t bytes)
{
    (void)unused;
    pagemap_drop_tables(start, bytes);
    return 0;
}

/* Nothing is in the arena, nor comes. When much was purged, much of it was not used lately. */
#define TABLES_PURGED_BYTES ((uint64_t)16 << 20)
static void drop_tables(struct span_arena *a)
{
    uint64_t purged = load_relaxed(&a->extents.figures.purged_lazy_bytes) + load_relaxed(&a->extents.figures.purged_forced_bytes);
    if (purged - a->purged_bytes < TABLES_PURGED_BYTES)
        return;
    a->purged_bytes = purged;
    extent_arena_each_range(&a->extents, drop_range, NULL);
}

static void release_all(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct visit v = visit_all(t, arena, true);
    if (!v.objects) {
        drop_tables(a);
        return;
    }
    arenas_count_frees(t, arena, v.objects, v.bytes);
    arenas_flush_region(arena);
    arenas_call("arena.0.reset", a);
    store_relaxed(&a->handed_over, false);
    drop_tables(a);
    count(&released_objects, v.objects);
    count(&released_bytes, v.bytes);
}

static bool sets_aside(struct thread *t, uint16_t arena)
{
    bool thrown = !arenas[arena].set_aside && arenas[arena].is_thrown_through && live_objects(arena);
    if (thrown && t)
        keep_exceptions(t, &arenas[arena]);
    if (!thrown && !arenas[arena].set_aside && arenas[arena].site->arena.flags & JESPAN_ARENA_RELEASE)
        return false;
    store_relaxed(&arenas[arena].aside_objects, live_objects(arena)); /* first: one may be freed meanwhile */
    uint64_t n = count_survivors(t, arena);
    count(&survivors, arenas[arena].set_aside ? 0 : n);
    if (n || likely(!arenas[arena].is_thrown_through) || !live_objects(arena))
        return n;
    lock(LOCK_TREE);
    bool waits = has_throwers(&arenas[arena]);
    unlock(LOCK_TREE);
    return waits;
}

/* jemalloc gives an arena's pages back as the arena is used. After a rush many are idle, with pages that nobody wants:
 * now and then one of them gets its turn. */
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
    arenas_call("arena.0.decay", a);
    if (!live_objects(a->extents.id))
        drop_tables(a);
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

/* Under LOCK_TREE. The next one that was set aside, is nobody's, and has lost something since it was looked through,
 * which the caller then has; 0: none. */
static uint16_t claim_set_aside(struct thread *t, uint32_t after)
{
    for (uint32_t id = after + 1; id < arenas_end(); id++)
        if (arenas[id].set_aside && !arenas[id].busy && !is_held(t, &arenas[id]) &&
            live_objects((uint16_t)id) != load_relaxed(&arenas[id].aside_objects)) {
            arenas[id].busy = true;
            return (uint16_t)id;
        }
    return 0;
}

/* The thread is not in the middle of any. */
static void end_exceptions_of(struct thread *t)
{
    lock(LOCK_TREE);
    for (uint32_t id = 1; id < arenas_end(); id++) {
        for (int i = 0; i < ARENA_THROWERS; i++)
            if (arenas[id].thrown_by[i] == t)
                forget_thrower(&arenas[id], i);
        if (arenas[id].opened_by == t)
            arenas[id].opened_by = NULL;
    }
    unlock(LOCK_TREE);
}

COLD void regions_tidy(struct thread *t)
{
    uint16_t arena = 0;
    if (!load_relaxed(&set_aside))
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

/* Under LOCK_TREE. Whether the arena is to be released. */
static bool leave(struct thread *t, struct entry *e)
{
    uint16_t arena = entry_region(e);
    e->kind &= ~(~0u << ENTRY_REGION_SHIFT);
    t->regions_entered -= arena != 0;
    return arena && regions_leave(t, arena);
}

/* Under LOCK_TREE. Of a block that was never left: nobody else has its span. */
static bool close_block(const struct entry *e)
{
    jespan_span_t *span = (jespan_span_t *)(uintptr_t)e->key;
    const struct slot *slot = handle_slot(span);
    uint16_t arena = slot ? slot->region : 0;
    uint32_t context = handle_close(span);
    if (!context)
        return false;
    tree_close_span(context, timing_now());
    handle_set_period(handle_slot_at((uint32_t)(uintptr_t)span - 1), 0);
    return arena && regions_close(NULL, arena, context);
}

void regions_leave_all(struct thread *t)
{
    regions_begin();
    t->region = 0;
    for (uint32_t i = t->depth; i-- > 0;) {
        struct entry *e = &t->entries[i];
        uint16_t arena = entry_region(e);
        bool is_block = e->kind & ENTRY_BLOCK;
        if (!arena && !is_block)
            continue;
        e->kind &= ~ENTRY_BLOCK;
        lock(LOCK_TREE);
        bool ends = leave(t, e);
        ends |= is_block && close_block(e);
        unlock(LOCK_TREE);
        if (ends)
            regions_release(t, arena);
    }
    end_exceptions_of(t);
    regions_end();
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
