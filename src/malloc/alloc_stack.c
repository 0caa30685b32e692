/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocations by threads that take stacks. */
#include "malloc/alloc_stack.h"

#include <string.h>

#include "jemalloc/binding.h"
#include "malloc/alloc_policy.h"
#include "span/stack_context.h"

/* NULL: the thread's magazine has no such object. */
HOT_INLINE void *reuse(struct thread *t, size_t size, int flags)
{
    if (flags & ~MALLOCX_ZERO || size > HEADER_PAGE_BYTES)
        return NULL;
    struct class_info info = class_of(size);
    void *p = alloc_policy_reuse(t, info, size);
    return p && flags ? memset(p, 0, info.bytes) : p;
}

void *alloc_stack_alloc_more(struct thread *t, size_t size, int flags)
{
    void *p = reuse(t, size, flags);
    return likely(p) ? p : alloc_policy_alloc(t, size, flags);
}

NOINLINE void *alloc_stack_alloc(struct thread *t, size_t size, int flags)
{
    struct stack_hold hold;
    stack_context_enter(t, __builtin_frame_address(0), size, &hold);
    void *p = reuse(t, size, flags);
    if (unlikely(!p))
        p = alloc_policy_alloc_for(t, size, flags, __builtin_return_address(0));
    stack_context_leave(t, &hold);
    return p;
}
