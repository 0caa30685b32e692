/* SPDX-License-Identifier: BSD-2-Clause */
/* What a caller asks for, and what it gets: what the endpoints of the service `http` work on, without any socket. */
#ifndef JESPAN_HTTP_ANSWER_H
#define JESPAN_HTTP_ANSWER_H

#include <stdbool.h>

#include "http_start.h"
#include "http_text.h"
#include "report/service.h"

/* Where answers come from. */
struct http_source {
    const struct service_host *host;
    bool local;                  /* no other machine reaches us */
    struct snapshot *latest;     /* its memory is used again */
    struct http_series_set *series; /* NULL: not asked for yet */
    struct http_history *history;   /* the same, of profiles */
};

/* NULL: the request has none. */
struct http_request {
    const char *method, *path;
    const char *host, *authorization, *accept; /* headers */
    const char *seconds, *format, *limit, *labels; /* of the query */
    bool has_body, has_hosts; /* a body; more than one Host header */
    const struct http_start *start; /* made ?seconds= ago; NULL: what is wanted is no difference */
};

struct http_answer {
    unsigned status; /* 0: not known yet */
    const char *type; /* Content-Type */
    const char *file; /* name for saving it; NULL: it is to be shown */
    bool is_page;     /* `nonce` is that of its script and style */
    char nonce[33];
    struct http_text body;
};

/* A snapshot of this moment, valid until the next. NULL: there is no memory, which is the answer. */
const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer);

/* A line of plain text. */
void http_answer_line(struct http_answer *answer, unsigned status, const char *line);

#define HTTP_TYPE_TEXT "text/plain; charset=utf-8"

#endif
