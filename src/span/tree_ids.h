/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that interning (tree.c) and recycling (tree_recycle.c) share. All of it needs LOCK_TREE. */
#ifndef JESPAN_TREE_IDS_H
#define JESPAN_TREE_IDS_H

#include <stdint.h>

#include "span/tree.h"

struct tree_ids {
    uint32_t first_free; /* linked through hash_next; 0: none */
    uint32_t free;       /* ids in that list */
    uint32_t stacks;     /* live contexts of stacks */
    uint64_t overflow, recycled; /* as in struct tree_stats */
};
extern struct tree_ids tree_ids;

/* Removes a context from the hash table, which has it. */
void tree_unlink(uint32_t id);

/* Recycles early, so that numbers are used again and the memory of counters stays small. To be called for each new
 * context. */
void tree_recycle_early(void);

/* To be called when all numbers are taken. `good_yield` is the number of contexts that are worth a round. */
void tree_recycle_at_bound(uint32_t good_yield);

/* Removes a stack from the list of its context. */
void tree_leave_stacks(uint32_t id);

/* To be called when stacks have all ids that they may have. */
void tree_recycle_stacks(uint32_t good_yield);

/* The next life begins, or the time between two. */
static inline void tree_change_life(uint32_t id)
{
    store_release(&context_lives[id], load_relaxed(&context_lives[id]) + 1);
}

/* Invalidates all that threads have cached about the context. The context stays the same. */
static inline void tree_forget(uint32_t id)
{
    store_release(&contexts[id].generation, load_relaxed(&contexts[id].generation) + 2);
}

#endif
