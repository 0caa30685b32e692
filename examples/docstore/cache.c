/* SPDX-License-Identifier: BSD-2-Clause */
/* A cache of parsed documents: hash table and recency list under one lock. */
#include "cache.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_BUCKETS 16384

struct entry {
    struct entry *next;          /* in its bucket, or in the list of entries to free */
    struct entry *newer, *older; /* in the recency list */
    struct document *document;
    size_t bytes; /* of the heap, exactly: entry and document */
    struct document_key key;
};

struct bucket {
    struct entry *first;
    uint64_t writes;
};

struct cache {
    pthread_mutex_t lock;
    struct entry recency; /* sentinel: .older is the newest entry, .newer the oldest */
    struct cache_stats stats;
    struct bucket buckets[N_BUCKETS];
};

struct cache *cache_new(size_t limit_bytes)
{
    struct cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return NULL;
    pthread_mutex_init(&cache->lock, NULL);
    cache->recency.newer = cache->recency.older = &cache->recency;
    cache->stats.limit_bytes = limit_bytes;
    return cache;
}

static uint32_t hash(uint32_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u; /* FNV-1a */
    return h;
}

static struct bucket *bucket_of(struct cache *cache, const struct document_key *key)
{
    uint32_t h = hash(hash(hash(2166136261u, key->collection), "/"), key->id);

    return &cache->buckets[(h ^ h >> 16) % N_BUCKETS];
}

/* The link to the entry in its bucket; what it points to is NULL if there is none. */
static struct entry **find(struct bucket *bucket, const struct document_key *key)
{
    struct entry **link = &bucket->first;

    while (*link && (strcmp((*link)->key.id, key->id) || strcmp((*link)->key.collection, key->collection)))
        link = &(*link)->next;
    return link;
}

static void recency_remove(struct entry *entry)
{
    entry->newer->older = entry->older;
    entry->older->newer = entry->newer;
}

static void recency_add(struct cache *cache, struct entry *entry)
{
    entry->newer = &cache->recency;
    entry->older = cache->recency.older;
    entry->older->newer = entry;
    cache->recency.older = entry;
}

/* Takes an entry out of the cache and puts it on the list `dropped`. */
static void drop(struct cache *cache, struct entry **link, struct entry **dropped)
{
    struct entry *entry = *link;

    *link = entry->next;
    recency_remove(entry);
    cache->stats.documents--;
    cache->stats.bytes -= entry->bytes;
    entry->next = *dropped;
    *dropped = entry;
}

static void drop_key(struct cache *cache, struct bucket *bucket, const struct document_key *key,
                     struct entry **dropped)
{
    struct entry **link = find(bucket, key);

    if (*link)
        drop(cache, link, dropped);
}

static void insert(struct cache *cache, struct bucket *bucket, struct entry *entry, struct entry **dropped)
{
    drop_key(cache, bucket, &entry->key, dropped);
    entry->next = bucket->first;
    bucket->first = entry;
    recency_add(cache, entry);
    cache->stats.documents++;
    cache->stats.bytes += entry->bytes;
    while (cache->stats.bytes > cache->stats.limit_bytes) {
        const struct document_key *oldest = &cache->recency.newer->key;

        drop_key(cache, bucket_of(cache, oldest), oldest, dropped);
        cache->stats.evictions++;
    }
}

/* Call this without the lock: to release a large document takes a while. */
static void free_dropped(struct entry *dropped)
{
    while (dropped) {
        struct entry *next = dropped->next;

        document_unref(dropped->document);
        free(dropped);
        dropped = next;
    }
}

void cache_free(struct cache *cache)
{
    struct entry *dropped = NULL;

    if (!cache)
        return;
    while (cache->recency.newer != &cache->recency) {
        const struct document_key *oldest = &cache->recency.newer->key;

        drop_key(cache, bucket_of(cache, oldest), oldest, &dropped);
    }
    free_dropped(dropped);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

struct document *cache_get(struct cache *cache, const struct document_key *key, uint64_t *ticket)
{
    struct bucket *bucket = bucket_of(cache, key);
    struct document *document = NULL;
    struct entry *entry;

    pthread_mutex_lock(&cache->lock);
    entry = *find(bucket, key);
    *ticket = bucket->writes;
    if (entry) {
        recency_remove(entry);
        recency_add(cache, entry);
        document = document_ref(entry->document);
        cache->stats.hits++;
    } else {
        cache->stats.misses++;
    }
    pthread_mutex_unlock(&cache->lock);
    return document;
}

/* Returns NULL if there is no memory, or if the document would push out half of the cache. Then it is not cached. */
static struct entry *entry_new(const struct cache *cache, const struct document_key *key, struct document *document)
{
    size_t bytes = document_heap_bytes(document);
    struct entry *entry = NULL;

    if (bytes < cache->stats.limit_bytes / 2)
        entry = calloc(1, sizeof *entry);
    if (entry) {
        entry->key = *key;
        entry->document = document_ref(document);
        entry->bytes = bytes + malloc_usable_size(entry);
    }
    return entry;
}

void cache_fill(struct cache *cache, const struct document_key *key, struct document *document, uint64_t ticket)
{
    struct bucket *bucket = bucket_of(cache, key);
    struct entry *entry = entry_new(cache, key, document), *dropped = NULL;

    if (!entry)
        return;
    pthread_mutex_lock(&cache->lock);
    if (bucket->writes == ticket) {
        insert(cache, bucket, entry, &dropped);
    } else {
        entry->next = NULL;
        dropped = entry;
    }
    pthread_mutex_unlock(&cache->lock);
    free_dropped(dropped);
}

static void replace(struct cache *cache, const struct document_key *key, struct entry *entry)
{
    struct bucket *bucket = bucket_of(cache, key);
    struct entry *dropped = NULL;

    pthread_mutex_lock(&cache->lock);
    bucket->writes++;
    if (entry)
        insert(cache, bucket, entry, &dropped);
    else
        drop_key(cache, bucket, key, &dropped);
    pthread_mutex_unlock(&cache->lock);
    free_dropped(dropped);
}

void cache_put(struct cache *cache, const struct document_key *key, struct document *document)
{
    replace(cache, key, entry_new(cache, key, document));
}

void cache_remove(struct cache *cache, const struct document_key *key)
{
    replace(cache, key, NULL);
}

void cache_stats(struct cache *cache, struct cache_stats *stats)
{
    pthread_mutex_lock(&cache->lock);
    *stats = cache->stats;
    pthread_mutex_unlock(&cache->lock);
}
