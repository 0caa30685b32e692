/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents: their names, parsing them, and keeping them. */
#include "document.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spans.h"

struct document {
    atomic_uint references;
    size_t heap_bytes;
    json_t *json;
};

/* jansson's allocations on this thread. A copy is made on one thread. So the bytes allocated less the bytes freed grow by the
 * size of the copy. The figure itself means nothing, since other threads release documents. */
static _Thread_local struct {
    size_t bytes;
    bool is_refused; /* an allocation was refused since this was set to false */
    bool may_borrow;
} heap;

/* Takes memory outside the limit of the tenant. */
static void *borrow(size_t bytes)
{
    JESPAN_CREDIT(JESPAN_BASE);
    return malloc(bytes);
}

static void *counted_malloc(size_t bytes)
{
    void *p = malloc(bytes);

    if (!p) {
        heap.is_refused = true;
        p = heap.may_borrow ? borrow(bytes) : NULL;
    }
    heap.bytes += malloc_usable_size(p);
    return p;
}

static void counted_free(void *p)
{
    heap.bytes -= malloc_usable_size(p);
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

struct text {
    const char *at;
    size_t bytes;
};

/* Gives jansson the next piece of a text, or nothing after jansson was refused memory. */
static size_t read_text(void *to, size_t bytes, void *from)
{
    struct text *text = from;

    if (heap.is_refused)
        return (size_t)-1;
    if (bytes > text->bytes)
        bytes = text->bytes;
    memcpy(to, text->at, bytes);
    text->at += bytes;
    text->bytes -= bytes;
    return bytes;
}

/* jansson's parser does not check everywhere whether it got memory, and then reads from NULL. So when the tenant's limit is
 * reached, the parser borrows memory outside the limit. It is told that the text ends after this piece of at most 1 KiB, and
 * gives all its memory back. */
static json_t *load(struct text text, json_error_t *error)
{
    json_t *json;

    heap.is_refused = false;
    heap.may_borrow = true;
    json = json_load_callback(read_text, &text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, error);
    heap.may_borrow = false;
    if (!heap.is_refused)
        return json;
    json_decref(json);
    return NULL;
}

int document_parse(json_t **json, const char *text, size_t bytes, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *loaded = load((struct text){text, bytes}, &error);

    if (heap.is_refused)
        return -ENOMEM;
    if (json_is_object(loaded)) {
        *json = loaded;
        return 0;
    }
    if (loaded)
        snprintf(why, why_bytes, "a document is a JSON object");
    else
        snprintf(why, why_bytes, "line %d, column %d: %s", error.line, error.column, error.text);
    json_decref(loaded);
    return -EINVAL;
}

/* Without memory, a copy lacks parts, or is NULL. */
struct document *document_keep(const json_t *json)
{
    size_t before = heap.bytes;
    struct document *document = malloc(sizeof *document);

    if (!document)
        return NULL;
    heap.is_refused = false;
    atomic_init(&document->references, 1);
    document->json = json_deep_copy(json);
    document->heap_bytes = heap.bytes - before + malloc_usable_size(document);
    if (!heap.is_refused)
        return document;
    document_unref(document);
    return NULL;
}

struct document *document_ref(struct document *document)
{
    atomic_fetch_add_explicit(&document->references, 1, memory_order_relaxed);
    return document;
}

/* Release and acquire: the free comes after all reads by other threads. */
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
