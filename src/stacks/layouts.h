/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts: where the return addresses of a walk stood on the stack.
 *
 * A thread keeps the layouts of its last walks, by the place where the walk began. A layout has the positions of all words
 * that led the walk from frame to frame, and the words that stood there: return addresses, and the frame pointers that
 * were used. If the same words stand there again, a walk would find the same frames, so there is no need for it.
 * Otherwise they are hashed, since another stack may have the same layout. All words lie in the thread's own stack, above
 * where the walk begins. */
#ifndef JESPAN_LAYOUTS_H
#define JESPAN_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/stack_lines.h"

#define LAYOUT_STEPS 64u /* return addresses; so many frame pointers have room too */
#define LAYOUT_WORDS (2 * LAYOUT_STEPS)
#define LAYOUT_MOST_BYTES ((uintptr_t)65536 * sizeof(uintptr_t))
#define LAYOUT_WAYS 2u
#define LAYOUT_SETS_BITS 9
#define LAYOUT_UNROLL 4u
#define LAYOUT_BYTES 1600u

struct counters;

/* On the stack. */
struct layout_there {
    uintptr_t value;
} __attribute__((may_alias));
typedef uintptr_t layout_pair_t __attribute__((vector_size(2 * sizeof(uintptr_t))));
struct layout_pair_there {
    layout_pair_t value;
} __attribute__((packed, aligned(sizeof(uintptr_t)), may_alias));

/* Positions are in words from the beginning of the walk on. Those of pairs come first: a frame pointer and the return
 * address above it. Pairs and other words are filled up to a multiple of LAYOUT_UNROLL with the last one. The words that stood
 * there lie behind the positions, as near as their alignment lets them, so a layout of 20 words takes 4 cache lines. A
 * layout has room for an odd number of cache lines: so the first lines of all layouts do not share a few places of the
 * processor's cache. */
struct layout {
    _Alignas(CACHE_LINE_BYTES) uintptr_t begin;
    uintptr_t pc;           /* `begin` and `pc` are the key; 0: the place is free */
    uint64_t id;            /* of all positions and frame pointers */
    struct stack_line last; /* of the stack that has the words */
    struct counters *last_counters;
    uint32_t last_parent;   /* the context in which it was used, perhaps with STACK_SAMPLED; 0: there is no `last` */
    uint8_t pairs, singles;
    uint8_t other;          /* which stack was there last, if that was not `last`: some bits of its context; else 0 */
    uint8_t words_at;       /* where the words begin in the layout, in units of their alignment */
    uint16_t at[(LAYOUT_BYTES - 56) / sizeof(uint16_t)]; /* and the words */
};
_Static_assert(sizeof(struct layout) == LAYOUT_BYTES && LAYOUT_BYTES / CACHE_LINE_BYTES % 2 == 1, "as above");
_Static_assert(56 + (LAYOUT_WORDS + 2 * LAYOUT_UNROLL) * sizeof(uint16_t) + sizeof(layout_pair_t) +
               (LAYOUT_WORDS + 4 * LAYOUT_UNROLL) * sizeof(uintptr_t) <= LAYOUT_BYTES, "room for all words");

HOT_INLINE const layout_pair_t *layout_words(const struct layout *l)
{
    return (const void *)((const char *)l + l->words_at * sizeof(layout_pair_t));
}

struct layouts {
    struct layout sets[1u << LAYOUT_SETS_BITS][LAYOUT_WAYS];
    uint8_t oldest[1u << LAYOUT_SETS_BITS]; /* of each set: the place of the next new layout */
};

/* The positions that a walk has noted. The frame pointers are those that it used. */
struct layout_notes {
    uintptr_t begin, pc;
    uint64_t id;
    uint32_t steps, checks;
    uint16_t steps_at[LAYOUT_STEPS], checks_at[LAYOUT_STEPS];
};

/* Makes the layout of a walk, whose words are still there. */
void layout_make(struct layout *l, const struct layout_notes *notes);

/* Keeps the words that stand there now. */
void layout_keep_words(struct layout *l);

/* The hash is the sum of each word times the factor of its place among the words, and of `begin` and `pc` times the last factors: positions
 * are relative, and frame pointers are not. unwind_boot() sets the factors. */
#define LAYOUT_FACTORS 256u
extern uint64_t layout_factors[LAYOUT_FACTORS];
uint64_t layout_hash(const struct layout *l);

HOT_INLINE struct layout *layouts_set(struct layouts *layouts, uintptr_t begin, uintptr_t pc)
{
    uint64_t h = (begin ^ pc << 20) * 0x9e3779b97f4a7c15u;
    return layouts->sets[h >> (64 - LAYOUT_SETS_BITS)];
}

/* The place for a new layout in its set. The one that lay there longest goes. */
struct layout *layouts_place(struct layouts *layouts, uintptr_t begin, uintptr_t pc);

HOT_INLINE layout_pair_t layout_pair(const struct layout_there *there)
{
    return ((const struct layout_pair_there *)there)->value;
}

/* Whether all words are the same again. The loads do not wait for each other. Other stacks with the same layout often differ in
 * one of their inner frames, so the answer is known early. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool layout_is_same(const struct layout *l)
{
    const struct layout_there *there = (const void *)l->begin;
    const layout_pair_t *pair = layout_words(l);
    const uint16_t *at = l->at;
    layout_pair_t even_pair = {0}, odd_pair = {0};
    for (const uint16_t *end = at + l->pairs; at < end; at += LAYOUT_UNROLL, pair += LAYOUT_UNROLL) {
        even_pair |= (layout_pair(&there[at[0]]) ^ pair[0]) | (layout_pair(&there[at[2]]) ^ pair[2]);
        odd_pair |= (layout_pair(&there[at[1]]) ^ pair[1]) | (layout_pair(&there[at[3]]) ^ pair[3]);
    }
    even_pair |= odd_pair;
    uintptr_t differ = even_pair[0] | even_pair[1];
    const struct layout_there *word = (const void *)pair;
    for (const uint16_t *end = at + l->singles; !differ && at < end; at += LAYOUT_UNROLL, word += LAYOUT_UNROLL)
        differ = (there[at[0]].value ^ word[0].value) | (there[at[1]].value ^ word[1].value) |
                 (there[at[2]].value ^ word[2].value) | (there[at[3]].value ^ word[3].value);
    return !differ;
}

#endif
