/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations by threads that take stacks: span/stack_context.h. */
#ifndef JESPAN_ALLOC_STACK_H
#define JESPAN_ALLOC_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"

static inline bool alloc_stack_is_used(const struct thread *t)
{
    return t && t->stacks;
}

/* As alloc_policy_alloc_for(), for malloc and its kin, which reach this function by a jump: the stack begins with its
 * caller. */
void *alloc_stack_alloc(struct thread *t, size_t size, int flags);

/* After stack_context_enter(): allocates in the thread's context as it is. */
void *alloc_stack_alloc_more(struct thread *t, size_t size, int flags);

#endif
