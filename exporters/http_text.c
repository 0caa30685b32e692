/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing text. */
#include "http_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/encode.h"
#include "utf8.h"

void http_text_free(struct http_text *t)
{
    free(t->data);
    *t = (struct http_text){0};
}

static bool reserve(struct http_text *t, size_t bytes)
{
    if (t->failed || bytes <= t->capacity - t->n)
        return !t->failed;
    t->failed = bytes > SIZE_MAX - t->n || array_reserve(&t->data, &t->capacity, t->n + bytes, 1) != 0;
    return !t->failed;
}

void http_text_bytes(struct http_text *t, const void *data, size_t bytes)
{
    if (bytes == 0 || !reserve(t, bytes))
        return;
    memcpy(t->data + t->n, data, bytes);
    t->n += bytes;
}

void http_text_put(struct http_text *t, const char *text)
{
    http_text_bytes(t, text, strlen(text));
}

void http_text_number(struct http_text *t, uint64_t number)
{
    char digits[24];
    http_text_bytes(t, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number));
}

void http_text_seconds(struct http_text *t, uint64_t ns)
{
    char digits[32];
    http_text_bytes(t, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64 ".%09" PRIu64, ns / 1000000000u,
                                                ns % 1000000000u));
}

/* Returns the escape sequence of a one-byte character. NULL: it needs none. */
typedef const char *escape(unsigned char c, char buffer[JSON_ESCAPE_BYTES]);

static const char *escape_label(unsigned char c, char buffer[JSON_ESCAPE_BYTES])
{
    (void)buffer;
    return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : NULL;
}

static void put_quoted(struct http_text *t, const char *text, escape *escape_byte)
{
    char buffer[JSON_ESCAPE_BYTES];
    http_text_bytes(t, "\"", 1);
    while (*text != '\0') {
        size_t bytes = utf8_character(text);
        const char *escaped = bytes == 1 ? escape_byte((unsigned char)*text, buffer) : NULL;
        if (bytes == 0)
            http_text_put(t, UTF8_REPLACEMENT);
        else if (escaped)
            http_text_put(t, escaped);
        else
            http_text_bytes(t, text, bytes);
        text += bytes > 0 ? bytes : 1;
    }
    http_text_bytes(t, "\"", 1);
}

void http_text_json(struct http_text *t, const char *text)
{
    put_quoted(t, text, json_escape);
}

void http_text_label(struct http_text *t, const char *text)
{
    put_quoted(t, text, escape_label);
}

/* ---- JSON ---- */

/* Everything before a value: a comma after another value, and the name. */
static void begin_value(struct http_json *j, const char *name)
{
    http_text_put(j->to, j->has_value ? "," : "");
    http_text_put(j->to, j->new_line ? "\n" : "");
    j->has_value = true;
    j->new_line = false;
    if (name) {
        http_text_json(j->to, name);
        http_text_put(j->to, ":");
    }
}

void http_json_open(struct http_json *j, const char *name, char bracket)
{
    begin_value(j, name);
    http_text_bytes(j->to, &bracket, 1);
    j->has_value = false;
}

void http_json_close(struct http_json *j, char bracket)
{
    http_text_bytes(j->to, &bracket, 1);
    j->has_value = true;
    j->new_line = false;
}

void http_json_number(struct http_json *j, const char *name, uint64_t value)
{
    begin_value(j, name);
    http_text_number(j->to, value);
}

void http_json_seconds(struct http_json *j, const char *name, uint64_t ns)
{
    begin_value(j, name);
    http_text_seconds(j->to, ns);
}

void http_json_string(struct http_json *j, const char *name, const char *value)
{
    begin_value(j, name);
    http_text_json(j->to, value);
}

void http_json_word(struct http_json *j, const char *name, const char *word)
{
    begin_value(j, name);
    http_text_put(j->to, word);
}

void http_json_line(struct http_json *j)
{
    j->new_line = true;
}
