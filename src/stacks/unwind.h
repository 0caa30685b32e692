/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the stack of the calling thread.
 *
 * A walk takes no lock and allocates nothing. It reads a word only inside the thread's own stack, or after the kernel
 * has said that its page can be read. The stack pointer grows with each frame, so the walk ends on any garbage. */
#ifndef JESPAN_UNWIND_H
#define JESPAN_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "stacks/layouts.h"
#include "stacks/stack_bounds.h"
#include "stacks/trail.h"
#include "stacks/unwind_rules.h"

/* ---- Walks ---- */

#define UNWIND_MOST 256 /* frames */

struct unwind {
    struct stack_bounds bounds; /* the thread's own stack */
    uint64_t hash;              /* of all return addresses that the walk read */
    uint32_t n;
    bool has_layout;            /* layout_make() can be called */
    struct layout_notes notes;
    bool ends_early;            /* the walk found no way to the next frame */
    uintptr_t frames[UNWIND_MOST]; /* return addresses, the innermost first */
    struct rules_objects objects;  /* for unwind_check(), and its last `loads` */
    uint64_t loads;
};

/* Addresses in jespan itself are left out at the inner end. To be called before the first walk, by one thread at a
 * time. */
void unwind_boot(void);

/* Walks from the function whose __builtin_frame_address(0) is given, which is left out. The caller sets the bounds. */
void unwind_from(struct unwind *u, const void *frame, uint32_t most);

/* Stores the hash that unwind_from() would find. False: a frame is not usual, or not in the thread's own stack. Faster. The trail is the
 * thread's. */
bool unwind_hash(const struct stack_bounds *own, const void *frame, uint32_t most, struct trail *trail, uint64_t *result);

/* Of the library; empty in a static program. */
extern uintptr_t unwind_own_start, unwind_own_end;
static inline bool unwind_is_own(uintptr_t pc)
{
    return pc - unwind_own_start < unwind_own_end - unwind_own_start;
}

/* Looks again at the rules of all frames of a walk. False: there is new code at one of the addresses; walk again. `loads` is another
 * number after an object was loaded, and 0 where nobody counts that: then all objects are looked at. */
bool unwind_check(struct unwind *u, uint64_t loads);

#endif
