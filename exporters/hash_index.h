/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash index finds the position of an item in a list of its owner by the item's contents. It keeps hashes and positions,
 * and no keys. */
#ifndef JESPAN_HASH_INDEX_H
#define JESPAN_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/exporter.h"

#define HASH_INDEX_NONE UINT32_MAX

/* A zeroed index is empty. */
struct hash_index {
    const struct exporter_memory *memory; /* NULL: malloc */
    struct hash_index_bucket *buckets;    /* a power of two, at most three quarters in use */
    uint32_t n_buckets, n_used;
};

/* Whether the owner's item at `position` has this key. */
typedef bool hash_index_same(const void *owner, uint32_t position, const void *key);

/* Returns the position of a key, or HASH_INDEX_NONE. */
uint32_t hash_index_find(const struct hash_index *index, uint32_t hash, hash_index_same *same, const void *owner, const void *key);

/* Adds the position of a key that is not in the index. Returns 0 or -ENOMEM. */
int hash_index_add(struct hash_index *index, uint32_t hash, uint32_t position);

/* Prepares for n positions in all. Returns 0 or -ENOMEM. */
int hash_index_reserve(struct hash_index *index, uint32_t n);

size_t hash_index_bytes(const struct hash_index *index);
void hash_index_free(struct hash_index *index);

#endif
