/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena caches: where a thread allocates in a span arena, what it counts there, and the end of its caches. */
#include "policy/arena_cache.h"

#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "heap/pagemap.h"
#include "heap/sums.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"

#define TRIES 8
#define TCACHES_MAX 2048 /* jemalloc has about 4,000; the rest is left to the program */

static _Atomic uint64_t tcache_fallbacks;
FIGURE_ROW(figure_fallbacks, "spans.stats.tcache_fallbacks", tcache_fallbacks, FIGURE_NUMBER);
static _Atomic uint32_t tcaches;

/* ---- Allocating and counting ---- */

static struct arena_cache *find_cache(struct thread *t, uint16_t arena)
{
    return t ? arena_cache_of(t, arena) : NULL;
}

/* Only grows, so readers need no lock. */
static void add_magazines(struct thread *t, struct arena_magazines *m)
{
    arena_magazines_start(m);
    m->next = load_relaxed(&t->arena_magazines);
    while (!atomic_compare_exchange_weak(&t->arena_magazines, &m->next, m))
        ;
}

static void join_caches(struct span_arena *a, struct arena_cache *c)
{
    c->next = load_relaxed(&a->caches);
    while (!atomic_compare_exchange_weak(&a->caches, &c->next, c))
        ;
}

static COLD struct arena_cache *make_cache(struct thread *t, uint16_t arena)
{
    struct arena_cache **arena_caches = load_relaxed(&t->arena_caches);
    if (!arena_caches) {
        arena_caches = meta_map((conf.max_arenas + 1) * sizeof(struct arena_cache *));
        store_release(&t->arena_caches, arena_caches);
    }
    struct arena_cache *arena_cache = arena_caches ? meta_alloc(sizeof *arena_cache) : NULL;
    if (arena_cache) {
        arena_cache->thread = t;
        arena_cache->magazines = &arena_cache->own;
        add_magazines(t, &arena_cache->own);
        join_caches(&arenas[arena], arena_cache);
        __atomic_store_n(&arena_caches[arena], arena_cache, __ATOMIC_RELEASE);
    }
    return arena_cache;
}

/* The thread's cache of the arena, which is made if there is none; NULL: no memory, or no thread. */
HOT_INLINE struct arena_cache *get_cache(struct thread *t, uint16_t arena)
{
    struct arena_cache *arena_cache = find_cache(t, arena);
    return likely(arena_cache || !t) ? arena_cache : make_cache(t, arena);
}

static COLD int make_tcache(void)
{
    unsigned index;
    size_t bytes = sizeof index;
    if (atomic_fetch_add(&tcaches, 1) < TCACHES_MAX && jespan_je_mallctl("tcache.create", &index, &bytes, NULL, 0) == 0)
        return (int)MALLOCX_TCACHE(index);
    atomic_fetch_sub(&tcaches, 1);
    atomic_fetch_add_explicit(&tcache_fallbacks, 1, memory_order_relaxed);
    return MALLOCX_TCACHE_NONE;
}

/* A region's arena has one tcache, which belongs to one thread, its owner. For every other arena, each thread has a
 * tcache of its own. */
static int tcache_flags(struct thread *t, struct span_arena *a, struct arena_cache *arena_cache)
{
    if (a->region && load_relaxed(&a->owner) != t)
        return MALLOCX_TCACHE_NONE;
    int *flags = a->region ? &a->tcache_flags : &arena_cache->flags;
    if (!*flags)
        *flags = make_tcache();
    return *flags;
}

/* The orphan has the magazines for those who count what threads keep. */
static COLD bool make_kept(struct span_arena *a)
{
    struct region_kept *kept = meta_alloc(sizeof *kept);
    if (!kept)
        return false;
    add_magazines(&thread_orphan, &kept->magazines);
    a->kept = kept;
    return true;
}

bool arena_cache_find_place(struct thread *t, uint16_t arena, int *flags)
{
    jespan_assert(arena && arena < arenas_end());
    struct span_arena *a = &arenas[arena];
    struct arena_cache *arena_cache = get_cache(t, arena);
    if (load_acquire(&a->state) != ARENA_READY && !arenas_make_ready(arena))
        return false;
    *flags = a->flags | (arena_cache ? tcache_flags(t, a, arena_cache) : MALLOCX_TCACHE_NONE);
    if (!arena_cache)
        return true;
    if (!a->region)
        arena_cache->place = *flags;
    else if (load_relaxed(&a->owner) == t && (a->kept || make_kept(a)))
        arena_cache_take_place(t, arena);
    return true;
}

