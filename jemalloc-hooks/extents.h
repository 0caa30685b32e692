/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent hooks on jemalloc's automatic arenas: they count what is mapped, for the whole job, and release the header
 * tables of pages that go back. Those of span arenas (span_extents.h) stand on them.
 *
 * Installed over jemalloc's default hooks, which do the work, on an arena when a thread first uses it. A hook allocates
 * nothing, takes no lock and fails only when the default one does. An arena with hooks of the program's own is left
 * alone.
 */
#ifndef JESPAN_EXTENTS_H
#define JESPAN_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "jemalloc/binding.h"

/* Once, before the program's first allocation. Watches arena 0. */
void extents_boot(void);

/* Puts the hooks on the calling thread's arena, on arena `index`, on the arena that `p` came from; the first two before
 * the thread allocates from it. */
void extents_watch_thread(void);
void extents_watch_arena(unsigned index);
void extents_watch_pointer(const void *p);

/* Before an allocation of a thread that watches no arena, as it has no block. */
void extents_note_stranger(void);

/* Allocations from here on may come from arenas that no thread is bound to. */
extern size_t extents_oversize_bytes;

/* Not 0: this thread is inside jemalloc's mallctl. That may call pthread_create, which allocates, under jemalloc's lock
 * for control; no arena is looked up then. */
extern THREAD_LOCAL unsigned extents_pause;

/* What hooks saw of some arenas: now, so far, and at most. Extents are jemalloc's: it splits and merges what is mapped.
 * Of an arena that was in use before it was watched, all that it had counts as one. */
struct extent_figures {
    _Atomic uint64_t mapped_bytes, committed_bytes, extents;
    _Atomic uint64_t purged_lazy_bytes, purged_forced_bytes; /* given back, but for their addresses */
    _Atomic uint64_t peak_mapped_bytes;
};

/* Of all watched arenas and span arenas. jemalloc's own bookkeeping is not among its extents. */
extern struct extent_figures extents_heap;

/* One of them. Extents from before the hooks may be merged after: what is less than none reads as 0. */
static inline uint64_t extents_figure(const _Atomic uint64_t *figure)
{
    uint64_t value = load_relaxed(figure);
    return (int64_t)value > 0 ? value : 0;
}

/* Adds what came, or went where it is negative. */
void extents_count(struct extent_figures *figures, uint64_t mapped, uint64_t committed, uint64_t extents);

/* Goes up when the heap's peak of mapped bytes has grown by a step since it last did. Who waits for that with
 * FUTEX_WAIT_PRIVATE says so first. */
extern _Atomic uint32_t extents_high_water_events;
#define HIGH_WATER_STEP(bytes) ((bytes) / 16 > (1 << 20) ? (bytes) / 16 : (1 << 20))
void extents_watch_high_water(bool on);

/* jemalloc's opt.retain: addresses never go back. */
extern bool extents_retain;

/* Whether pages can be decommitted here: the system does not overcommit. From extents_boot() on. */
bool extents_decommits(void);

/* For span arenas: the hooks, after extents_boot(); and to leave an arena alone, as it has its own. A program may ask
 * for these hooks and call them from its own, so none is missing. */
extern extent_hooks_t extents_hooks;
void extents_leave_arena(unsigned index);

#endif
