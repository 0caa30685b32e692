/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: open spans with a span arena to themselves, whose memory goes in one go when they are closed.
 *
 * A span of a site that wishes for a region gets an arena from those that are free when it is opened. Where none is to
 * be had it shares that of another open span with the same wishes; what they have goes when the last of them is closed.
 * Nothing goes while a thread is inside.
 *
 * An arena's tcache belongs to one thread at a time, the first that comes inside, until it leaves; what others allocate
 * and free there meanwhile goes by no cache. So when the last has left, whoever releases the arena may flush it.
 *
 * Survivors are objects in the arena that were handed over to others (jespan_retag()), which TAG_HANDED_OVER beside
 * their tags says; and, of a region that a C++ exception leaves, the exceptions in it. No extent hook gives header
 * tables of such an arena back (pagemap_keep_tables()): whoever has the arena busy owns what he walks over. Under
 * LOCK_TREE unless said otherwise.
 */
#ifndef JESPAN_REGIONS_H
#define JESPAN_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/thread.h"
#include "span/sites.h"

/* The arena for a span of the site that is being opened by the thread (NULL: any), whose context is its own, or an
 * ancestor's that it borrows; 0: there is none. */
uint16_t regions_open(struct thread *t, const struct site *site, uint32_t context, bool borrowed);

/* One of its spans has another context from now on. */
void regions_move(uint16_t arena, uint32_t from, uint32_t to);

/* It was not opened after all. */
void regions_cancel(uint16_t arena, uint32_t context);

/* Around whatever may release: no thread forks meanwhile. With no lock. */
void regions_begin(void);
void regions_end(void);

/* The span is closed, by the thread (NULL: as it ends). True: nobody else needs the arena, regions_release() is due. */
bool regions_close(struct thread *t, uint16_t arena, uint32_t context);

/* The calling thread has the region entered once more, or less. The latter as regions_close(). */
void regions_enter(struct thread *t, uint16_t arena);
bool regions_leave(struct thread *t, uint16_t arena);

/* Frees what is in the arena, and makes it anybody's. On any thread, with no lock, between regions_begin() and
 * regions_end(). */
void regions_release(struct thread *t, uint16_t arena);

/* The thread ends. With no lock. */
void regions_leave_all(struct thread *t);

/* Looks whether arenas that were set aside can be released now. On any thread, with no lock. */
void regions_tidy(struct thread *t);

/* Whether closing a span of it is to be refused, for its survivors. With the lock, so that nobody comes in
 * meanwhile. */
bool regions_refuses(struct thread *t, uint16_t arena);

/* Waits until nobody releases any, nor begins to; gives up the caches that the calling thread (NULL: it has no block)
 * has, which a child could not use. With no lock. */
void regions_before_fork(struct thread *self);
void regions_after_fork_in_parent(void);

/* In a forked child, after other threads were abandoned. */
void regions_after_fork(struct thread *self);

void regions_count_lost(void);

struct regions_stats {
    uint64_t released, released_objects, released_bytes; /* regions, and what was live in them */
    uint64_t shared;      /* spans that got no arena to themselves */
    uint64_t set_aside;   /* arenas, for their survivors, now */
    uint64_t survivors;   /* objects, whatever became of them */
    uint64_t lost;        /* blocks that are no regions, for want of an arena */
};
struct regions_stats regions_stats(void);

#endif