struct arena_cache *arena_cache_take_place(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct arena_cache *arena_cache = find_cache(t, arena);
    if (!arena_cache || !a->kept || !a->tcache_flags)
        return NULL;
    arena_cache->region = a->kept;
    arena_cache->magazines = &a->kept->magazines;
    compiler_barrier(); /* a signal handler that finds the place finds these */
    arena_cache->place = a->flags | a->tcache_flags;
    return arena_cache;
}

static void leave_place(struct arena_cache *arena_cache)
{
    arena_cache->place = 0;
    compiler_barrier();
    arena_cache->magazines = &arena_cache->own;
    arena_cache->region = NULL;
}

void arena_cache_leave_place(struct thread *t, uint16_t arena)
{
    struct arena_cache *arena_cache = find_cache(t, arena);
    if (arena_cache)
        leave_place(arena_cache);
}

void region_kept_begin(struct region_kept *kept)
{
    if (kept)
        kept->taken = 0;
}

COLD void region_kept_abandon(struct region_kept *kept)
{
    if (!kept)
        return;
    arena_magazines_after_fork(&kept->magazines);
    arena_magazines_forget(&kept->magazines);
    kept->taken = REGION_TAKEN_MAX + 1;
}

/* Gives what is in the magazines to the tcache behind them. */
static void empty_magazines(struct arena_cache *arena_cache)
{
    if (arena_cache->place || arena_cache->flags)
        arena_magazines_empty(arena_cache);
}

/* Counts in the orphan's cache if the thread has no block, or there is no memory for a cache. */
void arena_cache_count_alloc_by(struct thread *t, uint16_t arena, uint64_t bytes)
{
    struct arena_cache *arena_cache = get_cache(t, arena);
    if (likely(arena_cache)) {
        arena_cache_count_alloc(arena_cache, bytes);
        return;
    }
    lock(LOCK_ORPHAN);
    if ((arena_cache = get_cache(&thread_orphan, arena)))
        arena_cache_count_alloc(arena_cache, bytes);
    unlock(LOCK_ORPHAN);
}

void arena_cache_count_frees_by(struct thread *t, uint16_t arena, uint64_t objects, uint64_t bytes)
{
    struct arena_cache *arena_cache = get_cache(t, arena);
    if (likely(arena_cache)) {
        arena_cache_count_frees(arena_cache, objects, bytes);
        return;
    }
    lock(LOCK_ORPHAN);
    if ((arena_cache = get_cache(&thread_orphan, arena)))
        arena_cache_count_frees(arena_cache, objects, bytes);
    unlock(LOCK_ORPHAN);
}

/* ---- Figures ---- */

/* Reads again when the thread flushed its buffer meanwhile, so a free that moves from the buffer to the cache is seen
 * once (sums.h). Objects of regions do not wait in the buffer. */
static void add_freed(struct arena_sums *sums, struct arena_cache *arena_cache, uint16_t arena)
{
    uint64_t objects = 0, bytes = 0;
    bool waits = !arenas[arena].region;
    for (int i = 0; i < TRIES; i++) {
        struct freed freed[FREE_BUFFER_MAX];
        uint32_t sequence = load_acquire(&arena_cache->thread->free_buffer_sequence);
        objects = load_acquire(&arena_cache->free_objects);
        bytes = load_acquire(&arena_cache->free_bytes);
        for (int n = waits ? sums_read_buffer(arena_cache->thread, freed) : 0; n--;)
            if (freed[n].arena == arena) {
                objects++;
                bytes += freed[n].bytes;
            }
        if (!waits || sums_stood_still(arena_cache->thread, sequence))
            break;
    }
    sums->free_objects += objects;
    sums->free_bytes += bytes;
}

