/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes JSON (RFC 8259) into a growing text: commas, names and brackets. docs/decisions/017-json-by-hand.md says why
 * this is no library.
 */
#ifndef JESPAN_HTTP_JSON_H
#define JESPAN_HTTP_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "http_text.h"

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

/* The next value begins on a new line. */
void http_json_line(struct http_json *j);

#endif
