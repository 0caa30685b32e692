/* SPDX-License-Identifier: BSD-2-Clause */
/* The string table of a profile. */
#include "pprof_parts.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "exporter_memory.h"
#include "profile.pb-c.h"
#include "utf8.h"

static void write_entry(struct pprof_strings *strings, const char *text)
{
    char *clean = NULL;
    if (!utf8_valid(text)) {
        clean = exporter_memory_take(strings->index.memory, 1, utf8_clean_bytes(text));
        if (!clean) {
            pprof_out_fail(strings->out, -ENOMEM);
            return;
        }
        utf8_clean_into(clean, text);
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
    hash_index_free(&strings->index);
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
    uint32_t hash = hash_fold(hash_bytes(HASH_START, text, strlen(text)));
    uint32_t position = hash_index_find(&strings->index, hash, is_text, strings, text);
    if (position != HASH_INDEX_NONE)
        return position;
    int error = hash_index_add(&strings->index, hash, strings->n);
    if (error) {
        pprof_out_fail(strings->out, error);
        return 0;
    }
    return pprof_strings_append(strings, text);
}
