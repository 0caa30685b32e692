/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections of the service. Each has one request. Their number, memory and time are bounded, whatever clients
 * do.
 *
 * libmicrohttpd reads and writes when the loop (http.c) calls it. There is no other thread. A request that waits
 * (?seconds=) is suspended until the loop resumes it.
 */
#ifndef JESPAN_HTTP_SERVER_H
#define JESPAN_HTTP_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http_answer.h"
#include "http_listen.h"

#define HTTP_MAX_CONNECTIONS 64
#define HTTP_MAX_WAITING 8
#define HTTP_ANSWER_NS 60000000000ull /* a client must read the answer in this time */

struct http_connection {
    struct MHD_Connection *mhd; /* NULL: this entry is free */
    int fd;
    uint64_t since_ns, deadline_ns; /* at the deadline it is closed, or answered if it waits */
    const struct http_route *route; /* set once it waits */
    unsigned seconds;               /* how long it waits */
    struct http_start *start;       /* figures when it began to wait; may be shared */
    bool waiting, answered;
    bool has_nul; /* the URL has a NUL, where libmicrohttpd ends it */
    bool displaced;   /* it waits no longer, because another request takes its place */
    bool half_closed; /* the client sends nothing more, and may be gone */
    bool gone;        /* if it waits: the client is gone; else: the client sends nothing more. Set by the loop */
    size_t body_bytes;
};

struct http_server {
    struct http_source source;
    struct http_listener listener;
    struct MHD_Daemon *daemon;
    bool stopping;
    bool lost; /* the program has closed our descriptors */
    unsigned n_connections, n_waiting;
    size_t body_bytes;  /* of unsent answers */
    size_t start_bytes; /* of all starts */
    uint64_t accept_after_ns, sample_at_ns;
    struct http_connection connections[HTTP_MAX_CONNECTIONS];
};

uint64_t http_server_now_ns(void);

static inline struct http_connection *http_server_connections_end(struct http_server *server)
{
    return server->connections + HTTP_MAX_CONNECTIONS;
}

/* Adds to a figure of struct http_stats. */
static inline void http_server_count(_Atomic uint64_t *stat, uint64_t n)
{
    atomic_fetch_add_explicit(stat, n, memory_order_relaxed);
}

/* The listener is open. Returns 0 or a negative errno. */
int http_server_start(struct http_server *server);

/* Whether libmicrohttpd's epoll set still has its number. It aborts the program if it closes one that it does not
 * have. Some programs close a descriptor twice, as bash does, and the second time the number may be ours. */
bool http_server_has_epoll(const struct http_server *server);

/* Accepts waiting connections. */
void http_server_accept(struct http_server *server);

/* Whether the loop must watch the connection: libmicrohttpd does not notice that a client goes while its request is
 * suspended or unfinished. Sets the events to poll for. http_server_note_events() gets the events that poll() found. */
bool http_server_is_watched(const struct http_connection *c, short *events);
void http_server_note_events(struct http_connection *c, short events);

/* Has the kernel check whether the client is still there. After a minute without an answer the connection ends. */
void http_server_watch_half_closed(struct http_connection *c);

/* When http_server_tend() must be called next. */
uint64_t http_server_next_ns(const struct http_server *server);

/* Reads and writes. Resumes waiting requests and closes connections whose time is over. */
void http_server_tend(struct http_server *server);

/* Answers waiting requests with 503 and closes the other connections. */
void http_server_stop(struct http_server *server, uint64_t until_ns);

/* ---- From the head of a request to its answer: http_request.c. libmicrohttpd calls the first two functions ---- */

/* Called when the first line of a request is there. libmicrohttpd closes a connection with too many arguments without
 * an answer, because it has no memory for them. So this function answers first. */
void *http_request_look_at_uri(void *server, const char *uri, struct MHD_Connection *mhd);

/* Called when the head of a request is complete, again if that gave no answer, and again when it is resumed. Bodies
 * are not read. */
enum MHD_Result http_request_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                                    const char *version, const char *upload, size_t *upload_bytes, void **request_place);

/* The request of the connection no longer needs the start of its difference. */
void http_request_drop_start(struct http_server *server, struct http_connection *c);

#endif
