/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines: what a thread remembers of stacks. A line leads from a context and a stack to the child. */
#ifndef JESPAN_STACK_LINES_H
#define JESPAN_STACK_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Valid while the child has this generation. A line without a child says that there was no room for one; it is used a number of times, and
 * then tried again. */
struct stack_line {
    uint64_t key; /* 0: the line is free */
    uint32_t context, generation; /* context 0: none; `generation` counts down */
};

#define LINES_WAYS 4u /* a set is a cache line */
_Static_assert(LINES_WAYS * sizeof(struct stack_line) == CACHE_LINE_BYTES, "one cache miss for each set");

struct stack_lines {
    struct stack_line *all; /* NULL: there are none yet */
    uint32_t mask, misses;  /* since they were allocated */
};

/* The key of a stack in a context: `hash` is of the stack, `base` of the context. It is never 0. */
HOT_INLINE uint64_t lines_key(uint64_t hash, uint64_t base)
{
    uint64_t key = hash * 0x9e3779b97f4a7c15u;
    key ^= key >> 32 ^ base;
    key *= 0xbf58476d1ce4e5b9u;
    return (key ^ key >> 32) | 1;
}

/* A key has two sets. The second one is used while the first one is full, so that a few keys of the same set do not take
 * each other's place again and again. */
HOT_INLINE size_t lines_set(uint32_t mask, uint64_t key, unsigned which)
{
    return key >> (which ? 33 : 1) & mask & ~(LINES_WAYS - 1);
}

/* NULL: it is not there. There is no branch for each place in the set, since nothing predicts which it is. */
HOT_INLINE struct stack_line *lines_find_in_set(struct stack_line *set, uint64_t key)
{
    uint32_t way = (set[1].key == key) + 2 * (set[2].key == key) + 3 * (set[3].key == key);
    return likely(set[way].key == key) ? &set[way] : NULL;
}

HOT_INLINE struct stack_line *lines_find(const struct stack_lines *lines, uint64_t key)
{
    if (unlikely(!lines->all))
        return NULL;
    struct stack_line *line = lines_find_in_set(&lines->all[lines_set(lines->mask, key, 0)], key);
    return likely(line) ? line : lines_find_in_set(&lines->all[lines_set(lines->mask, key, 1)], key);
}

/* Where to write a line for the key, which has none. It takes the place of another one if both sets are full. NULL: no memory. */
struct stack_line *lines_add(struct stack_lines *lines, uint64_t key);

/* Twice as many as now, or the first ones. Where that is not possible, there are as many as before. */
void lines_grow(struct stack_lines *lines);

/* The first of the two sets in which somebody will look, known before the hash is. */
struct lines_look {
    const struct stack_line *all;
    uint32_t mask;
    uint64_t base;
};

HOT_INLINE void lines_prefetch(const struct lines_look *look, uint64_t hash)
{
    size_t set = lines_set(look->mask, lines_key(hash, look->base), 0);
    prefetch_read((const char *)((uintptr_t)look->all + set * sizeof *look->all));
}

#endif
