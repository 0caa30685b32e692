/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas: which there are, whose they are, and what each thread has of each.
 *
 * A span arena is a jemalloc arena for the contexts of one site, or of one value of a label of theirs. There are at most
 * max_arenas, numbered from 1, which serve others when no context has them any more. jemalloc's part of one is made when
 * memory is first wanted from it.
 *
 * A *arena_cache* is what a thread has of an arena: an explicit tcache of jemalloc's, which holds nothing of any other arena, and
 * counters, which only their thread writes. Jemalloc's own figures of an arena count what lies in such caches as
 * allocated, and not by arena; arena_caches are exact.
 */
#ifndef JESPAN_ARENAS_H
#define JESPAN_ARENAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/exceptions.h"
#include "heap/thread.h"
#include "jemalloc-hooks/span_extents.h"
#include "span/labels.h"
#include "span/sites.h"

struct arena_cache {
    _Atomic uint64_t alloc_objects, alloc_bytes;
    _Atomic uint64_t free_objects, free_bytes; /* release, as in struct counters */
    void *last; /* the small object that the thread allocated last, whose header is in the processor's cache */
    int flags;  /* for jemalloc: its tcache's, or MALLOCX_TCACHE_NONE; 0 while nobody has asked for one */
    int place;  /* where the thread allocates now: arena and tcache, its own or a region's; 0: to be asked for */
};
#define PLACE_TCACHE 0xfff00 /* of MALLOCX_TCACHE() */

#define ARENA_HOMES 4
#define ARENA_THROWERS 8
#define ARENA_HOME_BORROWED 0x80000000u /* an ancestor's, which the span has for want of its own */

enum arena_state { ARENA_FREE, ARENA_NAMED, ARENA_READY };

struct span_arena {
    struct extent_arena extents;   /* of jemalloc's arena, when it is ready */
    _Atomic enum arena_state state;
    int flags;                     /* MALLOCX_ARENA() of it */
    _Atomic uint64_t again_ns;     /* when to try once more, as there was no memory for it; CLOCK_MONOTONIC_COARSE */
    /* LOCK_TREE: */
    _Atomic(const struct site *) site; /* whose spans it serves; of a free one, the former's */
    char value[JESPAN_MAX_STRING_BYTES + 1]; /* of the label, where there is one for each */
    uint32_t contexts;             /* whose arena it is */
    uint32_t first_context;        /* of these; they are linked */
    struct {
        _Atomic uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes, policy_errors;
    } before;                      /* figures of those that it served before */
    _Atomic uint64_t refusals;     /* requests that its limit was in the way of */
    /* Of regions (regions.h): spans that are open, times that threads have entered them, and what is going on. */
    bool region;
    uint32_t users, inside, owner_depth;
    uint32_t opened;               /* times that it became a region's, which nobody else had */
    _Atomic uint32_t homes[ARENA_HOMES]; /* contexts of these spans, perhaps with ARENA_HOME_BORROWED; 0: none */
    bool wanted;                   /* while arenas are looked for that can serve others */
    uint32_t home_users[ARENA_HOMES]; /* how many of them each has */
    bool busy;                     /* whoever made it so has it to himself */
    struct exceptions_level level; /* where its first user's thread was when that was opened */
    struct thread *opened_by;      /* that thread; NULL where there were more users */
    bool is_thrown_through;        /* an exception took a thread out of one of them */
    struct thread *thrown_by[ARENA_THROWERS]; /* threads that are handling exceptions which may have memory here */
    uint64_t purged_bytes;         /* of what jemalloc purged, when header tables were last given back */
    bool set_aside;                /* it has survivors */
    _Atomic uint64_t aside_objects; /* that were live when they were last looked for; UINT64_MAX: some changed hands since */
    _Atomic bool handed_over;      /* something in it was made another's, or is from elsewhere */
    _Atomic(struct thread *) owner; /* of the tcache */
    int tcache_flags;              /* the owner's; 0: none yet */
};

extern struct span_arena *arenas; /* [0] is none */

/* The arena of a new context below one with the arena `inherited`; 0: none. The context counts as one of its contexts until
 * arenas_leave(). Under LOCK_TREE. */
uint16_t arenas_join(const struct site *site, const struct label_set *labels, uint16_t inherited);
uint16_t arenas_share(uint16_t arena); /* of one with that arena, whatever its site */
void arenas_leave(uint16_t arena);

/* Takes arenas that are `wanted` from contexts of which none has an open span or a thread inside. Returns whether any arena has
 * no context now. Under LOCK_TREE. In context_policy.c. */
