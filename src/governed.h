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

#include "thread.h"

/* Whether something governs what the thread allocates now. */
static inline bool governed_is(const struct thread *t)
{
    return t && !load_relaxed(&thread_self);
}

/* As jemalloc's mallocx(), also for a size of 0, in whatever context the thread is. t may be NULL. NULL with ENOMEM: there is no
 * memory, or a limit is reached. */
void *governed_alloc(struct thread *t, size_t size, int flags);

/* Whether a limit lets an object grow, or stay as it is, under the thread's current context. limits_settle() when that is
 * counted, or was not done. */
bool governed_admits_resize(struct thread *t, void *p, size_t old_usable, size_t new_usable);

#endif
