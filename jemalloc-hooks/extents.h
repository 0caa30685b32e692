/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent hooks for jemalloc's automatic arenas. They count what is mapped, and release the header tables of pages that
 * go back to the system. The hooks of span arenas (span_extents.h) call them.
 *
 * An arena gets them when a thread first uses it. They call jemalloc's default hooks, which do the work. A hook
 * allocates nothing, takes no lock, and fails only when the default hook does. An arena that has hooks of the program
 * keeps these.
 */
#ifndef JESPAN_EXTENTS_H
#define JESPAN_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "jemalloc/binding.h"

/* To be called once, before the program's first allocation. Installs the hooks on arena 0. */
void extents_boot(void);

/* Install the hooks on the calling thread's arena, on arena `index`, and on the arena of the object `p`. The first two
 * are called before the thread allocates from that arena. */
void extents_watch_thread(void);
void extents_watch_arena(unsigned index);
void extents_watch_pointer(const void *p);

/* To be called before a thread without a block allocates, since such a thread does not install hooks. */
void extents_note_stranger(void);

/* Allocations of this size or more may come from arenas to which no thread is bound. */
extern size_t extents_oversize_bytes;

/* Not 0 while this thread is inside jemalloc's mallctl. That may call pthread_create, which allocates while jemalloc's
 * lock for mallctl is held. So no arena is looked up then. */
extern THREAD_LOCAL unsigned extents_pause;

/* Figures of the hooks of some arenas. jemalloc splits and merges extents. If an arena was in use before it got the
 * hooks, all its memory counts as one extent. */
struct extent_figures {
    _Atomic uint64_t mapped_bytes, committed_bytes, extents;
    _Atomic uint64_t purged_lazy_bytes, purged_forced_bytes; /* given back to the system, while the addresses stay */
    _Atomic uint64_t peak_mapped_bytes;
};

/* The figures of all arenas that have hooks. jemalloc's own data is in no extent. */
extern struct extent_figures extents_heap;

/* The value of a figure. It reads as 0 where it is negative, since extents from before the hooks may be merged
 * later. */
static inline uint64_t extents_figure(const _Atomic uint64_t *figure)
{
    uint64_t value = load_relaxed(figure);
    return (int64_t)value > 0 ? value : 0;
}

/* Adds to the figures. Negative values subtract. */
void extents_count(struct extent_figures *figures, uint64_t mapped, uint64_t committed, uint64_t extents);

/* Grows each time the heap's peak of mapped bytes has grown by a step. A thread that waits for it with
 * FUTEX_WAIT_PRIVATE calls extents_watch_high_water() first. */
extern _Atomic uint32_t extents_high_water_events;
#define HIGH_WATER_STEP(bytes) ((bytes) / 16 > (1 << 20) ? (bytes) / 16 : (1 << 20))
void extents_watch_high_water(bool on);

/* jemalloc's opt.retain: addresses are never unmapped. */
extern bool extents_retain;

/* Whether jemalloc decommits pages here, since the system does not overcommit. To be called after extents_boot(). */
bool extents_decommits(void);

/* For span arenas: the hooks, valid after extents_boot(), and a call that leaves an arena its own hooks. A program may
 * read these hooks and call them from its own, so none is NULL. */
extern extent_hooks_t extents_hooks;
void extents_leave_arena(unsigned index);

#endif
