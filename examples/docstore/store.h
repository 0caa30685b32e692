/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents on disk, in one SQLite database.
 *
 * Reads run in parallel, each on a connection from a pool. Writes have one connection: store_put() and store_delete()
 * are for one thread at a time. Functions return 0, -ENOENT, -ENOMEM or -EIO; the latter is explained on stderr.
 */
#ifndef DOCSTORE_STORE_H
#define DOCSTORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "document.h"

struct store;

/* Gets each hit of a search, and returns 0 to go on. The strings are valid during the call. */
typedef int store_hit(void *context, const char *id, const char *text, size_t bytes);

/* Opens or creates the database at `path`. */
int store_open(struct store **store, const char *path, unsigned n_readers);

/* Call this when nobody uses the store any more. */
void store_close(struct store *store);

int store_put(struct store *store, const struct document_key *key, const char *text, size_t bytes, bool *created);
int store_delete(struct store *store, const struct document_key *key);

/* The caller frees `text`. */
int store_get(struct store *store, const struct document_key *key, char **text, size_t *bytes);

/* Up to `limit` documents whose text contains `words`, by id. Returns what `hit` returned if that was not 0. */
int store_search(struct store *store, const char *collection, const char *words, unsigned limit, store_hit *hit,
                 void *context);

int store_count(struct store *store, uint64_t *documents);

#endif
