/* SPDX-License-Identifier: BSD-2-Clause */
/* A table from 64-bit hashes to numbers. It is at most half full. */
#include "hash.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u

/* The entry of the hash, or the free one where it belongs. */
static struct hash_entry *find_entry(const struct hash_table *table, uint64_t hash)
{
    uint64_t i = hash & (table->n_slots - 1);
    while (table->entries[i].is_used && table->entries[i].hash != hash)
        i = (i + 1) & (table->n_slots - 1);
    return &table->entries[i];
}

static int grow(struct hash_table *table)
{
    struct hash_table larger = {.n = table->n, .n_slots = table->n_slots == 0 ? FIRST_SLOTS : table->n_slots * 2};
    larger.entries = calloc(larger.n_slots, sizeof *larger.entries);
    if (!larger.entries)
        return -ENOMEM;
    for (uint64_t i = 0; i < table->n_slots; i++)
        if (table->entries[i].is_used)
            *find_entry(&larger, table->entries[i].hash) = table->entries[i];
    free(table->entries);
    *table = larger;
    return 0;
}

uint64_t *hash_find(const struct hash_table *table, uint64_t hash)
{
    struct hash_entry *entry = table->n_slots == 0 ? NULL : find_entry(table, hash);
    return !entry || !entry->is_used ? NULL : &entry->value;
}

int hash_add(struct hash_table *table, uint64_t hash, uint64_t value)
{
    if (table->n >= table->n_slots / 2 && grow(table) != 0)
        return -ENOMEM;
    *find_entry(table, hash) = (struct hash_entry){hash, value, true};
    table->n++;
    return 0;
}

void hash_free(struct hash_table *table)
{
    free(table->entries);
}

uint64_t hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t hash = bytes + 1, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = hash_mix(hash + hash_mix(word + 1));
    }
    word = 0;
    if (bytes > 0)
        memcpy(&word, at, bytes);
    return hash_mix(hash + hash_mix(word + 1));
}
