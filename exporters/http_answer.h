/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and answers of the service `http`, without any socket. The endpoints work on these. */
#ifndef JESPAN_HTTP_ANSWER_H
#define JESPAN_HTTP_ANSWER_H

#include <stdbool.h>

#include "http_start.h"
#include "http_text.h"
#include "report/service.h"

/* The data that answers are made from. */
struct http_source {
    const struct service_host *host;
    bool local;                  /* no other machine can connect */
    pid_t pid;                   /* of the process that it shows */
    const struct program *program; /* of the latest snapshot */
    struct http_source *next;    /* those of other processes (http_processes.h) */
    struct snapshot *latest;     /* the next snapshot reuses its memory */
    struct http_series_set *series; /* NULL: no request for /metrics yet */
    struct http_history *history;   /* NULL: no request for a profile yet */
};

/* NULL: the request does not have that header or argument. */
struct http_request {
    const char *method, *path;
    const char *host, *authorization, *accept; /* headers */
    const char *seconds, *format, *limit, *labels, *pid; /* of the query */
    bool has_body, has_hosts; /* has_hosts: more than one Host header */
    const struct http_start *start; /* figures of ?seconds= ago. NULL: the request asks for no difference */
};

struct http_answer {
    unsigned status; /* 0: not known yet */
    const char *type; /* Content-Type */
    const char *file; /* name under which a browser saves it. NULL: it shows it */
    bool is_page;     /* HTML, whose script and style have `nonce` */
    char nonce[33];
    struct http_text body;
};

/* A new snapshot, valid until the next. NULL: no memory, and `answer` says so. */
const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer);

/* Makes the answer a line of plain text. */
void http_answer_line(struct http_answer *answer, unsigned status, const char *line);

#define HTTP_TYPE_TEXT "text/plain; charset=utf-8"

#endif
