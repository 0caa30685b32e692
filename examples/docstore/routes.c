/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request to a reply: the routes of the service.
 *
 *     PUT, POST /docs/COLLECTION/ID     store a document
 *     GET, HEAD /docs/COLLECTION/ID     read it
 *     DELETE    /docs/COLLECTION/ID
 *     GET       /docs/COLLECTION?q=WORDS&limit=N
 *     GET       /stats
 *     GET       /spans?format=text
 */
#include "routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "spans.h"

#define WORDS_MAX_BYTES 256
#define RESULTS_DEFAULT 20
#define RESULTS_MAX 100

enum target { NOWHERE, DOCUMENT, COLLECTION, STATS, SPANS };

typedef void route_handler(struct docs *docs, const struct request *request, struct reply *reply);

struct route {
    const char *name;
    const char *method; /* NULL: any */
    enum target target;
    route_handler *handle;
};

static char *render(const json_t *json)
{
    JESPAN("render");
    return json_dumps(json, JSON_COMPACT);
}

static void reply_json(struct reply *reply, unsigned status, const json_t *json)
{
    reply->status = status;
    reply->body = json ? render(json) : NULL;
    if (!reply->body)
        reply->status = 507;
}

void reply_error(struct reply *reply, unsigned status, const char *why)
{
    json_t *json = json_pack("{s:s}", "error", why);

    reply_json(reply, status, json);
    json_decref(json);
}

static void reply_failure(struct reply *reply, int error, const char *why)
{
    switch (error) {
    case -EINVAL: reply_error(reply, 400, why); break;
    case -ENOENT: reply_error(reply, 404, "no such document"); break;
    case -ENOMEM: reply->status = 507; break;
    default: reply_error(reply, 500, "the document store failed");
    }
}

static void put_document(struct docs *docs, const struct request *request, struct reply *reply)
{
    char why[200];
    bool created;
    int error = docs_put(docs, request->keeper, &request->key, request->body, request->body_bytes, &created, why,
                         sizeof why);

    if (error) {
        reply_failure(reply, error, why);
        return;
    }
    reply->status = created ? 201 : 204;
    if (created)
        snprintf(reply->location, sizeof reply->location, "/docs/%s/%s", request->key.collection, request->key.id);
}

static void get_document(struct docs *docs, const struct request *request, struct reply *reply)
{
    struct document *document;
    int error = docs_get(docs, request->keeper, &request->key, &document);

    if (error) {
        reply_failure(reply, error, NULL);
        return;
    }
    reply_json(reply, 200, document_json(document));
    document_unref(document);
}

static void delete_document(struct docs *docs, const struct request *request, struct reply *reply)
{
    int error = docs_delete(docs, &request->key);

    if (error)
        reply_failure(reply, error, NULL);
    else
        reply->status = 204;
}

/* Returns 0 if `text` is not a number of results. */
static unsigned parse_limit(const char *text)
{
    char *end;
    unsigned long limit;

    if (!text)
        return RESULTS_DEFAULT;
    limit = strtoul(text, &end, 10);
    return end != text && !*end && limit <= RESULTS_MAX ? (unsigned)limit : 0;
}

static void search_collection(struct docs *docs, const struct request *request, struct reply *reply)
{
    const char *words = request->words ? request->words : "";
    unsigned limit = parse_limit(request->limit);
    struct results results;
    int error;

    if (limit == 0 || strlen(words) > WORDS_MAX_BYTES) {
        reply_error(reply, 400, "q has at most 256 bytes, limit is 1 to 100");
        return;
    }
    error = docs_search(docs, request->key.collection, words, limit, &results);
    if (error) {
        reply_failure(reply, error, NULL);
        return;
    }
    reply_json(reply, 200, results.json);
    docs_results_free(&results);
}

