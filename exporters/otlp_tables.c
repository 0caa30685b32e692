/* SPDX-License-Identifier: BSD-2-Clause */
/* The dictionary of an OTLP request. */
#include "otlp_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "otlp.pb-c.h"
#include "utf8.h"

#define SITES_MAPPING 1 /* spans are no code, so their locations have no address */

int otlp_pack(struct push_buffer *to, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (array_reserve(&to->data, &to->capacity, to->bytes + bytes, 1))
        return -ENOMEM;
    to->bytes += protobuf_c_message_pack(message, to->data + to->bytes);
    return 0;
}

static void fail(struct otlp_tables *t, int error)
{
    if (!t->error)
        t->error = error;
}

static void pack_part(struct otlp_tables *t, const Jespan__Otlp__ProfilesDictionary *part)
{
    fail(t, otlp_pack(&t->packed, &part->base));
}

/* ---- A table ---- */

struct key {
    const void *data;
    size_t bytes;
};

static bool is_same(const void *owner, uint32_t position, const void *wanted)
{
    const struct otlp_table *table = owner;
    const struct key *key = wanted;
    const struct otlp_entry *entry = &table->entries[position];
    return entry->bytes == key->bytes && (key->bytes == 0 || memcmp(table->contents.data + entry->at, key->data, key->bytes) == 0);
}

/* Finds an entry or adds it. Returns whether it is new. Without memory it is not, and its index is 0. */
static bool add(struct otlp_tables *t, struct otlp_table *table, const void *data, size_t bytes, int32_t *index)
{
    const struct key key = {data, bytes};
    uint32_t hash = hash_fold(hash_bytes(HASH_START, data, bytes));
    *index = 0;
    if (t->error)
        return false;
    uint32_t found = hash_index_find(&table->index, hash, is_same, table, &key);
    if (found != HASH_INDEX_NONE) {
        *index = (int32_t)found;
        return false;
    }
    fail(t, array_reserve(&table->entries, &table->capacity, table->n + 1, sizeof *table->entries));
    if (!t->error) {
        table->entries[table->n] = (struct otlp_entry){table->contents.bytes, bytes};
        fail(t, push_buffer_append(&table->contents.sink, data, bytes));
    }
    if (!t->error)
        fail(t, hash_index_add(&table->index, hash, (uint32_t)table->n));
    if (t->error)
        return false;
    *index = (int32_t)table->n++;
    return true;
}

static void free_table(struct otlp_table *table)
{
    hash_index_free(&table->index);
    free(table->entries);
    free(table->contents.data);
}

/* ---- The tables ---- */

int32_t otlp_string(struct otlp_tables *t, const char *text)
{
    int32_t index;
    char *clean = utf8_valid(text) ? NULL : utf8_clean(text), *entry = clean ? clean : (char *)text; /* protobuf-c only reads */
    if (!clean && !utf8_valid(text))
        fail(t, -ENOMEM);
    if (add(t, &t->strings, entry, strlen(entry), &index)) {
        Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
        part.n_string_table = 1;
        part.string_table = &entry;
        pack_part(t, &part);
    }
    free(clean);
    return index;
}

/* "target::name", as in pprof. 0 without a target. */
static int32_t system_name(struct otlp_tables *t, const char *name, const char *target)
{
    char *text;
    if (target[0] == '\0')
        return 0;
    if (asprintf(&text, "%s::%s", target, name) < 0) {
        fail(t, -ENOMEM);
        return 0;
    }
    int32_t index = otlp_string(t, text);
    free(text);
    return index;
}

/* A location has one function, and both have the same index. */
int32_t otlp_location(struct otlp_tables *t, const char *name, const char *target, const char *file, uint32_t line)
{
    int32_t index;
    if (name[0] == '\0')
        name = "(unnamed)";
    const int32_t key[] = {otlp_string(t, name), system_name(t, name, target), otlp_string(t, file), (int32_t)line};
    if (!add(t, &t->functions, key, sizeof key, &index))
        return index;
    Jespan__Otlp__Function function = JESPAN__OTLP__FUNCTION__INIT, *functions = &function;
    function.name_strindex = key[0];
    function.system_name_strindex = key[1];
    function.filename_strindex = key[2];
    function.start_line = line;
    Jespan__Otlp__Line at = JESPAN__OTLP__LINE__INIT, *lines = &at;
    at.function_index = index;
    at.line = line;
    Jespan__Otlp__Location location = JESPAN__OTLP__LOCATION__INIT, *locations = &location;
    location.mapping_index = SITES_MAPPING;
    location.n_lines = 1;
    location.lines = &lines;
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_function_table = part.n_location_table = 1;
    part.function_table = &functions;
    part.location_table = &locations;
    pack_part(t, &part);
    return index;
}

