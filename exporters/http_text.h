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

#endif
