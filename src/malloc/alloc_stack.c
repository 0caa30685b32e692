/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations by threads that take stacks. */
#include "malloc/alloc_stack.h"

#include <string.h>

#include "malloc/alloc_policy.h"
#include "span/stack_context.h"

NOINLINE void *alloc_stack_alloc(struct thread *t, size_t size, int flags)
{
    struct stack_hold hold;
    stack_context_enter(t, __builtin_frame_address(0), size, &hold);
    void *p = !flags && size <= HEADER_PAGE_BYTES ? alloc_policy_reuse(t, class_of(size), size) : NULL;
    if (unlikely(!p))
        p = alloc_policy_alloc_for(t, size, flags, __builtin_return_address(0));
    stack_context_leave(t, &hold);
    return p;
}
