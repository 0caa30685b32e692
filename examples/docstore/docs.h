/* SPDX-License-Identifier: BSD-2-Clause */
/* The documents of the service: the store, with the cache before it. All functions except docs_close() are thread-safe.
 *
 * They return 0 or -EINVAL (not a document), -ENOENT, -ENOMEM or -EIO. `keeper` is the context in which the cache
 * keeps what the call brings in.
 */
#ifndef DOCSTORE_DOCS_H
#define DOCSTORE_DOCS_H

#include "cache.h"
#include "document.h"
#include "spans.h"

struct docs;

/* Opens or creates the database at `path`, with a cache of `cache_bytes`, for `n_threads` threads at a time. */
int docs_open(struct docs **docs, const char *path, size_t cache_bytes, unsigned n_threads);
void docs_close(struct docs *docs);

/* Parses and stores a document. `why` gets the reason of -EINVAL. */
int docs_put(struct docs *docs, jespan_context_t keeper, const struct document_key *key, const char *text, size_t bytes,
             bool *created, char *why, size_t why_bytes);

/* `document` is a reference that the caller releases. */
int docs_get(struct docs *docs, jespan_context_t keeper, const struct document_key *key, struct document **document);

int docs_delete(struct docs *docs, const struct document_key *key);

/* The results of a search, in a region of their own. */
struct results {
    json_t *json; /* an array of {"id": …, "document": …}, do not keep it with json_incref() */
    jespan_span_t *region;
};

/* Up to `limit` documents of the collection whose text contains `words`, for docs_results_free(). */
int docs_search(struct docs *docs, const char *collection, const char *words, unsigned limit, struct results *results);
void docs_results_free(struct results *results);

int docs_stats(struct docs *docs, uint64_t *documents, struct cache_stats *cache);

#endif
