/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas: making, sharing and reusing them.
 *
 * A span arena is a jemalloc arena for the contexts of one site, or for those with one value of a label. There are at
 * most max_arenas, numbered from 1. An arena that no context has any more serves others. jemalloc's arena is made when
 * memory is first wanted from it.
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

#define ARENA_HOMES 4
#define ARENA_THROWERS 8
#define ARENA_HOME_BORROWED 0x80000000u /* the context is an ancestor's, as the span has none of its own */

enum arena_state { ARENA_FREE, ARENA_NAMED, ARENA_READY };

struct span_arena {
    struct extent_arena extents;   /* of jemalloc's arena, when it is ready */
    _Atomic enum arena_state state;
    int flags;                     /* MALLOCX_ARENA() of it */
    _Atomic uint64_t again_ns;     /* when to try once more after there was no memory; CLOCK_MONOTONIC_COARSE */
    /* LOCK_TREE: */
    _Atomic(const struct site *) site; /* whose spans it serves, or served last */
    char value[JESPAN_MAX_STRING_BYTES + 1]; /* of the label, if each value has an arena */
    uint32_t contexts;             /* how many contexts have it */
    uint32_t first_context;        /* the first of these, which are a linked list */
    struct {
        _Atomic uint64_t objects, bytes, policy_errors;
    } before;                      /* allocated and freed for the sites that it served before, and errors */
    _Atomic uint64_t refusals;     /* requests that its own limit refused */
    /* For regions (regions.h). users: open spans; inside: times that threads have entered them. */
    bool region;
    uint32_t users, inside, owner_depth;
    uint32_t opened;               /* times that a region got it for itself */
    _Atomic uint32_t homes[ARENA_HOMES]; /* contexts of these spans, perhaps with ARENA_HOME_BORROWED; 0: none */
    bool wanted;                   /* while looking for arenas that can serve others: this one may */
    uint32_t home_users[ARENA_HOMES]; /* how many spans each home has */
    bool busy;                     /* the thread that set this has the arena to itself */
    struct exceptions_level level; /* exceptions of its first user's thread when that was opened */
    struct thread *opened_by;      /* that thread; NULL if there were more users */
    bool is_thrown_through;        /* an exception took a thread out of one of them */
    struct thread *thrown_by[ARENA_THROWERS]; /* threads that are handling exceptions which may have memory here */
    uint64_t purged_bytes;         /* bytes that jemalloc had purged when header tables were last given back */
    bool set_aside;                /* it has survivors */
    _Atomic uint64_t aside_objects; /* objects that were live at the last look for survivors; UINT64_MAX: some got another owner since */
    _Atomic bool has_survivors;    /* an object in it was credited to another context, or comes from elsewhere */
    _Atomic(struct thread *) owner; /* of the next two */
    int tcache_flags;              /* 0: none yet */
    struct region_kept *kept;      /* arena_cache.h; NULL: none yet */
    bool is_warm;                  /* it was released without a reset since the last one */
    uint32_t opened_before;        /* `opened`, when it was last looked at for decay */
    _Atomic(struct arena_cache *) caches; /* all threads' caches of the arena: a list that only grows */
};

extern INTERNAL struct span_arena *arenas; /* [0] is none */

/* The arena of a new context below one with the arena `inherited`; 0: none. The context counts as one of its contexts
 * until arenas_leave(). Under LOCK_TREE. */
uint16_t arenas_join(const struct site *site, const struct label_set *labels, uint16_t inherited);
uint16_t arenas_share(uint16_t arena); /* the same for a context that has the arena of another, whatever its site */
void arenas_leave(uint16_t arena);

/* Takes arenas that are `wanted` from contexts of which none has an open span or a thread inside. Returns whether any
 * arena has no context now. Under LOCK_TREE. In context_policy.c. */
bool arenas_take_from_contexts(void);

/* The arena serves spans of that site from now on. Its figures start at 0 if the site is another one. Under LOCK_TREE;
 * the arena has no live object. */
void arenas_rename(uint16_t arena, const struct site *site);

/* Counts a context or a site that does not get the arena it asked for, or an arena for which there is no memory. */
void arenas_count_refused(void);

/* Counts requests that the arena's own limit refused. */
void arenas_count_refusals(uint16_t arena, uint64_t n);

/* The number of a region's arena, and above it how often a region got that arena. So it names one region. */
static inline uint64_t arenas_place_in_time(uint16_t arena)
{
    return arena ? (uint64_t)arenas[arena].opened << 16 | arena : 0;
}

/* Whether memory of this context belongs to the region. It does if the context is that of an open span of the region,
 * or lies below it with no other region between. It does not if the span borrows the context of an ancestor, because
 * spans outside have that context too. Without a lock. */
bool arenas_is_home(uint16_t arena, uint32_t context);

/* Whether a jemalloc arena belongs to a region. The program must not allocate from such an arena. */
bool arenas_is_regions(unsigned index);

/* An arena for regions, with no user yet; 0: there is no room for it. Under LOCK_TREE. */
uint16_t arenas_make_region(const struct site *site);

/* Makes jemalloc's arena for a span arena that has none yet. False: there is no memory for it. With no lock held, except by
 * the thread's own registration. */
bool arenas_make_ready(uint16_t arena);

/* Calls jemalloc's mallctl "arena.0.…", one without arguments, for this arena. With no lock. */
void arenas_call(const char *name, const struct span_arena *a);

/* The span arena that has the page of an address, which may be any. 0: none. */
uint16_t arenas_find(const void *p);

/* Whether objects are to be overwritten before they are freed. */
static inline bool arenas_wipes(uint16_t arena)
{
    return unlikely(arena) && arenas[arena].site->arena.flags & JESPAN_ARENA_WIPED;
}

/* Arenas are numbered below this. */
uint32_t arenas_end(void);

struct arenas_stats {
    uint64_t arenas;           /* arenas that have a site */
    uint64_t refused;          /* contexts for which no arena was left, and sites whose properties are invalid */
    uint64_t tcache_fallbacks; /* times that a thread got no tcache, or one was lost */
};
struct arenas_stats arenas_stats(void);

#endif
