/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks as contexts. For each stack of calls from which a context allocates, the context has a child of kind
 * CONTEXT_STACK. The child's number is the tag of these objects. So counters, recycling and readers treat it as any
 * other context. Snapshots add it to the row of the context to which it belongs.
 *
 * A thread is inside the child only while it allocates: it counts an enter before, and takes it back afterwards, so the
 * child is not recycled meanwhile (tree.h). A cache of the thread leads from context and stack to the child.
 *
 * While stacks are taken, thread_fast.alloc is NULL (span_review()). So malloc pays nothing for them otherwise. Where only
 * samples are taken, the thread counts down the bytes to the next sample (stack_context_passes()). Only the allocation that
 * gets there looks at the stack. */
#ifndef JESPAN_STACK_CONTEXT_H
#define JESPAN_STACK_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"
#include "stacks/stacks.h"

static inline bool stack_context_is_sampling(const struct thread *t)
{
    return t->stacks && load_relaxed(&stacks_mode) == STACKS_SAMPLED;
}

/* To be called on a thread that takes samples. True: the allocation is not a sample, and its bytes are counted. False:
 * call stack_context_enter(). */
HOT_INLINE bool stack_context_passes(struct thread *t, size_t bytes)
{
    uint64_t left = t->until_sample;
    if (unlikely(bytes >= left))
        return false;
    t->until_sample = left - bytes;
    return true;
}

/* The allocation begins again. */
static inline void stack_context_undo_pass(struct thread *t, size_t bytes)
{
    t->until_sample += bytes;
}

/* Decides whether the calling thread takes stacks from now on, and sets t->stacks. */
void stack_context_review(struct thread *t);

/* The thread leaves its block. Removes the entries that belong to the thread. */
void stack_context_leave_thread(struct thread *t);

/* The state to restore after an allocation. */
struct stack_hold {
    uint32_t tag, stack; /* the thread's context, and the child; stack 0: none was entered */
    struct counters *current, *counters;
    bool is_sample; /* the child has samples only */
};

/* Before an allocation: makes the child for the present stack the thread's current context. `frame` is the
 * __builtin_frame_address(0) of the caller, which malloc's caller called. t->stacks is not NULL. */
void stack_context_enter(struct thread *t, const void *frame, size_t bytes, struct stack_hold *hold);
void stack_context_leave(struct thread *t, const struct stack_hold *hold);

/* Makes the child in hold->stack and hold->counters, which was entered, the thread's current context. Sets the rest of *hold. */
HOT_INLINE void stack_context_hold(struct thread *t, struct stack_hold *hold)
{
    hold->tag = t->tag;
    hold->current = t->current;
    t->tag = hold->stack;
    t->current = hold->counters;
    t->stack_tag = hold->is_sample ? 0 : hold->stack;
    t->stack_counters = hold->counters;
}

#endif
