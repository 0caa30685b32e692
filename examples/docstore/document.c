/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents: their names, and parsing them. */
#include "document.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct document {
    atomic_uint references;
    size_t heap_bytes;
    json_t *json;
};

/* What jansson allocated less what it freed on this thread. Parsing happens on one thread, so the difference before
 * and after it is what the document keeps; anything in between may be off, as documents are released anywhere. */
static _Thread_local size_t thread_heap_bytes;

static void *counted_malloc(size_t bytes)
{
    void *p = malloc(bytes);

    thread_heap_bytes += malloc_usable_size(p);
    return p;
}

static void counted_free(void *p)
{
    thread_heap_bytes -= malloc_usable_size(p);
    free(p);
}

void document_init(void)
{
    json_set_alloc_funcs(counted_malloc, counted_free);
    json_object_seed(0);
}

bool document_name_copy(char to[NAME_MAX_BYTES + 1], const char *name, size_t bytes)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    if (bytes == 0 || bytes > NAME_MAX_BYTES)
        return false;
    memcpy(to, name, bytes);
    to[bytes] = '\0';
    return strspn(to, allowed) == bytes;
}

static json_t *parse_object(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

    if (json_is_object(json))
        return json;
    if (json)
        snprintf(why, why_bytes, "a document is a JSON object");
    else
        snprintf(why, why_bytes, "line %d, column %d: %s", error.line, error.column, error.text);
    json_decref(json);
    return NULL;
}

struct document *document_parse(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    size_t before = thread_heap_bytes;
    json_t *json = parse_object(text, bytes, why, why_bytes);
    struct document *document = json ? malloc(sizeof *document) : NULL;

    if (!document) {
        if (json)
            snprintf(why, why_bytes, "out of memory");
        json_decref(json);
        return NULL;
    }
    atomic_init(&document->references, 1);
    document->heap_bytes = thread_heap_bytes - before + malloc_usable_size(document);
    document->json = json;
    return document;
}

struct document *document_ref(struct document *document)
{
    atomic_fetch_add_explicit(&document->references, 1, memory_order_relaxed);
    return document;
}

/* Release and acquire: who frees it comes after all who read it. */
void document_unref(struct document *document)
{
    if (!document || atomic_fetch_sub_explicit(&document->references, 1, memory_order_acq_rel) != 1)
        return;
    json_decref(document->json);
    free(document);
}

json_t *document_json(const struct document *document)
{
    return document->json;
}

size_t document_heap_bytes(const struct document *document)
{
    return document->heap_bytes;
}
