/* SPDX-License-Identifier: BSD-2-Clause */
/* Hashes of bytes. Modules use them too, so all of it is inline. */
#ifndef JESPAN_HASH_H
#define JESPAN_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START 0xcbf29ce484222325u

/* FNV-1a with 64 bits (Fowler, Noll and Vo). Continues a hash with these bytes. `hash` is HASH_START or the result of an
 * earlier call. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (const unsigned char *byte = bytes; n > 0; n--)
        hash = (hash ^ *byte++) * 0x100000001b3u;
    return hash;
}

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Another hash, of eight bytes at a time: for tables in memory, whose hashes nobody else computes. */
static inline uint64_t hash_words(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t word;
    for (; n >= sizeof word; at += sizeof word, n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = hash_word(hash, word);
    }
    for (word = 0; n > 0; n--)
        word = word << 8 | at[n - 1];
    return hash_word(hash, word);
}

/* The same for tables that keep 32 bits. */
static inline uint32_t hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
