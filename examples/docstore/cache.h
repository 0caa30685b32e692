/* SPDX-License-Identifier: BSD-2-Clause */
/* A cache of parsed documents: least recently used out first, bounded in bytes. All functions are thread-safe.
 *
 * A document read from the store may be outdated by the time it is put here. So cache_get() hands out a ticket on a
 * miss, and cache_fill() does nothing when a write to the same part of the cache came in between.
 */
#ifndef DOCSTORE_CACHE_H
#define DOCSTORE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "document.h"

struct cache;

struct cache_stats {
    uint64_t documents, bytes, limit_bytes;
    uint64_t hits, misses, evictions;
};

/* Returns NULL if there is no memory. */
struct cache *cache_new(size_t limit_bytes);
void cache_free(struct cache *cache);

/* Returns a reference to the document, which the caller releases, or NULL and a ticket. */
struct document *cache_get(struct cache *cache, const struct document_key *key, uint64_t *ticket);

/* Call this after a miss and a read from the store. It takes a reference of its own. */
void cache_fill(struct cache *cache, const struct document_key *key, struct document *document, uint64_t ticket);

/* Call this after a write to the store. Writes of one key must come in the store's order. */
void cache_put(struct cache *cache, const struct document_key *key, struct document *document);
void cache_remove(struct cache *cache, const struct document_key *key);

void cache_stats(struct cache *cache, struct cache_stats *stats);

#endif
