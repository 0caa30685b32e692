/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocations are credited to stacks: the mode, the names of spans and threads, and the least size. */
#ifndef JESPAN_STACK_MODE_H
#define JESPAN_STACK_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "span/tree.h"
#include "stacks/stacks.h"

/* MODE or MODE@NAMES, as it was set. Never freed. */
extern _Atomic(const char *) stack_mode_text;

/* Changes the mode for all threads. Returns 0; -EINVAL where the text is no mode; -ENOMEM. Takes LOCK_TREE and
 * LOCK_THREADS. */
int stack_mode_set(const char *text);

/* The value of context::stacks_for where stacks are taken in the context. It changes with each mode. */
extern INTERNAL _Atomic uint32_t stack_mode_taken;

/* Finds out whether stacks are taken in a context, and keeps the answer in the context. */
bool stack_mode_decide(uint32_t context);

/* Whether stacks are taken in the thread's context. */
HOT_INLINE bool stack_mode_covers(uint32_t context)
{
    uint32_t known = load_relaxed(&contexts[context].stacks_for), taken = load_relaxed(&stack_mode_taken);
    if (likely(known == taken))
        return true;
    return known != taken - 1 && stack_mode_decide(context);
}

#endif