static void get_stats(struct docs *docs, const struct request *request, struct reply *reply)
{
    struct cache_stats cache;
    uint64_t documents;
    json_t *json;
    int error = docs_stats(docs, &documents, &cache);

    (void)request;
    if (error) {
        reply_failure(reply, error, NULL);
        return;
    }
    json = json_pack("{s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "documents", (json_int_t)documents, "cache",
                     "documents", (json_int_t)cache.documents, "bytes", (json_int_t)cache.bytes, "limit_bytes",
                     (json_int_t)cache.limit_bytes, "hits", (json_int_t)cache.hits, "misses",
                     (json_int_t)cache.misses, "evictions", (json_int_t)cache.evictions);
    reply_json(reply, 200, json);
    json_decref(json);
}

static void get_spans(struct docs *docs, const struct request *request, struct reply *reply)
{
    json_t *figures = figures_json();

    (void)docs;
    if (figures && request->as_text) {
        reply->status = 200;
        reply->is_text = true;
        reply->body = figures_text(figures);
    } else {
        reply_json(reply, 200, figures);
    }
    if (!reply->body)
        reply->status = 507;
    json_decref(figures);
}

static void not_found(struct docs *docs, const struct request *request, struct reply *reply)
{
    (void)docs, (void)request;
    reply_error(reply, 404, "no such resource");
}

static void document_method_not_allowed(struct docs *docs, const struct request *request, struct reply *reply)
{
    (void)docs, (void)request;
    reply->allow = "GET, HEAD, PUT, POST, DELETE";
    reply_error(reply, 405, "method not allowed");
}

static void read_method_not_allowed(struct docs *docs, const struct request *request, struct reply *reply)
{
    (void)docs, (void)request;
    reply->allow = "GET, HEAD";
    reply_error(reply, 405, "method not allowed");
}

/* The first route that fits counts. */
static const struct route routes[] = {
    {"put", "PUT", DOCUMENT, put_document},
    {"put", "POST", DOCUMENT, put_document},
    {"get", "GET", DOCUMENT, get_document},
    {"get", "HEAD", DOCUMENT, get_document},
    {"delete", "DELETE", DOCUMENT, delete_document},
    {"search", "GET", COLLECTION, search_collection},
    {"search", "HEAD", COLLECTION, search_collection},
    {"stats", "GET", STATS, get_stats},
    {"stats", "HEAD", STATS, get_stats},
    {"spans", "GET", SPANS, get_spans},
    {"spans", "HEAD", SPANS, get_spans},
    {"other", NULL, DOCUMENT, document_method_not_allowed},
    {"other", NULL, COLLECTION, read_method_not_allowed},
    {"other", NULL, STATS, read_method_not_allowed},
    {"other", NULL, SPANS, read_method_not_allowed},
    {"other", NULL, NOWHERE, not_found},
};

static enum target find_target(struct request *request)
{
    static const char prefix[] = "/docs/";
    const char *name, *slash;

    if (strcmp(request->path, "/stats") == 0)
        return STATS;
    if (strcmp(request->path, "/spans") == 0)
        return SPANS;
    if (strncmp(request->path, prefix, strlen(prefix)))
        return NOWHERE;
    name = request->path + strlen(prefix);
    slash = strchr(name, '/');
    if (!document_name_copy(request->key.collection, name, slash ? (size_t)(slash - name) : strlen(name)))
        return NOWHERE;
    if (!slash)
        return COLLECTION;
    return document_name_copy(request->key.id, slash + 1, strlen(slash + 1)) ? DOCUMENT : NOWHERE;
}

const struct route *routes_find(const char *method, struct request *request)
{
    enum target target = find_target(request);
    const struct route *route = routes;

    while (route->target != target || (route->method && strcmp(route->method, method)))
        route++;
    return route;
}

const char *routes_name(const struct route *route)
{
    return route->name;
}

void routes_handle(const struct route *route, struct docs *docs, const struct request *request, struct reply *reply)
{
    memset(reply, 0, sizeof *reply);
    route->handle(docs, request, reply);
}
