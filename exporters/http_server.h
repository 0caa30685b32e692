/* SPDX-License-Identifier: BSD-2-Clause */
/* The service's connections: one request each, in limits of number, memory and time, whatever callers do.
 *
 * libmicrohttpd reads and writes when the loop (http.c) calls it; there is no other thread. A request that is to wait
 * (?seconds=) is suspended until the loop resumes it.
 */
#ifndef JESPAN_HTTP_SERVER_H
#define JESPAN_HTTP_SERVER_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http_listen.h"
#include "http_routes.h"

#define HTTP_MAX_CONNECTIONS 64
#define HTTP_MAX_WAITING 8

struct http_connection {
    struct MHD_Connection *mhd; /* NULL: the place is free */
    int fd;
    uint64_t since_ns, deadline_ns;  /* then it is closed, or answered when it waits */
    const struct http_route *route; /* of one that waits, or has waited */
    unsigned seconds;               /* for which it is to wait */
    struct http_start *start;       /* what it differs from then; perhaps others' too */
    bool waiting, answered;
    bool displaced;   /* another caller gets its place among those that wait */
    bool half_closed; /* the caller will say nothing more, or is gone: only the kernel may find out which */
    bool gone;        /* of one that waits: the caller is gone; else: it will say nothing more. Set by the loop */
    size_t body_bytes;
};

struct http_server {
    struct http_source source;
    struct http_listener listener;
    struct MHD_Daemon *daemon;
    bool stopping;
    bool lost; /* the program has closed all descriptors */
    unsigned n_connections, n_waiting;
    size_t body_bytes;  /* of answers on their way */
    size_t start_bytes; /* of what those differ from that wait */
    uint64_t accept_after_ns;
    struct http_connection connections[HTTP_MAX_CONNECTIONS];
};

uint64_t http_server_now_ns(void);

/* Returns 0 or a negative errno. The listener is open. */
int http_server_start(struct http_server *server);

/* Takes what waits to be connected. */
void http_server_accept(struct http_server *server);

/* Whether it matters that the caller goes away: libmicrohttpd does not notice while a request is suspended or unfinished.
 * Sets what to poll for; http_server_heard() gets what poll() found. */
bool http_server_is_heard(const struct http_connection *c, short *events);
void http_server_heard(struct http_connection *c, short events);

/* When http_server_tend() has something to do next. */
uint64_t http_server_next_ns(const struct http_server *server);

/* Reads and writes; resumes and closes what it is time for. */
void http_server_tend(struct http_server *server);

/* Has those that wait answered with 503, and closes the rest. */
void http_server_stop(struct http_server *server, uint64_t until_ns);

#endif
