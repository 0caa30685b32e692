/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads JSON in place: texts lose their escapes where they are. Whatever the bytes are, a reading ends: after the first
 * mistake, `failed` is set, texts are empty, numbers 0, and lists at their end.
 *
 *     json_open(&j, '{');
 *     for (const char *key; (key = json_key(&j));)
 *         if (strcmp(key, "bytes") == 0)
 *             bytes = json_number(&j);
 *         else
 *             json_skip(&j);
 */
#ifndef JESPAN_TOP_JSON_H
#define JESPAN_TOP_JSON_H

#include <stdbool.h>
#include <stdint.h>

struct json {
    char *at, *end;
    unsigned depth; /* of json_skip() */
    bool failed;
};

/* The value is an object or a list: '{' or '['. */
void json_open(struct json *j, char bracket);

/* The key of the next member of an object; its value is to be read. NULL: the object is at its end. */
const char *json_key(struct json *j);

/* Whether the list has another item, which is to be read. */
bool json_item(struct json *j);

/* The value is a text, which stays valid as long as the bytes do. */
const char *json_text(struct json *j);

/* The value is a number. Negative numbers are 0; fractions are cut off. */
uint64_t json_number(struct json *j);

/* Whether the value, which may be any, is the word true. */
bool json_true(struct json *j);

/* Any value. */
void json_skip(struct json *j);

#endif
