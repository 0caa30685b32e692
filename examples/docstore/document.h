/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents: their names, parsing them, and keeping them.
 *
 * A document that is kept never changes, so threads may share it. It counts its references itself: when jansson's
 * json_decref() releases the last one, it does not wait for what other threads still read before they released theirs
 * (no acquire).
 */
#ifndef DOCSTORE_DOCUMENT_H
#define DOCSTORE_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define NAME_MAX_BYTES 64

/* The name under which a document is stored. */
struct document_key {
    char collection[NAME_MAX_BYTES + 1];
    char id[NAME_MAX_BYTES + 1];
};

struct document;

/* Call this once, before the first document, while there is one thread. */
void document_init(void);

/* Copies the `bytes` bytes at `name` into a field of struct document_key. Returns false unless they are 1 to
 * NAME_MAX_BYTES letters, digits, dots, dashes or underscores. */
bool document_name_copy(char to[NAME_MAX_BYTES + 1], const char *name, size_t bytes);

/* Parses a JSON object. Returns 0; -ENOMEM, also when a limit is reached; or -EINVAL with `why` set to the reason. */
int document_parse(json_t **json, const char *text, size_t bytes, char *why, size_t why_bytes);

/* Makes a copy to keep, with one reference. Returns NULL if there is no memory. */
struct document *document_keep(const json_t *json);

/* Returns its argument. */
struct document *document_ref(struct document *document);

/* Ignores NULL. */
void document_unref(struct document *document);

/* The result is valid as long as the reference. Do not change it, and do not keep it with json_incref(): threads share it. */
json_t *document_json(const struct document *document);

/* The bytes that the document occupies in the heap. */
size_t document_heap_bytes(const struct document *document);

#endif
