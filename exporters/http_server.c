/* SPDX-License-Identifier: BSD-2-Clause */
/* The service's connections. */
#include "http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "../src/descriptor.h"
#include "http_series.h"

#define SECOND_NS 1000000000u
#define REQUEST_NS (10ull * SECOND_NS)        /* for a caller to send its request */
#define CROWDED_REQUEST_NS (1ull * SECOND_NS) /* the same when there is room for nobody else */
#define ANSWER_NS (60ull * SECOND_NS)         /* to read the answer */
#define ACCEPT_PAUSE_NS (SECOND_NS / 10)      /* after there was no descriptor for a connection */
#define MEMORY_BYTES ((size_t)32 * 1024)      /* of a connection: what a request's head may have */
#define MAX_BODY_BYTES ((size_t)64 << 20)     /* of answers on their way; one may be larger */

static const char page_policy[] = "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

uint64_t http_server_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

#define EACH(c, server)                                                                                                \
    (struct http_connection *c = (server)->connections; c < (server)->connections + HTTP_MAX_CONNECTIONS; c++)

/* ---- Connections come and go ---- */

static void count(_Atomic uint64_t *stat, uint64_t n)
{
    atomic_fetch_add_explicit(stat, n, memory_order_relaxed);
}

static void opened(struct http_server *server, struct MHD_Connection *mhd, void **place)
{
    for EACH(c, server)
        if (c->mhd == NULL) {
            uint64_t now = http_server_now_ns();
            int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
            *c = (struct http_connection){.mhd = mhd, .fd = fd, .since_ns = now, .deadline_ns = now + REQUEST_NS};
            *place = c;
            server->n_connections++;
            return;
        }
}

static void closed(struct http_server *server, struct http_connection *c)
{
    server->source.host->free_snapshot(c->start);
    server->body_bytes -= c->body_bytes;
    if (!c->answered)
        count(&server->source.host->http->errors, 1);
    server->n_connections--;
    *c = (struct http_connection){0};
}

static void notify(void *cls, struct MHD_Connection *mhd, void **place, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(cls, mhd, place);
    else if (*place != NULL)
        closed(cls, *place);
}

void http_server_accept(struct http_server *server)
{
    struct sockaddr_storage peer;
    socklen_t bytes;
    for (unsigned room = HTTP_MAX_CONNECTIONS - server->n_connections; room > 0; room--) {
        int fd = http_listen_accept(&server->listener, &peer, &bytes);
        if (fd >= 0)
            MHD_add_connection(server->daemon, fd, (struct sockaddr *)&peer, bytes);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            server->accept_after_ns = http_server_now_ns() + ACCEPT_PAUSE_NS;
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            break;
    }
}

/* ---- Answers ---- */

static void add_headers(struct MHD_Response *response, const struct http_answer *answer)
{
    char text[sizeof page_policy + 2 * sizeof answer->nonce];
    MHD_add_response_header(response, "Content-Type", answer->type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Connection", "close");
    snprintf(text, sizeof text, answer->is_page ? page_policy : "default-src 'none'; frame-ancestors 'none'",
             answer->nonce, answer->nonce);
    MHD_add_response_header(response, "Content-Security-Policy", text);
    if (answer->file != NULL) {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"", answer->file);
        MHD_add_response_header(response, "Content-Disposition", text);
    }
    if (answer->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"jespan\"");
    if (answer->status == 405)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
}

/* What is answered does not keep the connection, so there is one request to each. */
static enum MHD_Result send_answer(struct http_server *server, struct http_connection *c, struct http_answer *answer)
{
    struct http_stats *stats = server->source.host->http;
    if (answer->body.failed || (server->body_bytes > 0 && server->body_bytes + answer->body.n > MAX_BODY_BYTES))
        http_answer_line(answer, 503, "there is no room for the answer now");
    size_t bytes = answer->body.n;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, answer->body.data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        http_text_free(&answer->body);
        return MHD_NO;
    }
    add_headers(response, answer);
    enum MHD_Result queued = MHD_queue_response(c->mhd, answer->status, response);
    MHD_destroy_response(response);
    if (queued != MHD_YES)
        return MHD_NO;
    c->answered = true;
    c->deadline_ns = http_server_now_ns() + ANSWER_NS;
    c->body_bytes = bytes;
    server->body_bytes += bytes;
    count(answer->status < 400 ? &stats->requests : &stats->errors, 1);
    count(&stats->sent_bytes, bytes);
    return MHD_YES;
}

/* ---- Requests ---- */

static const char *header(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static const char *argument(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_GET_ARGUMENT_KIND, name);
}