struct arena_sums arena_cache_sums(uint16_t arena)
{
    struct arena_sums sums = {0};
    for (struct arena_cache *c = load_acquire(&arenas[arena].caches); c; c = c->next)
        add_freed(&sums, c, arena);
    atomic_thread_fence(memory_order_acquire);
    for (struct arena_cache *c = load_acquire(&arenas[arena].caches); c; c = c->next) {
        sums.alloc_objects += load_relaxed(&c->alloc_objects);
        sums.alloc_bytes += load_relaxed(&c->alloc_bytes);
    }
    return sums;
}

struct arena_sums arena_cache_own_sums(uint16_t arena)
{
    struct arena_sums sums = arena_cache_sums(arena);
    arena_sums_leave_out(&sums, &arenas[arena]);
    return sums;
}

uint64_t arena_cache_fallbacks(void)
{
    return load_relaxed(&tcache_fallbacks);
}

/* ---- A thread's caches ---- */

/* Calls jemalloc for a tcache, if these flags name one. */
static void call_tcache(const char *name, int flags)
{
    unsigned index = (unsigned)(flags >> 8 & 0xfff) - 2; /* MALLOCX_TCACHE() undone */
    if (arena_cache_is_tcache(flags))
        jespan_je_mallctl(name, NULL, NULL, &index, sizeof index);
}

static void destroy_tcache(int flags)
{
    call_tcache("tcache.destroy", flags);
    atomic_fetch_sub(&tcaches, arena_cache_is_tcache(flags));
}

void arena_cache_flush_region(uint16_t arena)
{
    call_tcache("tcache.flush", arenas[arena].tcache_flags);
}

/* In the order of end(): a signal handler that allocates meanwhile finds the tcache while it exists, or makes another one. */
void arena_cache_end_region(struct thread *owner, uint16_t arena)
{
    int flags = arenas[arena].tcache_flags;
    arenas[arena].tcache_flags = 0;
    arena_cache_leave_place(owner, arena);
    compiler_barrier();
    destroy_tcache(flags);
}

static void each_cache(struct thread *t, void (*act)(struct arena_cache *))
{
    for (uint32_t id = 1, end = load_relaxed(&t->arena_caches) ? arenas_end() : 0; id < end; id++) {
        struct arena_cache *arena_cache = find_cache(t, (uint16_t)id);
        if (arena_cache)
            act(arena_cache);
    }
}

static void flush(struct arena_cache *arena_cache)
{
    empty_magazines(arena_cache);
    call_tcache("tcache.flush", arena_cache->place ? arena_cache->place : arena_cache->flags);
}

/* Takes the tcache out of the cache. Returns the tcache's flags. */
static int forget(struct arena_cache *arena_cache)
{
    int flags = arena_cache->flags;
    arena_cache->flags = 0;
    leave_place(arena_cache);
    return flags;
}

/* Forgets the tcache first: a signal handler that allocates meanwhile must not find a destroyed one. */
static void end(struct arena_cache *arena_cache)
{
    empty_magazines(arena_cache);
    int flags = forget(arena_cache);
    compiler_barrier();
    destroy_tcache(flags);
}

static void lose(struct arena_cache *arena_cache)
{
    bool is_lost = arena_cache_is_tcache(forget(arena_cache));
    arena_magazines_after_fork(&arena_cache->own);
    atomic_fetch_add_explicit(&tcache_fallbacks, is_lost, memory_order_relaxed);
}

void arena_cache_flush_thread(struct thread *t)
{
    each_cache(t, flush);
}

COLD bool arena_cache_make_room(struct thread *t)
{
    uint32_t before = load_relaxed(&tcaches);
    each_cache(t, end);
    return load_relaxed(&tcaches) < before;
}

COLD void arena_cache_give_back(struct thread *t, uint16_t arena)
{
    struct arena_cache *arena_cache = arena_cache_of(t, arena);
    if (arena_cache)
        flush(arena_cache);
    if (load_relaxed(&arenas[arena].owner) == t)
        arena_cache_flush_region(arena);
    if (!extents_pause) /* inside jemalloc, this thread may hold what the call waits for */
        arenas_call("arena.0.purge", &arenas[arena]);
}

void arena_cache_end_thread(struct thread *t)
{
    each_cache(t, end);
}

/* The thread may have been using the tcaches, and jemalloc's lists in the child do not have them. So they are lost. */
COLD void arena_cache_abandon(struct thread *t)
{
    each_cache(t, lose);
}
