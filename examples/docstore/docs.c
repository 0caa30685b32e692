/* SPDX-License-Identifier: BSD-2-Clause */
/* The documents of the service: the store, with the cache before it. */
#include "docs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "spans.h"
#include "store.h"

struct docs {
    struct store *store;
    struct cache *cache;
    pthread_mutex_t write_lock; /* store and cache see writes in the same order */
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

static int keep(const json_t *json, jespan_context_t keeper, struct document **document)
{
    JESPAN_CREDIT(keeper);

    *document = document_keep(json);
    return *document ? 0 : -ENOMEM;
}

/* Opens a region. Returns NULL if no arena is left for it: then the caller frees its objects one by one. */
static jespan_span_t *region_open(const struct jespan_site *site)
{
    jespan_span_t *region = jespan_open(site, JESPAN_CURRENT, NULL, 0);

    jespan_enter(region);
    return region;
}

/* Closes the region. The region contains only `json`, so nobody walks or frees its parts. */
static void region_close(jespan_span_t *region, json_t *json)
{
    if (!region)
        json_decref(json);
    jespan_close(region);
}

/* The parser's objects are released with their region. The cache keeps a copy, in its own arena. */
static int parse(const char *text, size_t bytes, jespan_context_t keeper, struct document **document, char *why,
                 size_t why_bytes)
{
    JESPAN_SITE(site, "parse", .arena = {.flags = JESPAN_ARENA_REGION});
    jespan_span_t *region = region_open(&site);
    json_t *json = NULL;
    int error = document_parse(&json, text, bytes, why, why_bytes);

    if (!error)
        error = keep(json, keeper, document);
    jespan_exit(region);
    region_close(region, json);
    return error;
}

static int store(struct docs *d, const struct document_key *key, const char *text, size_t bytes, bool *created)
{
    JESPAN("store");
    return store_put(d->store, key, text, bytes, created);
}

int docs_put(struct docs *d, jespan_context_t keeper, const struct document_key *key, const char *text, size_t bytes,
             bool *created, char *why, size_t why_bytes)
{
    struct document *document;
    int error = parse(text, bytes, keeper, &document, why, why_bytes);

    if (error)
        return error;
    pthread_mutex_lock(&d->write_lock);
    error = store(d, key, text, bytes, created);
    if (!error) {
        JESPAN_CREDIT(keeper);
        cache_put(d->cache, key, document);
    }
    pthread_mutex_unlock(&d->write_lock);
    document_unref(document);
    return error;
}

static struct document *lookup(struct docs *d, const struct document_key *key, uint64_t *ticket)
{
    JESPAN("lookup");
    return cache_get(d->cache, key, ticket);
}

static int query(struct docs *d, const struct document_key *key, char **text, size_t *bytes)
{
    JESPAN("query");
    return store_get(d->store, key, text, bytes);
}

/* On a miss, reads the document from the store and puts it into the cache. */
static int fill(struct docs *d, jespan_context_t keeper, const struct document_key *key, uint64_t ticket,
                struct document **document)
{
    char *text, why[1];
    size_t bytes;
    int error;
    JESPAN("fill");

    error = query(d, key, &text, &bytes);
    if (error)
        return error;
    error = parse(text, bytes, keeper, document, why, sizeof why);
    free(text);
    if (error)
        return error == -EINVAL ? -EIO : error;
    JESPAN_CREDIT(keeper);
    cache_fill(d->cache, key, *document, ticket);
    return 0;
}

int docs_get(struct docs *d, jespan_context_t keeper, const struct document_key *key, struct document **document)
{
    uint64_t ticket;

    *document = lookup(d, key, &ticket);
    return *document ? 0 : fill(d, keeper, key, ticket, document);
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

/* Searches do not fill the cache. The region is entered again, since SQLite's context is current in between. */
static int add_result(void *to, const char *id, const char *text, size_t bytes)
{
    struct results *results = to;
    char why[1];
    json_t *json;
    int error;

    jespan_enter(results->region);
    error = document_parse(&json, text, bytes, why, sizeof why);
    if (!error && json_array_append_new(results->json, json_pack("{s:s, s:o}", "id", id, "document", json)))
        error = -ENOMEM;
    jespan_exit(results->region);
    return error == -EINVAL ? -EIO : error;
}

/* A search takes many pages. They go back to the system at once: each thread would keep them until its next search. */
int docs_search(struct docs *d, const char *collection, const char *words, unsigned limit, struct results *results)
{
    JESPAN_SITE(site, "search",
                .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_DECAY, .dirty_decay_ms = 0, .muzzy_decay_ms = 0});
    int error;

    results->region = region_open(&site);
    results->json = json_array();
    error = results->json ? store_search(d->store, collection, words, limit, add_result, results) : -ENOMEM;
    jespan_exit(results->region);
    if (error)
        docs_results_free(results);
    return error;
}

void docs_results_free(struct results *results)
{
    region_close(results->region, results->json);
}

int docs_stats(struct docs *d, uint64_t *documents, struct cache_stats *cache)
{
    JESPAN("query");
    cache_stats(d->cache, cache);
    return store_count(d->store, documents);
}
