/* SPDX-License-Identifier: BSD-2-Clause */
/* Guarded objects. */
#include "malloc/alloc_guarded.h"

#include <string.h>

#include "guard/guard.h"
#include "guard/guard_sample.h"
#include "jemalloc/binding.h"
#include "malloc/track.h"
#include "span/span.h"
#include "span/tree.h"

#define ALIGN_MASK 63 /* of MALLOCX_LG_ALIGN() */

/* An allocation policy, and a program that chooses arena or cache, decide where objects lie. What jespan allocates for
 * itself is not the program's. */
static bool may_be_guarded(const struct thread *t, int flags)
{
    return !(flags & ~(ALIGN_MASK | MALLOCX_ZERO)) && !t->region && !tree_has_policy(t->tag) && !contexts[t->tag].is_own;
}

COLD void *alloc_guarded(struct thread *t, size_t size, int flags)
{
    size_t usable;
    if (!may_be_guarded(t, flags) || size > GUARD_SLOT_BYTES)
        return NULL;
    void *p = guard_alloc(t, size, (size_t)1 << (flags & ALIGN_MASK), guard_sample_is_left(t), &usable);
    guard_sample_done(t);
    span_review(t);
    if (p && flags & MALLOCX_ZERO)
        memset(p, 0, usable);
    return p ? track_alloc_guarded(t, p, size, usable) : NULL;
}
