/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request to its endpoint. Adding one is a row in http_routes.c. */
#ifndef JESPAN_HTTP_ROUTES_H
#define JESPAN_HTTP_ROUTES_H

#include "http_answer.h"

#define HTTP_MAX_SECONDS 3600u

struct http_route {
    const char *path;
    void (*answer)(struct http_source *source, const struct http_request *request, struct http_answer *answer);
    const char *help; /* in the list of endpoints; NULL: not there */
    bool open;        /* to all, without a token */
    bool differs;     /* with ?seconds=, tells what came in that time */
    unsigned seconds; /* where the request does not say; 0: nobody waits */
};

/* The endpoint that is to answer, or NULL: `answer` says why there is none. */
const struct http_route *http_routes_find(const struct http_source *source, const struct http_request *request,
                                          struct http_answer *answer);

/* How long the request wants to wait for its answer, 0: not at all. Returns false where `answer` says what is wrong. */
bool http_routes_seconds(const struct http_route *route, const struct http_request *request, unsigned *seconds,
                         struct http_answer *answer);

#endif
