/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: open spans with a span arena to themselves, which is released with all its objects when the span is closed.
 *
 * A span of a site with JESPAN_ARENA_REGION gets a free arena when it is opened. If there is none, the span shares the
 * arena of another open span with the same properties, and the arena is released when the last of them is closed. An arena
 * is not released while a thread is inside.
 *
 * An arena's tcache belongs to one thread at a time: the first that comes inside, until it leaves. Other threads
 * allocate and free there without a cache. So when the last thread has left, the thread that releases the arena may
 * flush the tcache.
 *
 * What happens at the release is in malloc/region_release.h. Everything here is under LOCK_TREE unless it says
 * otherwise.
 */
#ifndef JESPAN_REGIONS_H
#define JESPAN_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/thread.h"
#include "policy/arenas.h"
#include "span/sites.h"

/* The arena for a span of the site that the thread (NULL: any) opens; 0: there is none. The context is the span's own,
 * or that of an ancestor, if `borrowed`. */
uint16_t regions_open(struct thread *t, const struct site *site, uint32_t context, bool borrowed);

/* The context of one of the arena's spans changes. */
void regions_move(uint16_t arena, uint32_t from, uint32_t to);

/* Undoes regions_open(). */
void regions_cancel(uint16_t arena, uint32_t context);

/* The thread (NULL: it ends) closes the span. Returns true if the arena has no other user: regions_release() is then
 * due. */
bool regions_close(struct thread *t, uint16_t arena, uint32_t context);

/* The calling thread enters the region once more, or leaves it once. regions_leave() returns as regions_close(). */
void regions_enter(struct thread *t, uint16_t arena);
bool regions_leave(struct thread *t, uint16_t arena);

/* Around everything that may release an arena: no thread forks meanwhile. With no lock. */
void regions_begin(void);
void regions_end(void);

/* Waits until no thread releases an arena, and keeps others from beginning. Gives up the tcaches of regions that the
 * calling thread (NULL: it has no block) has, which a child could not use. With no lock. */
void regions_before_fork(struct thread *self);
void regions_after_fork_in_parent(void);

/* In a forked child, after other threads were abandoned. */
void regions_after_fork(struct thread *self);

/* For region_release.c: */

/* Whether no span and no thread has the arena. */
static inline bool region_is_idle(const struct span_arena *a)
{
    return !a->users && !a->inside && !a->busy && !a->set_aside;
}

/* Thread `i` of a->thrown_by is done with its exceptions. */
void region_forget_thrower(struct span_arena *a, int i);

/* ---- Figures. Without a lock ---- */

struct regions_stats {
    uint64_t released, released_objects, released_bytes; /* regions, and objects that were live in them */
    uint64_t shared;      /* spans that share an arena */
    uint64_t set_aside;   /* arenas that wait for their survivors to be freed, now */
    uint64_t survivors;   /* objects credited to other contexts, found at a release */
    uint64_t lost;        /* JESPAN() blocks that have no region, because there was no arena */
};
struct regions_stats regions_stats(void);
void regions_count_lost(void);

extern struct regions_counters {
    _Atomic uint64_t released, released_objects, released_bytes, shared, set_aside, survivors, lost;
} regions_counters;

static inline void regions_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
