/* SPDX-License-Identifier: BSD-2-Clause */
/* When threads look for peaks (span/peaks.h): before memory goes away, if enough may have come since the last look.
 *
 * The fast paths of malloc and free do nothing for it. On its slow sides a thread adds up the bytes that it gets from
 * jemalloc or gives to it: big objects, pages of small objects that are new to it, and magazines that run over. After
 * peak_looks_step bytes a look is *due*. The next flush of a free buffer looks before it counts a free, and so does the
 * next free of a big object. The flush is called through a pointer, so it has no branch for that.
 *
 * So while a thread looks as often as it wants to, a peak is too low by at most, for each thread: the step; the objects
 * of a free buffer; and what its magazines can take without running over.
 */
#ifndef JESPAN_PEAK_LOOKS_H
#define JESPAN_PEAK_LOOKS_H

#include "base/compiler.h"
#include "heap/thread.h"

/* Bytes that a thread moves until a look is due. UINT64_MAX: never. */
extern INTERNAL _Atomic uint64_t peak_looks_step;
extern INTERNAL _Atomic bool peak_looks_due;

/* Once, when the configuration is known. */
void peak_looks_boot(void);

/* Makes a look due, unless the time for looks is used up. */
void peak_looks_make_due(struct thread *t);

/* Looks, which ends that a look is due. */
void peak_looks_now(void);

/* The thread gets memory from jemalloc, or gives memory to it. t may be NULL. */
static inline void peak_looks_moved(struct thread *t, uint64_t bytes)
{
    if (t && unlikely((t->peak_moved += bytes) >= load_relaxed(&peak_looks_step)))
        peak_looks_make_due(t);
}

/* The same where no look may become due. False: one would, and nothing has changed. */
static inline bool peak_looks_try_moved(struct thread *t, uint64_t bytes)
{
    uint64_t moved = t->peak_moved + bytes;
    if (unlikely(moved >= load_relaxed(&peak_looks_step)) && moved >= t->peak_asks_at)
        return false;
    t->peak_moved = moved;
    return true;
}

/* The same as peak_looks_moved() before bytes are counted as freed, or as another context's. */
static inline void peak_looks_before_free(struct thread *t, uint64_t bytes)
{
    peak_looks_moved(t, bytes);
    if (unlikely(load_relaxed(&peak_looks_due)))
        peak_looks_now();
}

#endif
