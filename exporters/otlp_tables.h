/* SPDX-License-Identifier: BSD-2-Clause */
/* The dictionary of an OTLP request: tables of strings, locations, stacks, attributes and links.
 *
 * Each entry is packed when it is first needed. A table finds an entry by its contents, so no entry occurs twice, and
 * the same figures give the same bytes. Entry 0 is empty. */
#ifndef JESPAN_OTLP_TABLES_H
#define JESPAN_OTLP_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "hash_index.h"
#include "push_request.h"

/* The contents of entries, one after the other. */
struct otlp_table {
    struct hash_index index;
    struct otlp_entry {
        size_t at, bytes;
    } *entries;
    size_t n, capacity;
    struct push_buffer contents;
};

struct otlp_tables {
    struct push_buffer packed; /* of ProfilesDictionary */
    struct otlp_table strings, functions, stacks, attributes, links;
    int error; /* the first one: 0 or -ENOMEM. Later calls do nothing then */
};

/* Begins with the empty entries. `tables` is zeroed. */
void otlp_tables_begin(struct otlp_tables *tables);
void otlp_tables_free(struct otlp_tables *tables);

/* Each returns the index of an entry. Invalid UTF-8 becomes U+FFFD. */
int32_t otlp_string(struct otlp_tables *tables, const char *text);

/* A location: a function with its line. `target` may be "". */
int32_t otlp_location(struct otlp_tables *tables, const char *name, const char *target, const char *file, uint32_t line);

/* The innermost location comes first. */
int32_t otlp_stack(struct otlp_tables *tables, const int32_t *locations, size_t n);

int32_t otlp_attribute(struct otlp_tables *tables, const char *key, const char *value);

/* The ids are 32 and 16 hexadecimal digits. */
int32_t otlp_link(struct otlp_tables *tables, const char *trace_id, const char *span_id);

/* Appends a packed message. Returns 0 or -ENOMEM. */
int otlp_pack(struct push_buffer *to, const ProtobufCMessage *message);

#endif
