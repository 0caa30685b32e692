/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: the hash table of all live contexts, whose lists are linked through hash_next.
 *
 * The table has a few buckets for each number that was ever used, and gets more one at a time, as the tree grows: linear
 * hashing. So it stays in the processor's caches while there are few contexts, and nobody waits for a table that is
 * copied.
 *
 * All of it needs LOCK_TREE, but for tree_hash_first() and reading `hash_next`, by which tree_find() goes on. Links are written by release
 * stores: a reader without the lock, which loads them by acquire, finds the memory of a new number mapped.
 */
#ifndef JESPAN_TREE_HASH_H
#define JESPAN_TREE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the table of so many contexts. tree_hash_begin() gets the end of as many zeroed ones. To be called once. */
size_t tree_hash_bytes(uint32_t max);
void tree_hash_begin(uint32_t max, char *end);

/* The table has room for contexts with numbers up to this one. */
void tree_hash_grow(uint32_t id);

/* The first of the contexts that may have this hash; 0: none. */
uint32_t tree_hash_first(uint32_t hash);

void tree_hash_add(uint32_t id, uint32_t hash);
void tree_hash_remove(uint32_t id); /* which is in the table */

#endif
