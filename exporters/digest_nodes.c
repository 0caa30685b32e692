/* SPDX-License-Identifier: BSD-2-Clause */
/* The nodes of a digest: their memory, and an index that finds them. */
#include "digest_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/number.h"

#define CHUNK_BYTES 16384u

struct digest_chunk {
    struct digest_chunk *next;
    size_t used, bytes;
    char data[];
};

/* ---- Memory of texts ---- */

static void *take(struct digest *d, size_t bytes)
{
    bytes = round_up(bytes, 8);
    if (!d->chunks || d->chunks->bytes - d->chunks->used < bytes) {
        size_t capacity = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct digest_chunk *chunk = malloc(sizeof *chunk + capacity);
        if (!chunk)
            return NULL;
        *chunk = (struct digest_chunk){.next = d->chunks, .bytes = capacity};
        d->chunks = chunk;
        d->chunks_bytes += sizeof *chunk + capacity;
    }
    void *taken = d->chunks->data + d->chunks->used;
    d->chunks->used += bytes;
    return taken;
}

static const char *copy(struct digest *d, const char *text)
{
    if (text[0] == '\0')
        return "";
    size_t bytes = strlen(text) + 1;
    char *to = take(d, bytes);
    return to ? memcpy(to, text, bytes) : NULL;
}

static bool copy_labels(struct digest *d, struct digest_node *n)
{
    struct snapshot_label *labels = n->n_labels > 0 ? take(d, n->n_labels * sizeof *labels) : NULL;
    if (n->n_labels > 0 && !labels)
        return false;
    for (uint32_t i = 0; i < n->n_labels; i++) {
        labels[i] = (struct snapshot_label){copy(d, n->labels[i].key), copy(d, n->labels[i].value), 0, false};
        if (!labels[i].key || !labels[i].value)
            return false;
    }
    n->labels = labels;
    return true;
}

static bool copy_texts(struct digest *d, struct digest_node *n)
{
    n->name = copy(d, n->name);
    n->target = copy(d, n->target);
    n->file = copy(d, n->file);
    return n->name && n->target && n->file && copy_labels(d, n);
}

/* ---- Keys ---- */

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* Hashes eight bytes at a time, with the NUL at the end. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    uint64_t word;
    size_t n = strlen(text) + 1;
    for (; n >= sizeof word; n -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = hash_word(hash, word);
    }
    word = 0;
    memcpy(&word, text, n);
    return hash_word(hash, word);
}

static uint32_t hash_node(const struct digest_node *n)
{
    uint64_t hash = hash_word(n->line, n->parent);
    hash = hash_text(hash_text(hash_text(hash, n->name), n->target), n->file);
    for (uint32_t i = 0; i < n->n_labels; i++)
        hash = hash_text(hash_text(hash, n->labels[i].key), n->labels[i].value);
    return (uint32_t)hash;
}

static bool is_same(const struct digest_node *a, const struct digest_node *b)
{
    if (a->parent != b->parent || a->line != b->line || a->n_labels != b->n_labels
        || strcmp(a->name, b->name) != 0 || strcmp(a->target, b->target) != 0 || strcmp(a->file, b->file) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_labels; i++)
        if (strcmp(a->labels[i].key, b->labels[i].key) != 0 || strcmp(a->labels[i].value, b->labels[i].value) != 0)
            return false;
    return true;
}

/* ---- The array ---- */

static int reserve(struct digest *d, size_t n)
{
    return array_reserve(&d->nodes, &d->nodes_capacity, n, sizeof *d->nodes);
}

void digest_reserve(struct digest *d, uint32_t n)
{
    reserve(d, n);
    hash_index_reserve(&d->index, n);
}

static bool is_node(const void *owner, uint32_t position, const void *key)
{
    const struct digest *d = owner;
    return is_same(&d->nodes[position], key);
}

uint32_t digest_find(struct digest *d, struct digest_node key)
{
    uint32_t hash = hash_node(&key);
    uint32_t found = hash_index_find(&d->index, hash, is_node, d, &key);
    if (found != HASH_INDEX_NONE)
        return found;
    if (reserve(d, d->n_nodes + (size_t)1) != 0 || !copy_texts(d, &key) || hash_index_add(&d->index, hash, d->n_nodes) != 0)
        return DIGEST_NONE;
    d->nodes[d->n_nodes] = key;
    return d->n_nodes++;
}

uint32_t digest_find_in(struct digest *to, const struct digest *from, uint32_t index, const uint32_t *map)
{
    if (index == DIGEST_ROOT)
        return DIGEST_ROOT;
    struct digest_node key = from->nodes[index];
    key.parent = map[key.parent];
    key.totals = (struct totals){0};
    uint32_t node = digest_find(to, key);
    return node != DIGEST_NONE ? node : key.parent;
}

void digest_free_nodes(struct digest *d)
{
    for (struct digest_chunk *next, *chunk = d->chunks; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(d->nodes);
    hash_index_free(&d->index);
}

bool digest_has_figures(const struct digest_node *n)
{
    return totals_any(&n->totals);
}

uint32_t digest_site_of(const struct digest *d, uint32_t index)
{
    return d->nodes[index].n_labels > 0 ? d->nodes[index].parent : index;
}
