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
 * same words again and find the same frames, so there is no need for it. The frame pointers that the walk used are
 * hashed too, less what they would add if they are the same. All words lie in the thread's own stack, above where the
 * walk begins. */

#define LAYOUT_WORDS 128u
#define LAYOUT_STEPS (LAYOUT_WORDS / 2) /* return addresses; so many frame pointers have room too */
#define LAYOUT_MOST_BYTES ((uintptr_t)65536 * sizeof(uintptr_t))
#define LAYOUT_WAYS 2u
#define LAYOUT_SETS_BITS 9
#define LAYOUT_UNROLL 4u

struct counters;

/* Leads from a context and a stack to the child. Valid while the child has this generation. A line without a child says
 * that there was no room for one; it is used a number of times, and then tried again. Four fill a cache line. */
struct stack_line {
    uint64_t key;
    uint32_t context, generation; /* context 0: none; `generation` counts down */
};

/* Positions are in words from the beginning of the walk on. Those of the return addresses fill `at` from its start, those
 * of the frame pointers from its end, both to a multiple of LAYOUT_UNROLL with the position of the first return address. */
struct layout {
    _Alignas(CACHE_LINE_BYTES) uintptr_t begin;
    uintptr_t pc;           /* `begin` and `pc` are the key; 0: the place is free */
    uint64_t id;            /* of all positions and frame pointers */
    uint64_t start;         /* of the hash: takes back what the frame pointers and repeated positions add */
    struct stack_line last; /* found by this layout */
    struct counters *last_counters;
    uint16_t steps, checks_from;
    uint16_t at[LAYOUT_WORDS];
};

struct layouts {
    struct layout sets[1u << LAYOUT_SETS_BITS][LAYOUT_WAYS];
};

/* The hash of a walk is the sum of each word times the factor of its place in `at`. unwind_boot() sets the factors. */
#define LAYOUT_FACTORS 256u
extern uint64_t layout_factors[LAYOUT_FACTORS];

/* Sets `start`. Repeats the first return address until both parts of `at` can be read by layout_read(). `pointers` has the
 * frame pointers of the walk. */
static inline void layout_fill_up(struct layout *l, const uintptr_t *pointers)
{
    l->start = 0;
    for (uint32_t i = 0; i < LAYOUT_WORDS - l->checks_from; i++)
        l->start -= pointers[i] * layout_factors[LAYOUT_WORDS - 1 - i];
    for (; l->steps % LAYOUT_UNROLL; l->steps++) {
        l->at[l->steps] = l->at[0];
        l->start -= l->pc * layout_factors[l->steps];
    }
    while (l->checks_from % LAYOUT_UNROLL) {
        l->at[--l->checks_from] = l->at[0];
        l->start -= l->pc * layout_factors[l->checks_from];
    }
}

HOT_INLINE struct layout *layouts_set(struct layouts *layouts, uintptr_t begin, uintptr_t pc)
{
    uint64_t h = (begin ^ pc << 20) * 0x9e3779b97f4a7c15u;
    return layouts->sets[h >> (64 - LAYOUT_SETS_BITS)];
}

__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uint64_t layout_sum(const struct layout *l, uint32_t from, uint32_t end)
{
    const struct any_word { uintptr_t value; } __attribute__((may_alias)) *words = (const void *)l->begin;
    uint64_t even = 0, odd = 0;
    for (const uint16_t *at = &l->at[from], *at_end = &l->at[end]; at < at_end; at += LAYOUT_UNROLL) {
        const uint64_t *factors = &layout_factors[at - l->at];
        even += words[at[0]].value * factors[0] + words[at[2]].value * factors[2];
        odd += words[at[1]].value * factors[1] + words[at[3]].value * factors[3];
    }
    return even + odd;
}

/* Hashes the words that the layout names. If a frame pointer differs from that of the walk, so does the hash. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uint64_t layout_read(const struct layout *l)
{
    return l->start + layout_sum(l, 0, l->steps) + layout_sum(l, l->checks_from, LAYOUT_WORDS);
}

/* ---- Walks ---- */

#define UNWIND_MOST 256 /* frames */

struct unwind {
    struct stack_bounds bounds; /* the thread's own stack */
    uint64_t hash;              /* of all return addresses that the walk read */
    uint32_t n;
    bool has_layout;            /* `layout` can be used, after layout_fill_up() */
    uintptr_t pointers[LAYOUT_WORDS - LAYOUT_STEPS]; /* frame pointers that the walk used */
    struct layout layout;       /* the id is 0 without a layout */
    bool ends_early;            /* the walk found no way to the next frame */
    uintptr_t frames[UNWIND_MOST]; /* return addresses, the innermost first */
};

/* Addresses in jespan itself are left out at the inner end. To be called before the first walk, by one thread at a
 * time. */
void unwind_boot(void);

/* Walks from the function whose __builtin_frame_address(0) is given, which is left out. The caller sets the bounds. */
void unwind_from(struct unwind *u, const void *frame, uint32_t most);

/* Stores the hash that unwind_from() would find. False: a frame is not usual, or not in the thread's own stack. Faster. */
bool unwind_hash(const struct stack_bounds *own, const void *frame, uint32_t most, uint64_t *result);

/* Looks again at the rules of all frames of a walk. False: there is new code at one of the addresses; walk again. */
bool unwind_check(const struct unwind *u);

#endif
