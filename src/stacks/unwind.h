/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the stack of the calling thread.
 *
 * A walk takes no lock and allocates nothing. It reads a word only inside the thread's own stack, or after the kernel
 * has said that its page can be read. The stack pointer grows with each frame, so the walk ends on any garbage. */
#ifndef JESPAN_UNWIND_H
#define JESPAN_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/stack_bounds.h"

/* ---- Layouts: where the return addresses of a walk stood on the stack ---- */

/* A thread keeps the layouts of its last walks, by the place where the walk began. The next allocation from there reads
 * the words at the same positions and hashes them. If hash and layout are those of an earlier walk, a walk would read the
 * same words again and find the same frames, so there is no need for it. A layout also has the frame pointers that the
 * walk used, which are compared. All words lie in the thread's own stack, above where the walk begins. */

#define LAYOUT_STEPS 48u
#define LAYOUT_CHECKS 32u
#define LAYOUT_MOST_BYTES ((uintptr_t)65536 * sizeof(uintptr_t))
#define LAYOUT_WAYS 2u
#define LAYOUT_SETS_BITS 9

/* All positions are in words from the beginning of the walk on. */
struct layout_check {
    uint16_t at, value; /* the word at `at` is the address of the word at `value` */
};

struct layout {
    uintptr_t begin, pc; /* the key; 0: the place is free */
    uint64_t id;         /* of all that follows */
    uint32_t steps, checks;
    uint16_t at[LAYOUT_STEPS]; /* of the return addresses */
    struct layout_check check[LAYOUT_CHECKS];
};

struct layouts {
    struct layout sets[1u << LAYOUT_SETS_BITS][LAYOUT_WAYS];
};

/* For the hash of a walk: the sum of each word times the factor of its step. Set by unwind_boot(). */
#define LAYOUT_FACTORS 256u
extern uint64_t layout_factors[LAYOUT_FACTORS];

HOT_INLINE struct layout *layouts_set(struct layouts *layouts, uintptr_t begin, uintptr_t pc)
{
    uint64_t h = (begin ^ pc << 20) * 0x9e3779b97f4a7c15u;
    return layouts->sets[h >> (64 - LAYOUT_SETS_BITS)];
}

/* Hashes the words that the layout names. Returns false if a frame pointer differs from that of the layout. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool layout_read(const struct layout *l, uint64_t *hash)
{
    const volatile uintptr_t *words = (const volatile uintptr_t *)l->begin;
    for (uint32_t i = 0; i < l->checks; i++)
        if (unlikely(words[l->check[i].at] != l->begin + l->check[i].value * sizeof *words))
            return false;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->steps; i++)
        sum += words[l->at[i]] * layout_factors[i];
    *hash = sum;
    return true;
}

/* ---- Walks ---- */

#define UNWIND_MOST 256 /* frames */

struct unwind {
    struct stack_bounds bounds; /* the thread's own stack */
    uint64_t hash;              /* of all return addresses that the walk read */
    uint32_t n;
    bool has_layout;            /* `layout` is whole */
    struct layout layout;       /* the id is 0 without a layout */
    bool ends_early;            /* the walk found no way to the next frame */
    uintptr_t frames[UNWIND_MOST]; /* return addresses, the innermost first */
};

/* Addresses in jespan itself are left out at the inner end. To be called before the first walk, by one thread at a
 * time. */
void unwind_boot(void);

/* Walks from the function whose __builtin_frame_address(0) is given, which is left out. The caller sets the bounds. */
void unwind_from(struct unwind *u, const void *frame, uint32_t most);

/* Looks again at the rules of all frames of a walk. False: there is new code at one of the addresses; walk again. */
bool unwind_check(const struct unwind *u);

#endif
