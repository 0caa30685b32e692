/* SPDX-License-Identifier: BSD-2-Clause */
/* /arenas: the span arenas with their figures, and the same for /metrics. */
#ifndef JESPAN_HTTP_ARENAS_H
#define JESPAN_HTTP_ARENAS_H

#include "http_answer.h"

/* A table for people. With ?format=json, JSON for programs. */
void http_arenas_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* In Prometheus's text format. Writes nothing if there is no arena. */
void http_arenas_write_metrics(struct http_text *to, const struct service_host *host);

#endif
