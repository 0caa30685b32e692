/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations on threads that have something governed entered: from a span arena, or within a limit.
 *
 * Such a thread's thread_self is NULL (span_review()), so that malloc and its kin come here with no question asked on
 * their own way: programs without arenas and limits pay nothing for them.
 */
#ifndef JESPAN_GOVERNED_H
#define JESPAN_GOVERNED_H

#include <stdbool.h>
#include <stddef.h>

#include "limit.h"
#include "thread.h"

/* Whether something governs what the thread allocates now. */
static inline bool governed_is(const struct thread *t)
{
    return t && !load_relaxed(&thread_self);
}

/* As jemalloc's mallocx(), also for a size of 0, in whatever context the thread is. t may be NULL. NULL with ENOMEM: there is no
 * memory, or a limit is reached. */
void *governed_alloc(struct thread *t, size_t size, int flags);

/* The same for who called malloc, calloc and the like, which return there. In a region, what libc allocates for itself is not the
 * region's (libc_calls.h). */
void *governed_alloc_for(struct thread *t, size_t size, int flags, const void *return_address);

/* Whether limits let an object grow in place by so many bytes: 1, and they are held for the owner where it has a limit; 0:
 * not there; -ENOMEM: refused. Afterwards governed_end_growth(), with what was held before. */
int governed_admits_growth(struct thread *t, void *p, size_t bytes);
static inline void governed_end_growth(struct thread *t, uint32_t held_before)
{
    if (t && unlikely(t->n_held > held_before))
        limits_drop(t);
}

#endif