int32_t otlp_stack(struct otlp_tables *t, const int32_t *locations, size_t n)
{
    int32_t index;
    if (!add(t, &t->stacks, locations, n * sizeof *locations, &index))
        return index;
    Jespan__Otlp__Stack stack = JESPAN__OTLP__STACK__INIT, *stacks = &stack;
    stack.n_location_indices = n;
    stack.location_indices = (int32_t *)locations;
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_stack_table = 1;
    part.stack_table = &stacks;
    pack_part(t, &part);
    return index;
}

int32_t otlp_attribute(struct otlp_tables *t, const char *key, const char *value)
{
    int32_t index;
    const int32_t pair[] = {otlp_string(t, key), otlp_string(t, value)};
    if (!add(t, &t->attributes, pair, sizeof pair, &index))
        return index;
    char *clean = utf8_clean(value);
    if (!clean) {
        fail(t, -ENOMEM);
        return 0;
    }
    Jespan__Otlp__AnyValue any = JESPAN__OTLP__ANY_VALUE__INIT;
    any.value_case = JESPAN__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
    any.string_value = clean;
    Jespan__Otlp__KeyValueAndUnit attribute = JESPAN__OTLP__KEY_VALUE_AND_UNIT__INIT, *attributes = &attribute;
    attribute.key_strindex = pair[0];
    attribute.value = &any;
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_attribute_table = 1;
    part.attribute_table = &attributes;
    pack_part(t, &part);
    free(clean);
    return index;
}

#define TRACE_ID_BYTES 16
#define SPAN_ID_BYTES 8

static void read_id(uint8_t *to, const char *digits, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char two[] = {digits[2 * i], digits[2 * i + 1], '\0'};
        to[i] = (uint8_t)strtoul(two, NULL, 16);
    }
}

static void pack_link(struct otlp_tables *t, uint8_t ids[TRACE_ID_BYTES + SPAN_ID_BYTES])
{
    Jespan__Otlp__Link link = JESPAN__OTLP__LINK__INIT, *links = &link;
    link.trace_id = (ProtobufCBinaryData){TRACE_ID_BYTES, ids};
    link.span_id = (ProtobufCBinaryData){SPAN_ID_BYTES, ids + TRACE_ID_BYTES};
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_link_table = 1;
    part.link_table = &links;
    pack_part(t, &part);
}

int32_t otlp_link(struct otlp_tables *t, const char *trace_id, const char *span_id)
{
    int32_t index;
    uint8_t ids[TRACE_ID_BYTES + SPAN_ID_BYTES];
    read_id(ids, trace_id, TRACE_ID_BYTES);
    read_id(ids + TRACE_ID_BYTES, span_id, SPAN_ID_BYTES);
    if (add(t, &t->links, ids, sizeof ids, &index))
        pack_link(t, ids);
    return index;
}

/* ---- The empty entries ---- */

static void pack_empty(struct otlp_tables *t)
{
    Jespan__Otlp__Mapping mapping = JESPAN__OTLP__MAPPING__INIT, *mappings = &mapping;
    Jespan__Otlp__Location location = JESPAN__OTLP__LOCATION__INIT, *locations = &location;
    Jespan__Otlp__Function function = JESPAN__OTLP__FUNCTION__INIT, *functions = &function;
    Jespan__Otlp__KeyValueAndUnit attribute = JESPAN__OTLP__KEY_VALUE_AND_UNIT__INIT, *attributes = &attribute;
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_mapping_table = part.n_location_table = part.n_function_table = part.n_attribute_table = 1;
    part.mapping_table = &mappings;
    part.location_table = &locations;
    part.function_table = &functions;
    part.attribute_table = &attributes;
    pack_part(t, &part);
}

/* A name in brackets is no file, so that nobody looks for one. */
static void pack_sites_mapping(struct otlp_tables *t)
{
    Jespan__Otlp__Mapping mapping = JESPAN__OTLP__MAPPING__INIT, *mappings = &mapping;
    mapping.filename_strindex = otlp_string(t, "[jespan]");
    Jespan__Otlp__ProfilesDictionary part = JESPAN__OTLP__PROFILES_DICTIONARY__INIT;
    part.n_mapping_table = 1;
    part.mapping_table = &mappings;
    pack_part(t, &part);
}

void otlp_tables_begin(struct otlp_tables *t)
{
    int32_t none;
    struct otlp_table *const all[] = {&t->strings, &t->functions, &t->stacks, &t->attributes, &t->links};
    uint8_t no_ids[TRACE_ID_BYTES + SPAN_ID_BYTES] = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i]->contents.sink.write = push_buffer_append;
    otlp_string(t, "");
    otlp_stack(t, NULL, 0);
    pack_empty(t);
    add(t, &t->functions, "", 0, &none);
    add(t, &t->attributes, "", 0, &none);
    if (add(t, &t->links, no_ids, sizeof no_ids, &none)) /* so all-zero ids are no link */
        pack_link(t, no_ids);
    pack_sites_mapping(t);
}

void otlp_tables_free(struct otlp_tables *t)
{
    free_table(&t->strings);
    free_table(&t->functions);
    free_table(&t->stacks);
    free_table(&t->attributes);
    free_table(&t->links);
    free(t->packed.data);
}
