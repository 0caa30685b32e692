/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes JSON. */
#include "http_json.h"

#include <stddef.h>

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

void http_json_line(struct http_json *j)
{
    j->new_line = true;
}
