/* SPDX-License-Identifier: BSD-2-Clause */
/* A text that grows, and how names that may hold any bytes are written into it. */
#ifndef JESPAN_HTTP_TEXT_H
#define JESPAN_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_text {
    char *data; /* NULL: nothing yet */
    size_t n, room;
    bool failed; /* there was no memory: what came since is missing */
};

void http_text_free(struct http_text *t);

void http_text_bytes(struct http_text *t, const void *data, size_t bytes);
void http_text_put(struct http_text *t, const char *text);
void http_text_number(struct http_text *t, uint64_t number);

/* Nanoseconds, as seconds with nine decimals. */
void http_text_seconds(struct http_text *t, uint64_t ns);

/* In quotes, as a string of JSON (RFC 8259), and as the value of a label of Prometheus. In both, bytes that are not
 * UTF-8 are replaced by U+FFFD. */
void http_text_json(struct http_text *t, const char *text);
void http_text_label(struct http_text *t, const char *text);

#endif
