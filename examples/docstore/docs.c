/* SPDX-License-Identifier: BSD-2-Clause */
/* The documents of the service: the store, and before it the cache. */
#include "docs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "spans.h"
#include "store.h"

struct docs {
    struct store *store;
    struct cache *cache;
    pthread_mutex_t write_lock; /* store and cache see writes in one order */
};

int docs_open(struct docs **docs, const char *path, size_t cache_bytes, unsigned n_threads)
{
    struct docs *d;
    int error = -ENOMEM;
    JESPAN("open");

    d = calloc(1, sizeof *d);
    if (!d)
        return error;
    pthread_mutex_init(&d->write_lock, NULL);
    document_init();
    d->cache = cache_new(cache_bytes);
    if (d->cache)
        error = store_open(&d->store, path, n_threads);
    if (error) {
        docs_close(d);
        return error;
    }
    *docs = d;
    return 0;
}

void docs_close(struct docs *d)
{
    if (!d)
        return;
    store_close(d->store);
    cache_free(d->cache);
    pthread_mutex_destroy(&d->write_lock);
    free(d);
}

static struct document *parse(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    JESPAN("parse");
    return document_parse(text, bytes, why, why_bytes);
}

static int store(struct docs *d, const struct document_key *key, const char *text, size_t bytes, bool *created)
{
    JESPAN("store");
    return store_put(d->store, key, text, bytes, created);
}

int docs_put(struct docs *d, const struct document_key *key, const char *text, size_t bytes, bool *created,
             char *why, size_t why_bytes)
{
    struct document *document = parse(text, bytes, why, why_bytes);
    int error;

    if (!document)
        return -EINVAL;
    pthread_mutex_lock(&d->write_lock);
    error = store(d, key, text, bytes, created);
    if (!error) {
        JESPAN("cache");
        cache_put(d->cache, key, document);
    }
    pthread_mutex_unlock(&d->write_lock);
    document_unref(document);
    return error;
}

static struct document *lookup(struct docs *d, const struct document_key *key, uint64_t *ticket)
{
    JESPAN("cache");
    return cache_get(d->cache, key, ticket);
}

static int query(struct docs *d, const struct document_key *key, char **text, size_t *bytes)
{
    JESPAN("query");
    return store_get(d->store, key, text, bytes);
}

/* On a miss: reads the document from the store and leaves it in the cache. What a reader finds under
 * "cache.fill > parse" is memory that reads hold, not writes. */
static int fill(struct docs *d, const struct document_key *key, uint64_t ticket, struct document **document)
{
    char *text, why[1];
    size_t bytes;
    int error;
    JESPAN("cache.fill");

    error = query(d, key, &text, &bytes);
    if (error)
        return error;
    *document = parse(text, bytes, why, sizeof why);
    free(text);
    if (!*document)
        return -EIO;
    cache_fill(d->cache, key, *document, ticket);
    return 0;
}

int docs_get(struct docs *d, const struct document_key *key, struct document **document)
{
    uint64_t ticket;

    *document = lookup(d, key, &ticket);
    return *document ? 0 : fill(d, key, ticket, document);
}

int docs_delete(struct docs *d, const struct document_key *key)
{
    int error;
    JESPAN("store");

    pthread_mutex_lock(&d->write_lock);
    error = store_delete(d->store, key);
    cache_remove(d->cache, key);
    pthread_mutex_unlock(&d->write_lock);
    return error;
}

/* The results own their documents: searches are not what the cache should keep. */
static int add_result(void *results, const char *id, const char *text, size_t bytes)
{
    char why[1];
    struct document *document = parse(text, bytes, why, sizeof why);
    json_t *result = document ? json_pack("{s:s, s:O}", "id", id, "document", document_json(document)) : NULL;

    document_unref(document);
    return json_array_append_new(results, result) ? -ENOMEM : 0;
}

int docs_search(struct docs *d, const char *collection, const char *words, unsigned limit, json_t **results)
{
    json_t *array = json_array();
    int error = array ? store_search(d->store, collection, words, limit, add_result, array) : -ENOMEM;

    if (error) {
        json_decref(array);
        return error;
    }
    *results = array;
    return 0;
}

int docs_stats(struct docs *d, uint64_t *documents, struct cache_stats *cache)
{
    JESPAN("query");
    cache_stats(d->cache, cache);
    return store_count(d->store, documents);
}
