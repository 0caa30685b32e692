/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoints below /debug/pprof/, as in programs written in Go. */
#ifndef JESPAN_HTTP_PPROF_H
#define JESPAN_HTTP_PPROF_H

#include "http_answer.h"

void http_pprof_heap(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_allocs(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_cpu(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_cmdline(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_symbol(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Frees what is kept between requests for profiles. Accepts NULL. */
void http_pprof_free(struct http_history *history);

#endif
