/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash index: open addressing, linear probing, doubled when three quarters full. */
#include "hash_index.h"

#include <errno.h>

#include "exporter_memory.h"

#define FIRST_BUCKETS 256u

/* The hash is kept here, so that few items are compared. */
struct hash_index_bucket {
    uint32_t hash;
    uint32_t position_plus_1; /* 0: free */
};

static void put(struct hash_index *index, struct hash_index_bucket bucket)
{
    uint32_t i = bucket.hash & (index->n_buckets - 1);
    while (index->buckets[i].position_plus_1 != 0)
        i = (i + 1) & (index->n_buckets - 1);
    index->buckets[i] = bucket;
}

int hash_index_reserve(struct hash_index *index, uint32_t n)
{
    struct hash_index larger = *index;
    larger.n_buckets = index->n_buckets > 0 ? index->n_buckets : FIRST_BUCKETS;
    while (larger.n_buckets > 0 && n > larger.n_buckets / 4 * 3)
        larger.n_buckets *= 2;
    if (larger.n_buckets == index->n_buckets)
        return 0;
    larger.buckets = larger.n_buckets == 0 ? NULL : exporter_memory_take(index->memory, larger.n_buckets, sizeof *larger.buckets);
    if (!larger.buckets)
        return -ENOMEM;
    for (uint32_t i = 0; i < index->n_buckets; i++)
        if (index->buckets[i].position_plus_1 != 0)
            put(&larger, index->buckets[i]);
    exporter_memory_give(index->memory, index->buckets);
    *index = larger;
    return 0;
}

uint32_t hash_index_find(const struct hash_index *index, uint32_t hash, hash_index_same *same, const void *owner, const void *key)
{
    for (uint32_t i = hash; index->n_buckets > 0; i++) {
        const struct hash_index_bucket *bucket = &index->buckets[i & (index->n_buckets - 1)];
        if (bucket->position_plus_1 == 0)
            break;
        if (bucket->hash == hash && same(owner, bucket->position_plus_1 - 1, key))
            return bucket->position_plus_1 - 1;
    }
    return HASH_INDEX_NONE;
}

int hash_index_add(struct hash_index *index, uint32_t hash, uint32_t position)
{
    int error = hash_index_reserve(index, index->n_used + 1);
    if (error)
        return error;
    put(index, (struct hash_index_bucket){hash, position + 1});
    index->n_used++;
    return 0;
}

size_t hash_index_bytes(const struct hash_index *index)
{
    return index->n_buckets * sizeof *index->buckets;
}

void hash_index_free(struct hash_index *index)
{
    exporter_memory_give(index->memory, index->buckets);
}
