/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing text, with functions that write numbers, and names of any bytes. */
#ifndef JESPAN_HTTP_TEXT_H
#define JESPAN_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_text {
    char *data; /* NULL: nothing yet */
    size_t n, capacity;
    bool failed; /* there was no memory: later parts are missing */
};

void http_text_free(struct http_text *t);

void http_text_bytes(struct http_text *t, const void *data, size_t bytes);
void http_text_put(struct http_text *t, const char *text);
void http_text_number(struct http_text *t, uint64_t number);

/* Writes nanoseconds as seconds with nine decimals. */
void http_text_seconds(struct http_text *t, uint64_t ns);

/* Write a quoted string of JSON (RFC 8259), and a quoted label value of Prometheus. Invalid UTF-8 becomes U+FFFD. */
void http_text_json(struct http_text *t, const char *text);
void http_text_label(struct http_text *t, const char *text);

/* ---- JSON: a writer that adds commas and names (docs/decisions/017-json-by-hand.md) ---- */

struct http_json {
    struct http_text *to;
    bool has_value; /* in the innermost array or object: the next value needs a comma */
    bool new_line;
};

/* `name` is NULL in an array and at the top. `bracket` is '{' or '['; closing takes '}' or ']'. */
void http_json_open(struct http_json *j, const char *name, char bracket);
void http_json_close(struct http_json *j, char bracket);
void http_json_number(struct http_json *j, const char *name, uint64_t value);
void http_json_seconds(struct http_json *j, const char *name, uint64_t ns);
void http_json_string(struct http_json *j, const char *name, const char *value);
void http_json_word(struct http_json *j, const char *name, const char *word); /* true, false or null */

/* The next value begins on a new line. */
void http_json_line(struct http_json *j);

#endif
