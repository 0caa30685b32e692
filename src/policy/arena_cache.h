/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena caches: a thread's free objects and counters of a span arena.
 *
 * The objects are in magazines (as in heap/magazine.h, but small), and behind these in an explicit tcache of jemalloc's,
 * which holds objects of no other arena. Only this thread writes the counters. The counters are exact, while jemalloc's
 * figures of an arena count objects in magazines and tcaches as allocated.
 *
 * A thread uses the magazines while it has a `place` in the arena. A region has magazines and a tcache of its own. Its owner uses
 * these, and so does the thread that releases the region, which has the arena to itself. What is in them stays for the next
 * region. decision 073.
 */
#ifndef JESPAN_ARENA_CACHE_H
#define JESPAN_ARENA_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/die.h"
#include "heap/classes.h"
#include "heap/pagemap.h"
#include "heap/thread.h"
#include "jemalloc/binding.h"
#include "policy/arenas.h"

struct arena_cache {
    _Atomic uint64_t alloc_objects, alloc_bytes;
    _Atomic uint64_t free_objects, free_bytes; /* release, as in struct counters */
    void *last; /* the small object that the thread allocated last; its header is in the processor's cache */
    int flags;  /* for jemalloc: MALLOCX_TCACHE() of its tcache, or MALLOCX_TCACHE_NONE; 0: not asked for yet */
    int place;  /* flags to allocate with now: the arena and a tcache, the thread's or a region's; 0: arena_cache_find_place() says */
    struct region_kept *region;        /* the region's, while the thread has a place there; else NULL */
    struct arena_magazines *magazines; /* in use: `own`, or the region's */
    struct thread *thread;             /* whose cache it is */
    struct arena_cache *next;          /* of the arena */
    uint8_t next_refill[CLASS_IN_ARENA]; /* by class: how many objects the next refill gets; 0: it is the first one */
    struct arena_magazines own;
};

/* What a region has for its owner. */
#define REGION_TAKEN_MAX 1024u
struct region_kept {
    struct arena_magazines magazines;
    /* The small objects that owners allocated since the region was opened, up to the maximum; one more: there were more. Some may be
     * freed, and an address may be there twice. */
    uint32_t taken;
    void *object[REGION_TAKEN_MAX];
};

/* On the owner. */
HOT_INLINE void region_note_alloc(struct region_kept *kept, void *p)
{
    uint32_t n = kept->taken;
    if (likely(n < REGION_TAKEN_MAX))
        kept->object[n] = p;
    kept->taken = n < REGION_TAKEN_MAX ? n + 1 : REGION_TAKEN_MAX + 1;
}

HOT_INLINE void region_note_free(struct region_kept *kept, const void *p)
{
    uint32_t n = kept->taken - 1;
    if (n < REGION_TAKEN_MAX && kept->object[n] == p)
        kept->taken = n;
}
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

/* Whether these flags of jemalloc's name an explicit tcache. */
static inline bool arena_cache_is_tcache(int flags)
{
    return flags & PLACE_TCACHE && (flags & PLACE_TCACHE) != MALLOCX_TCACHE_NONE;
}

/* ---- Magazines: arena_magazines.c ---- */

/* False: the magazine is full, or the thread has no place in the arena. */
HOT_INLINE bool arena_cache_has_room(const struct arena_cache *c, size_t class)
{
    return load_relaxed(&c->magazines->top[class]) != c->magazines->full[class] && c->place;
}

/* Puts a small object, which is counted as freed and has no owner, into a magazine that has room. The entry is written before the top
 * moves, as in magazine_put(). */
HOT_INLINE void arena_cache_put(struct arena_cache *c, size_t class, struct free_object object)
{
    _Atomic(struct free_object *) *at = &c->magazines->top[class];
    struct free_object *top = load_relaxed(at);
    top[1] = object;
    top[2].p = NULL;
    store_release(at, top + 1);
}

