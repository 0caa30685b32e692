/* SPDX-License-Identifier: BSD-2-Clause */
/* A table from 64-bit hashes to numbers. A hash stands for its key: two keys are mixed up if all 64 bits are equal, which is
 * left to chance. */
#ifndef JESPAN_PROFILE_HASH_H
#define JESPAN_PROFILE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_entry {
    uint64_t hash, value;
    bool is_used;
};

/* {0} is an empty table. */
struct hash_table {
    struct hash_entry *entries; /* open addressing with linear probing */
    uint64_t n, n_slots;
};

/* The last step of splitmix64: spreads every bit over all bits. */
static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t hash_bytes(const void *data, size_t bytes);

/* Returns the value of a hash, or NULL. The address is valid until the next hash_add(). */
uint64_t *hash_find(const struct hash_table *table, uint64_t hash);

/* Adds a hash that is not in the table. Returns 0 or -ENOMEM. */
int hash_add(struct hash_table *table, uint64_t hash, uint64_t value);

void hash_free(struct hash_table *table);

#endif
