/* SPDX-License-Identifier: BSD-2-Clause */
/* Recycling of contexts, and the ids it yields. For tree.c; all under LOCK_TREE. See tree.h for how it is safe. */
#ifndef JESPAN_RECYCLE_H
#define JESPAN_RECYCLE_H

#include <stdint.h>

/* A recycled id, 0 when there is none. Its generation is odd. */
uint32_t recycle_take_id(void);
uint32_t recycle_free_ids(void);
uint64_t recycle_count(void);

/* In tree.c: takes the context out of the hash table. */
void tree_unlink(uint32_t id);

/* In tree.c: a thread's context was recycled. What is opened in such a context lies below the root, so nothing keeps the id
 * from being given to a context with spans of its own below it: threads forget what they remember of it. */
void tree_forget_below_root(void);

#endif
