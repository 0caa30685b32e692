/* SPDX-License-Identifier: BSD-2-Clause */
/* Releasing a region: counts its objects out, and resets jemalloc's arena.
 *
 * *Survivors* are objects in the arena that were credited to other contexts by jespan_credit(); TAG_SURVIVOR beside the
 * tag marks them; and the exceptions in a region that a C++ exception leaves. An arena with survivors is set aside
 * until they are freed.
 *
 * A thread that has set `busy` owns the arena and its header tables while it walks over them: no extent hook gives
 * header tables of such an arena back (pagemap_keep_tables()).
 */
#ifndef JESPAN_REGION_RELEASE_H
#define JESPAN_REGION_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/thread.h"

/* Frees all objects in the arena, or sets it aside, and gives up `busy`. On any thread, with no lock, between
 * regions_begin() and regions_end(). */
void regions_release(struct thread *t, uint16_t arena);

/* Gives back what idle regions keep for the next ones. With no lock, after regions_before_fork(): a child could not use their tcaches. */
void regions_cool_idle(void);

/* Leaves all regions, as the thread ends. With no lock. */
void regions_leave_all(struct thread *t);

/* Releases arenas that were set aside and can be released now. On any thread, with no lock. */
void regions_tidy(struct thread *t);

/* Whether closing a span of the region is to be refused, because it has survivors (JESPAN_ARENA_REFUSE). Under
 * LOCK_TREE, so that no thread comes in meanwhile. */
bool regions_refuses(struct thread *t, uint16_t arena);

#endif