static bool has_body(struct MHD_Connection *mhd)
{
    const char *length = header(mhd, "Content-Length");
    return header(mhd, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

static enum MHD_Result count_host(void *n, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(unsigned *)n += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

/* RFC 9112, section 3.2. */
static bool has_hosts(struct MHD_Connection *mhd)
{
    unsigned n = 0;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, count_host, &n);
    return n > 1;
}

static enum MHD_Result begin_to_wait(struct http_server *server, struct http_connection *c, unsigned seconds,
                                     struct http_answer *answer)
{
    if (server->n_waiting == HTTP_MAX_WAITING || server->stopping) {
        http_answer_line(answer, 503, "too many others wait for an answer with ?seconds=");
        return send_answer(server, c, answer);
    }
    c->start = server->source.host->snapshot(NULL);
    if (c->start == NULL) {
        http_answer_line(answer, 503, "there is no memory for a snapshot");
        return send_answer(server, c, answer);
    }
    c->deadline_ns = http_server_now_ns() + seconds * (uint64_t)SECOND_NS;
    c->waiting = true;
    server->n_waiting++;
    MHD_suspend_connection(c->mhd);
    return MHD_YES;
}

static enum MHD_Result begin(struct http_server *server, struct http_connection *c, const struct http_request *request)
{
    struct http_answer answer = {0};
    unsigned seconds = 0;
    c->route = http_routes_find(&server->source, request, &answer);
    if (c->route != NULL && http_routes_seconds(c->route, request, &seconds, &answer)) {
        if (seconds > 0)
            return begin_to_wait(server, c, seconds, &answer);
        c->route->answer(&server->source, request, &answer);
    }
    return send_answer(server, c, &answer);
}

/* What has waited. */
static enum MHD_Result end(struct http_server *server, struct http_connection *c, struct http_request *request)
{
    struct http_answer answer = {0};
    if (c->gone)
        return MHD_NO;
    request->start = c->start;
    if (server->stopping)
        http_answer_line(&answer, 503, "the program ends");
    else
        c->route->answer(&server->source, request, &answer);
    server->source.host->free_snapshot(c->start);
    c->start = NULL;
    return send_answer(server, c, &answer);
}

/* Called when a request's head is complete, and again when it was resumed. Bodies are not read. */
static enum MHD_Result handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **request_place)
{
    struct http_connection *c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    (void)version;
    (void)upload;
    (void)request_place;
    if (c == NULL || c->answered)
        return MHD_NO;
    *upload_bytes = 0;
    struct http_request request = {
        .method = method, .path = url, .host = header(mhd, "Host"), .authorization = header(mhd, "Authorization"),
        .accept = header(mhd, "Accept"), .seconds = argument(mhd, "seconds"), .format = argument(mhd, "format"),
        .limit = argument(mhd, "limit"), .has_body = has_body(mhd), .has_hosts = has_hosts(mhd)};
    return c->route != NULL ? end(cls, c, &request) : begin(cls, c, &request);
}

/* ---- Time ---- */

static void resume(struct http_server *server, struct http_connection *c)
{
    c->waiting = false;
    c->deadline_ns = http_server_now_ns() + ANSWER_NS;
    server->n_waiting--;
    MHD_resume_connection(c->mhd);
}

static bool is_asking(const struct http_connection *c)
{
    return c->mhd != NULL && c->route == NULL && !c->answered;
}

bool http_server_is_heard(const struct http_connection *c)
{
    return c->waiting || (is_asking(c) && c->deadline_ns != UINT64_MAX);
}

static uint64_t deadline(const struct http_server *server, const struct http_connection *c)
{
    if (is_asking(c) && c->deadline_ns != UINT64_MAX && server->n_connections == HTTP_MAX_CONNECTIONS)
        return c->since_ns + CROWDED_REQUEST_NS;
    return c->deadline_ns;
}

uint64_t http_server_next_ns(const struct http_server *server)
{
    uint64_t next = server->accept_after_ns > 0 ? server->accept_after_ns : UINT64_MAX;
    for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
        const struct http_connection *c = &server->connections[i];
        if (c->mhd != NULL && deadline(server, c) < next)
            next = deadline(server, c);
    }
    return next;
}

/* Whether all that the caller sent before it went has been read; what it asked for is answered even so. */
static bool has_said_all(const struct http_connection *c)
{
    char byte;
    return c->gone && is_asking(c) && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* A connection that is shut down is found so, and closed, by libmicrohttpd. */
static void tend(struct http_server *server, struct http_connection *c, uint64_t now)
{
    bool over = now >= deadline(server, c);
    if (c->waiting && (over || c->gone)) {
        resume(server, c);
    } else if (!c->waiting && (over || has_said_all(c))) {
        shutdown(c->fd, SHUT_RDWR);
        c->deadline_ns = UINT64_MAX;
    }
}

void http_server_tend(struct http_server *server)
{
    MHD_run(server->daemon);
    uint64_t now = http_server_now_ns();
    if (now >= server->accept_after_ns)
        server->accept_after_ns = 0;
    for EACH(c, server)
        if (c->mhd != NULL)
            tend(server, c, now);
    MHD_run(server->daemon);
}

/* ---- Start and end ---- */

int http_server_start(struct http_server *server)
{
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
                                      NULL, handle, server, MHD_OPTION_NOTIFY_CONNECTION, notify, server,
                                      MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_MAX_CONNECTIONS,
                                      MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                                      MHD_OPTION_END);
    stdio_holes_empty(&holes);
    return server->daemon == NULL ? -ENOMEM : 0;
}

static void close_idle(struct http_server *server)
{
    for EACH(c, server) {
        if (c->waiting)
            resume(server, c);
        else if (c->mhd != NULL && !c->answered)
            shutdown(c->fd, SHUT_RDWR);
    }
}

void http_server_stop(struct http_server *server, uint64_t until_ns)
{
    server->stopping = true;
    close_idle(server);
    struct pollfd epoll = {MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, POLLIN, 0};
    do
        MHD_run(server->daemon);
    while (server->n_connections > 0 && http_server_now_ns() < until_ns && poll(&epoll, 1, 10) >= 0);
    MHD_stop_daemon(server->daemon);
    server->source.host->free_snapshot(server->source.latest);
    http_series_free(server->source.series);
}