bool arenas_take_from_contexts(void);

/* It serves spans of that site from now on; figures begin anew where it is another. Under LOCK_TREE; nothing is in it. */
void arenas_rename(uint16_t arena, const struct site *site);

/* Hands what the thread keeps of an arena to jemalloc, and what is free there to the system. With no lock. */
void arenas_give_back(struct thread *t, uint16_t arena);
void arenas_count_refusals(uint16_t arena, uint64_t n);

/* Gives up all caches of this thread, as the program wants one of its own. False: there was none. */
bool arenas_make_room(struct thread *t);

/* A context, or a site, that is without the arena it asked for; an arena for which there is no memory. */
void arenas_count_refused(void);

/* The number of a region's arena, with the times that it was opened. */
static inline uint64_t arenas_place_in_time(uint16_t arena)
{
    return arena ? (uint64_t)arenas[arena].opened << 16 | arena : 0;
}

/* Whether memory of this context is a region's own: the context is that of an open span of it, or below, with no other region
 * between. Without a lock. */
bool arenas_is_home(uint16_t arena, uint32_t context);

/* A jemalloc arena that is a region's: the program shall not allocate from it. */
bool arenas_is_regions(unsigned index);

/* An arena for regions, with no user yet; 0: there is no room for it. Under LOCK_TREE. */
uint16_t arenas_make_region(const struct site *site);

/* Empties a region's tcache, which nobody is using; or gives it up. */
void arenas_flush_region(uint16_t arena);
void arenas_end_region_cache(uint16_t arena);

/* jemalloc's "arena.0.…", which takes nothing, of this arena. With no lock. */
void arenas_call(const char *name, const struct span_arena *a);

/* How the thread allocates from an arena and frees into it: flags for jemalloc. False: it cannot be made, for want of
 * memory. With no lock held but by the thread's own registration. */
bool arenas_find_place(struct thread *t, uint16_t arena, int *flags);

/* The arena_cache of a thread that has allocated or freed there; else NULL. */
static inline struct arena_cache *arenas_cache(struct thread *t, uint16_t arena)
{
    struct arena_cache **arena_caches = load_acquire(&t->arena_caches);
    return arena_caches ? __atomic_load_n(&arena_caches[arena], __ATOMIC_ACQUIRE) : NULL;
}

/* On the arena_cache's thread. */
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

/* Flags for jemalloc for what it frees there. A thread that only frees what others allocated has no use for a cache. */
static inline int arenas_free_flags(const struct arena_cache *arena_cache)
{
    return arena_cache && arena_cache->place ? arena_cache->place & PLACE_TCACHE : MALLOCX_TCACHE_NONE;
}

/* The region's cache is no longer the thread's. */
void arenas_leave_place(struct thread *t, uint16_t arena);

/* The arena of any address; 0: none. */
uint16_t arenas_find(const void *p);

/* Counts an object that was allocated in an arena, or objects that are freed. t may be NULL. */
void arenas_count_alloc(struct thread *t, uint16_t arena, uint64_t bytes);
void arenas_count_frees(struct thread *t, uint16_t arena, uint64_t objects, uint64_t bytes);

/* Frees into the thread's cache what waited, of which it has a arena_cache, and counts it. */
void arenas_take_back(struct thread *t, void *p, size_t usable);

/* Whether objects are to be overwritten before they are freed. */
static inline bool arenas_wipes(uint16_t arena)
{
    return unlikely(arena) && arenas[arena].site->arena.flags & JESPAN_ARENA_WIPED;
}

/* Hands what the thread's caches hold to jemalloc; at its end and before it forks, the caches too. In a forked child, those
 * that there are nevertheless are lost. */
void arenas_flush_thread(struct thread *t);
void arenas_end_thread(struct thread *t);
void arenas_abandon(struct thread *t);

/* What is live in an arena, and was ever allocated. */
struct arena_sums {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
};
struct arena_sums arenas_sums(uint16_t arena);

/* The same since it serves whom it serves now. */
struct arena_sums arenas_own_sums(uint16_t arena);

/* Arenas are numbered below this. */
uint32_t arenas_end(void);

struct arenas_stats {
    uint64_t arenas;           /* that have a site */
    uint64_t refused;          /* contexts for which there was none left, and sites with wishes that cannot be */
    uint64_t tcache_fallbacks; /* times that a thread got no tcache, or one was lost */
};
struct arenas_stats arenas_stats(void);

#endif
