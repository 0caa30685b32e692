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

/* Both halves of the product, so that each bit of the word changes the low bits of the hash too. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    __extension__ unsigned __int128 product = (unsigned __int128)(hash ^ word) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The first and the last bytes of a text, at most 16. They may overlap. */
static inline uint64_t hash_ends(const char *text, size_t n)
{
    uint64_t first = 0, last = 0;
    if (n >= sizeof first) {
        memcpy(&first, text, sizeof first);
        memcpy(&last, text + n - sizeof last, sizeof last);
    } else if (n >= 4) {
        memcpy(&first, text, 4);
        memcpy(&last, text + n - 4, 4);
    } else if (n) {
        first = (unsigned char)text[0] | (uint64_t)(unsigned char)text[n / 2] << 8;
        last = (unsigned char)text[n - 1];
    }
    return first ^ (last << 29 | last >> 35);
}

/* Another hash, of eight bytes at a time: for tables in memory, whose hashes nobody else computes. */
static inline uint64_t hash_string(uint64_t hash, const char *text, size_t n)
{
    uint64_t word;
    hash ^= n;
    for (size_t at = sizeof word; at + sizeof word < n; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        hash = hash_word(hash, word);
    }
    return hash_word(hash, hash_ends(text, n));
}

/* The same for tables that keep 32 bits. */
static inline uint32_t hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
