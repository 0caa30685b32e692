/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent hooks on jemalloc's automatic arenas: they count what is mapped and release the header tables of pages that go
 * back.
 *
 * Installed over jemalloc's default hooks, which do the work, on an arena when a thread first uses it. A hook allocates
 * nothing, takes no lock and fails only when the default one does. An arena with hooks of the program's own is left
 * alone.
 */
#ifndef JESPAN_EXTENTS_H
#define JESPAN_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "../src/compiler.h"

/* Once, before the program's first allocation. Watches arena 0. */
void extents_boot(void);

/* Puts the hooks on the calling thread's arena, on arena `index`, on the arena that `p` came from. */
void extents_watch_thread(void);
void extents_watch_arena(unsigned index);
void extents_watch_pointer(const void *p);

/* Allocations from here on may come from arenas that no thread is bound to. */
extern size_t extents_oversize_bytes;

/* Not 0: this thread is inside jemalloc's mallctl. That may call pthread_create, which allocates, under jemalloc's lock
 * for control; no arena is looked up then. */
extern THREAD_LOCAL unsigned extents_pause;

/* Bytes that jemalloc has mapped for watched arenas, its own bookkeeping there included: address space, and how much of
 * it is usable without a further system call. */
uint64_t extents_mapped_bytes(void);
uint64_t extents_committed_bytes(void);

#endif
