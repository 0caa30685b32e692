/* SPDX-License-Identifier: BSD-2-Clause */
/* /spans: contexts with their figures, as JSON. */
#ifndef JESPAN_HTTP_SPANS_H
#define JESPAN_HTTP_SPANS_H

#include "http_answer.h"

#define HTTP_SPANS_DEFAULT_LIMIT 1000u
#define HTTP_SPANS_MAX_LIMIT 100000u

void http_spans_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Writes at most `limit` contexts, those that hold most with their descendants, and the ancestors of these. Returns
 * false if there is no memory. */
bool http_spans_write(struct http_text *to, const struct snapshot *s, uint32_t limit);

#endif
