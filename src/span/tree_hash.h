/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: the hash table of all live contexts, whose lists are linked through hash_next.
 *
 * The table has a few buckets for each number that was ever used, and gets more one at a time, as the tree grows: linear
 * hashing. So it stays in the processor's caches while there are few contexts, and nobody waits for a table that is
 * copied. All of it needs LOCK_TREE.
 */
#ifndef JESPAN_TREE_HASH_H
#define JESPAN_TREE_HASH_H

#include <stdint.h>

/* To be called once. Maps address space for a table of *max contexts, or lowers *max. Returns 0 or -ENOMEM. */
int tree_hash_begin(uint32_t *max);

/* The table has room for contexts with numbers up to this one. */
void tree_hash_grow(uint32_t id);

/* The first of the contexts that may have this hash; 0: none. */
uint32_t tree_hash_first(uint32_t hash);

void tree_hash_add(uint32_t id, uint32_t hash);
void tree_hash_remove(uint32_t id); /* which is in the table */

#endif
