/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request to its endpoint. To add one, add a row in http_routes.c. */
#ifndef JESPAN_HTTP_ROUTES_H
#define JESPAN_HTTP_ROUTES_H

#include "http_answer.h"

#define HTTP_MAX_SECONDS 3600u

struct http_route {
    const char *path;
    void (*answer)(struct http_source *source, const struct http_request *request, struct http_answer *answer);
    const char *help; /* in the list of endpoints. NULL: not listed */
    bool open;        /* needs no token */
    bool differs;     /* accepts ?seconds=, for the difference over that time */
    unsigned seconds; /* without ?seconds=. 0: no difference */
};

#define HTTP_HOST_BYTES 64 /* a longer host is neither an address nor localhost */

/* Splits a path of the form http://HOST/PATH, where HOST replaces the Host header (RFC 9112, section 3.2.2). `host` has
 * room for the host, and stays valid with the request. */
void http_routes_split_target(struct http_request *request, char host[HTTP_HOST_BYTES]);

/* Returns the endpoint for a request. NULL: `answer` says why there is none. */
const struct http_route *http_routes_find(const struct http_source *source, const struct http_request *request,
                                          struct http_answer *answer);

/* Sets how long the request waits for its answer. 0: not at all. Returns false if the request is wrong, and `answer`
 * says why. */
bool http_routes_seconds(const struct http_route *route, const struct http_request *request, unsigned *seconds,
                         struct http_answer *answer);

/* Whether a Host header (NULL: there is none) is an IP address or localhost. A foreign web page can point its own name
 * at 127.0.0.1 and have a browser read our answers (DNS rebinding). Such requests carry that name. */
bool http_access_host_is_local(const char *host);

/* Whether an Authorization header (NULL: there is none) has the token. A wrong token takes the same time at any
 * byte. */
bool http_access_has_token(const char *authorization, const char *token);

#endif
