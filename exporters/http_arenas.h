/* SPDX-License-Identifier: BSD-2-Clause */
/* /arenas: which span arenas there are, how big, how much of them is used; and the same for /metrics. */
#ifndef JESPAN_HTTP_ARENAS_H
#define JESPAN_HTTP_ARENAS_H

#include "http_answer.h"

/* A table for people, or with ?format=json for programs. */
void http_arenas_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* In Prometheus's text format; nothing where there is no arena. */
void http_arenas_write_metrics(struct http_text *to, const struct service_host *host);

#endif
