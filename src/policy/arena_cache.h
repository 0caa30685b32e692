/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena caches: a thread's free objects and counters of a span arena.
 *
 * The objects are in an explicit tcache of jemalloc's, which holds objects of no other arena. Only this thread writes
 * the counters. The counters are exact, while jemalloc's figures of an arena count objects in tcaches as allocated.
 */
#ifndef JESPAN_ARENA_CACHE_H
#define JESPAN_ARENA_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"
#include "jemalloc/binding.h"
#include "policy/arenas.h"

struct arena_cache {
    _Atomic uint64_t alloc_objects, alloc_bytes;
    _Atomic uint64_t free_objects, free_bytes; /* release, as in struct counters */
    void *last; /* the small object that the thread allocated last; its header is in the processor's cache */
    int flags;  /* for jemalloc: MALLOCX_TCACHE() of its tcache, or MALLOCX_TCACHE_NONE; 0: not asked for yet */
    int place;  /* flags to allocate with now: the arena and a tcache, the thread's or a region's; 0: arena_cache_find_place() says */
};
#define PLACE_TCACHE 0xfff00 /* of MALLOCX_TCACHE() */

/* Sets the flags for jemalloc by which the thread allocates from an arena. False: there is no memory to make the arena.
 * With no lock held, except by the thread's own registration. */
bool arena_cache_find_place(struct thread *t, uint16_t arena, int *flags);

/* The arena_cache of a thread that has allocated or freed there; else NULL. */
static inline struct arena_cache *arena_cache_of(struct thread *t, uint16_t arena)
{
    struct arena_cache **arena_caches = load_acquire(&t->arena_caches);
    return arena_caches ? __atomic_load_n(&arena_caches[arena], __ATOMIC_ACQUIRE) : NULL;
}

/* To be called on the thread that has the cache. */
HOT_INLINE void arena_cache_count_alloc(struct arena_cache *arena_cache, uint64_t bytes)
{
    own_add(&arena_cache->alloc_objects, 1);
    own_add(&arena_cache->alloc_bytes, bytes);
}

HOT_INLINE void arena_cache_count_frees(struct arena_cache *arena_cache, uint64_t objects, uint64_t bytes)
{
    own_add_release(&arena_cache->free_objects, objects);
    own_add_release(&arena_cache->free_bytes, bytes);
}

/* The flags for jemalloc with which the thread frees there. A thread that only frees what others allocated does not use
 * a cache. */
static inline int arena_cache_free_flags(const struct arena_cache *arena_cache)
{
    return arena_cache && arena_cache->place ? arena_cache->place & PLACE_TCACHE : MALLOCX_TCACHE_NONE;
}

/* The region's tcache is no longer the thread's. */
void arena_cache_leave_place(struct thread *t, uint16_t arena);

/* Counts an object that was allocated in an arena, or objects that are freed. t may be NULL. */
void arena_cache_count_alloc_by(struct thread *t, uint16_t arena, uint64_t bytes);
void arena_cache_count_frees_by(struct thread *t, uint16_t arena, uint64_t objects, uint64_t bytes);

/* Gives an object that was in the free buffer to the thread's cache of its arena, which exists, and counts it. */
void arena_cache_take_back(struct thread *t, void *p, size_t usable);

/* Gives the objects in the thread's cache of an arena to jemalloc, and the arena's free pages to the system. With no
 * lock. */
void arena_cache_give_back(struct thread *t, uint16_t arena);

/* Gives up all tcaches of this thread, because the program wants a tcache of its own. False: there was none. */
bool arena_cache_make_room(struct thread *t);

/* Empties a region's tcache, which no thread is using; or gives it up. */
void arena_cache_flush_region(uint16_t arena);
void arena_cache_end_region(uint16_t arena);

/* arena_cache_flush_thread() gives the objects in the thread's caches to jemalloc. arena_cache_end_thread(), at the thread's end
 * and before it forks, gives up the caches too. arena_cache_abandon(), in a forked child, forgets those that remain. */
void arena_cache_flush_thread(struct thread *t);
void arena_cache_end_thread(struct thread *t);
void arena_cache_abandon(struct thread *t);

/* All that was ever allocated in an arena and freed. */
struct arena_sums {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
};
struct arena_sums arena_cache_sums(uint16_t arena);

/* Takes away what was counted for former sites: all that they allocated was freed. A thread may still be counting such a
 * free. */
static inline void arena_sums_leave_out(struct arena_sums *sums, const struct span_arena *a)
{
    uint64_t objects = load_relaxed(&a->before.objects), bytes = load_relaxed(&a->before.bytes);
    sums->alloc_objects -= objects;
    sums->alloc_bytes -= bytes;
    sums->free_objects -= sums->free_objects < objects ? sums->free_objects : objects;
    sums->free_bytes -= sums->free_bytes < bytes ? sums->free_bytes : bytes;
}

/* The same, counted since the arena began to serve its present site. */
struct arena_sums arena_cache_own_sums(uint16_t arena);

/* Times that a thread got no tcache, or one was lost. */
uint64_t arena_cache_fallbacks(void);

#endif
