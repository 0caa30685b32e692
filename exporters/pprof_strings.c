/* SPDX-License-Identifier: BSD-2-Clause */
/* The string table of a profile, and the hash index that it uses. */
#include "pprof_strings.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "exporter_memory.h"
#include "pprof_utf8.h"
#include "profile.pb-c.h"

/* ---- The hash index: open addressing, linear probing, doubled when three quarters full ---- */

#define FIRST_BUCKETS 256u

struct pprof_index_bucket {
    uint32_t hash;
    uint32_t position_plus_1; /* 0: free */
};

static struct pprof_index_bucket *first_free(struct pprof_index_bucket *buckets, uint32_t n_buckets, uint32_t hash)
{
    uint32_t i = hash & (n_buckets - 1);
    while (buckets[i].position_plus_1 != 0)
        i = (i + 1) & (n_buckets - 1);
    return &buckets[i];
}

static int grow(struct pprof_index *index)
{
    uint32_t n_buckets = index->n_buckets == 0 ? FIRST_BUCKETS : index->n_buckets * 2;
    struct pprof_index_bucket *buckets = n_buckets == 0 ? NULL : exporter_memory_take(index->memory, n_buckets, sizeof *buckets);
    if (!buckets)
        return -ENOMEM;
    for (uint32_t i = 0; i < index->n_buckets; i++)
        if (index->buckets[i].position_plus_1 != 0)
            *first_free(buckets, n_buckets, index->buckets[i].hash) = index->buckets[i];
    exporter_memory_give(index->memory, index->buckets);
    index->buckets = buckets;
    index->n_buckets = n_buckets;
    return 0;
}

int pprof_index_intern(struct pprof_index *index, uint32_t hash, pprof_index_same *same, const void *owner,
                       const void *key, uint32_t next, uint32_t *position)
{
    if (index->n_used >= index->n_buckets / 4 * 3 && grow(index) != 0)
        return -ENOMEM;
    uint32_t i = hash & (index->n_buckets - 1);
    for (; index->buckets[i].position_plus_1 != 0; i = (i + 1) & (index->n_buckets - 1)) {
        *position = index->buckets[i].position_plus_1 - 1;
        if (index->buckets[i].hash == hash && same(owner, *position, key))
            return 0;
    }
    index->buckets[i] = (struct pprof_index_bucket){hash, next + 1};
    index->n_used++;
    *position = next;
    return 1;
}

void pprof_index_free(struct pprof_index *index)
{
    exporter_memory_give(index->memory, index->buckets);
}

/* ---- The string table ---- */

static void write_entry(struct pprof_strings *strings, const char *text)
{
    char *clean = NULL;
    if (!pprof_utf8_valid(text)) {
        clean = exporter_memory_take(strings->index.memory, 1, pprof_utf8_clean_bytes(text));
        if (!clean) {
            pprof_out_fail(strings->out, -ENOMEM);
            return;
        }
        pprof_utf8_clean_into(clean, text);
    }
    char *entry = clean ? clean : (char *)text; /* protobuf-c takes no const, but only reads */
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_string_table = 1;
    part.string_table = &entry;
    pprof_out_message(strings->out, &part.base);
    exporter_memory_give(strings->index.memory, clean);
}

static int reserve(struct pprof_strings *strings)
{
    if (strings->n < strings->capacity)
        return 0;
    uint32_t capacity = strings->capacity == 0 ? 256 : strings->capacity * 2;
    const char **items =
        capacity == 0 ? NULL : exporter_memory_grow(strings->index.memory, strings->items,
                                                 strings->capacity * sizeof *items, capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    strings->items = items;
    strings->capacity = capacity;
    return 0;
}

int64_t pprof_strings_append(struct pprof_strings *strings, const char *text)
{
    if (reserve(strings) != 0) {
        pprof_out_fail(strings->out, -ENOMEM);
        return 0;
    }
    strings->items[strings->n] = text;
    write_entry(strings, text);
    return strings->n++;
}

void pprof_strings_init(struct pprof_strings *strings, struct pprof_out *out)
{
    memset(strings, 0, sizeof *strings);
    strings->out = out;
    strings->index.memory = out->sink->memory;
    pprof_strings_append(strings, "");
}

void pprof_strings_free(struct pprof_strings *strings)
{
    pprof_index_free(&strings->index);
    exporter_memory_give(strings->index.memory, strings->items);
}

static bool is_text(const void *owner, uint32_t position, const void *key)
{
    const struct pprof_strings *strings = owner;
    return strcmp(strings->items[position], key) == 0;
}

int64_t pprof_strings_intern(struct pprof_strings *strings, const char *text)
{
    if (text[0] == '\0' || strings->out->error != 0)
        return 0;
    uint32_t position = 0;
    uint32_t hash = hash_fold(hash_bytes(HASH_START, text, strlen(text)));
    int added = pprof_index_intern(&strings->index, hash, is_text, strings, text, strings->n, &position);
    if (added < 0)
        pprof_out_fail(strings->out, added);
    return added == 1 ? pprof_strings_append(strings, text) : position;
}
