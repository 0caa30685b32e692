/* SPDX-License-Identifier: BSD-2-Clause */
/* A text that grows. */
#include "http_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_utf8.h"

#define MIN_ROOM ((size_t)1024)

void http_text_free(struct http_text *t)
{
    free(t->data);
    *t = (struct http_text){0};
}

static bool make_room(struct http_text *t, size_t bytes)
{
    if (t->failed || bytes <= t->room - t->n)
        return !t->failed;
    size_t room = t->room < MIN_ROOM ? MIN_ROOM : t->room;
    while (room - t->n < bytes)
        room *= 2;
    char *larger = realloc(t->data, room);
    if (larger == NULL) {
        t->failed = true;
        return false;
    }
    t->data = larger;
    t->room = room;
    return true;
}

void http_text_bytes(struct http_text *t, const void *data, size_t bytes)
{
    if (bytes == 0 || !make_room(t, bytes))
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

/* What stands for a character of one byte, or NULL: itself. */
typedef const char *escape(unsigned char c, char room[8]);

static const char *escape_json(unsigned char c, char room[8])
{
    if (c == '"')
        return "\\\"";
    if (c == '\\')
        return "\\\\";
    if (c >= ' ' && c != 0x7f)
        return NULL;
    snprintf(room, 8, "\\u%04x", c);
    return room;
}

static const char *escape_label(unsigned char c, char room[8])
{
    (void)room;
    return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : NULL;
}

static void put_quoted(struct http_text *t, const char *text, escape *escape_byte)
{
    char room[8];
    http_text_bytes(t, "\"", 1);
    while (*text != '\0') {
        size_t bytes = pprof_utf8_character(text);
        const char *escaped = bytes == 1 ? escape_byte((unsigned char)*text, room) : NULL;
        if (bytes == 0)
            http_text_put(t, PPROF_UTF8_REPLACEMENT);
        else if (escaped != NULL)
            http_text_put(t, escaped);
        else
            http_text_bytes(t, text, bytes);
        text += bytes > 0 ? bytes : 1;
    }
    http_text_bytes(t, "\"", 1);
}

void http_text_json(struct http_text *t, const char *text)
{
    put_quoted(t, text, escape_json);
}

void http_text_label(struct http_text *t, const char *text)
{
    put_quoted(t, text, escape_label);
}
