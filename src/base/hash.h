/* SPDX-License-Identifier: BSD-2-Clause */
/* One hash of bytes: FNV-1a with 64 bits (Fowler, Noll and Vo). Modules use it too, so all of it is inline. */
#ifndef JESPAN_HASH_H
#define JESPAN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* Continues a hash with these bytes. `hash` is HASH_START or the result of an earlier call. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (const unsigned char *byte = bytes; n > 0; n--)
        hash = (hash ^ *byte++) * 0x100000001b3u;
    return hash;
}

/* The same for tables that keep 32 bits. */
static inline uint32_t hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