/* The same for any magazine. False: it has no room; nothing has changed. */
HOT_INLINE bool arena_cache_keep(struct arena_cache *c, size_t class, struct free_object object)
{
    if (unlikely(!arena_cache_has_room(c, class)))
        return false;
    arena_cache_put(c, class, object);
    return true;
}

void arena_cache_free_slow(struct arena_cache *c, size_t class, struct free_object object);

/* The same. Without room, the older half of the magazine, or the object, goes to jemalloc. */
HOT_INLINE void arena_cache_free(struct arena_cache *c, size_t class, struct free_object object)
{
    if (unlikely(!arena_cache_keep(c, class, object)))
        arena_cache_free_slow(c, class, object);
}

/* Puts new objects into an empty magazine. The thread has a place in the arena, with a tcache. Returns the bytes of pages that are new to
 * the arena, or had objects of another class. */
size_t arena_cache_refill(struct arena_cache *c, struct class_info info);

void arena_magazines_start(struct arena_magazines *m);

/* Gives all objects to jemalloc. The thread has a place in the arena. */
void arena_magazines_empty(struct arena_cache *c);

/* Forgets the objects. True: there were any. */
bool arena_magazines_forget(struct arena_magazines *m);

/* To be called in a forked child for a thread that it lacks. A magazine that was just given another room loses its objects. */
void arena_magazines_after_fork(struct arena_magazines *m);

/* ---- Places and figures ---- */

/* The thread gets what the region has for its owner, if it exists. The caller has the arena to itself. Returns the thread's cache of the
 * arena; NULL: there is none. */
struct arena_cache *arena_cache_take_place(struct thread *t, uint16_t arena);

/* That is no longer the thread's. */
void arena_cache_leave_place(struct thread *t, uint16_t arena);

/* The region begins anew, or a forked child lacks the owner: what it took is not known. */
void region_kept_begin(struct region_kept *kept);
void region_kept_abandon(struct region_kept *kept);

/* Counts an object that was allocated in an arena, or objects that are freed. t may be NULL. */
void arena_cache_count_alloc_by(struct thread *t, uint16_t arena, uint64_t bytes);
void arena_cache_count_frees_by(struct thread *t, uint16_t arena, uint64_t objects, uint64_t bytes);

/* The thread's cache of the arena of an object that was in the free buffer. It exists. */
HOT_INLINE struct arena_cache *arena_cache_of_waiting(struct thread *t, struct free_object object)
{
    struct arena_cache *arena_cache = arena_cache_of(t, pagemap_claimed_by((uintptr_t)object.p));
    jespan_assert(arena_cache);
    return arena_cache;
}

/* Gives such an object to that cache, and counts it. False: the magazine has no room; nothing has changed. */
HOT_INLINE bool arena_cache_try_take_back(struct thread *t, size_t class, struct free_object object)
{
    struct arena_cache *arena_cache = arena_cache_of_waiting(t, object);
    if (unlikely(!arena_cache_has_room(arena_cache, class)))
        return false;
    arena_cache_count_frees(arena_cache, 1, class_bytes[class]); /* first, for a child that is forked meanwhile: track_abandon() */
    arena_cache_put(arena_cache, class, object);
    return true;
}

/* The same. Without room, the older half of the magazine, or the object, goes to jemalloc. */
HOT_INLINE void arena_cache_take_back(struct thread *t, size_t class, struct free_object object)
{
    struct arena_cache *arena_cache = arena_cache_of_waiting(t, object);
    arena_cache_count_frees(arena_cache, 1, class_bytes[class]);
    arena_cache_free(arena_cache, class, object);
}

/* Gives the objects in the thread's cache of an arena to jemalloc, and the arena's free pages to the system. With no
 * lock. */
void arena_cache_give_back(struct thread *t, uint16_t arena);

/* Gives up all tcaches of this thread, because the program wants a tcache of its own. False: there was none. */
bool arena_cache_make_room(struct thread *t);

/* Empties a region's tcache, which no thread is using. */
void arena_cache_flush_region(uint16_t arena);

/* Gives up the tcache of a region, and the place there that its owner has. */
void arena_cache_end_region(struct thread *owner, uint16_t arena);

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
