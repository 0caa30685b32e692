/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that a request is about: ?pid=, and /processes. The sidecar serves several. */
#ifndef JESPAN_HTTP_PROCESSES_H
#define JESPAN_HTTP_PROCESSES_H

#include "http_answer.h"

/* Returns the source of the request's process, which is `all` or follows it. Without ?pid= that is the first process.
 * NULL: `answer` says why there is none. */
struct http_source *http_processes_choose(struct http_source *all, const struct http_request *request,
                                          struct http_answer *answer);

/* Frees what the sources hold. */
void http_processes_free(struct http_source *all);

/* /processes: the processes that are served, as JSON. */
void http_processes_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

#endif
