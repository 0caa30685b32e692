/* SPDX-License-Identifier: BSD-2-Clause */
/* /metrics, in Prometheus's text format 0.0.4. */
#ifndef JESPAN_HTTP_METRICS_H
#define JESPAN_HTTP_METRICS_H

#include "http_answer.h"
#include "http_series.h"

void http_metrics_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Writes the figures by span. */
void http_metrics_write_series(struct http_text *to, const struct http_series_set *set);

#endif
