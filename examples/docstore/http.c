/* SPDX-License-Identifier: BSD-2-Clause */
/* HTTP with libmicrohttpd: a pool of threads, each of which serves many connections.
 *
 * A thread works on one request until it would have to wait, then on another. So a request's span is opened when its
 * headers are there, entered whenever its thread turns to it, and closed when its reply is sent.
 */
#include "http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "routes.h"
#include "spans.h"
#include "tenant.h"

#define BODY_MAX_BYTES ((size_t)1 << 20)
#define MAX_CONNECTIONS 1024u
#define IDLE_TIMEOUT_S 30u

struct exchange {
    const struct route *route;
    jespan_span_t *span;
    struct request request;
    char *body;
    size_t body_capacity;
    unsigned refused; /* the status, if the request cannot be served any more */
};

static const char *argument(struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *key)
{
    return MHD_lookup_connection_value(connection, kind, key);
}

/* A client asks for plain text by name. Browsers and curl name neither text nor JSON by default. */
static bool wants_text(struct MHD_Connection *connection)
{
    const char *format = argument(connection, MHD_GET_ARGUMENT_KIND, "format");
    const char *accepted = argument(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

    return format ? strcmp(format, "text") == 0 : accepted && strstr(accepted, "text/plain");
}

static bool announces_too_much(struct MHD_Connection *connection)
{
    const char *length = argument(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length && strtoull(length, NULL, 10) > BODY_MAX_BYTES;
}

static jespan_span_t *open_span(const struct route *route, const struct tenant *tenant)
{
    JESPAN_SITE(site, "request");
    struct jespan_label label = JESPAN_LABEL("route", routes_name(route));
    jespan_span_t *span = jespan_open(&site, tenant->requests, &label, 1);

    if (jespan_enter(span) == 0) {
        figures_note(routes_name(route));
        jespan_exit(span);
    }
    return span;
}

static struct exchange *exchange_begin(struct MHD_Connection *connection, const char *path, const char *method)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    const struct tenant *named = tenant_find(argument(connection, MHD_HEADER_KIND, "X-Tenant"));
    const struct tenant *tenant = named ? named : tenant_invalid();

    if (!exchange)
        return NULL;
    exchange->request.keeper = tenant->cache;
    exchange->request.path = path;
    exchange->request.words = argument(connection, MHD_GET_ARGUMENT_KIND, "q");
    exchange->request.limit = argument(connection, MHD_GET_ARGUMENT_KIND, "limit");
    exchange->request.as_text = wants_text(connection);
    exchange->route = routes_find(method, &exchange->request);
    exchange->span = open_span(exchange->route, tenant);
    if (!named)
        exchange->refused = MHD_HTTP_BAD_REQUEST;
    else if (announces_too_much(connection))
        exchange->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    return exchange;
}

static void exchange_end(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *state;

    (void)cls, (void)connection, (void)why;
    if (!exchange)
        return;
    jespan_close(exchange->span);
    free(exchange->body);
    free(exchange);
}

/* A NUL byte follows the text. */
static bool reserve(struct exchange *exchange, size_t bytes)
{
    size_t capacity = exchange->body_capacity ? exchange->body_capacity : 1024;
    char *body;

    while (capacity < bytes + 1)
        capacity *= 2;
    if (capacity == exchange->body_capacity)
        return true;
    body = realloc(exchange->body, capacity);
    if (body) {
        exchange->body = body;
        exchange->body_capacity = capacity;
    }
    return body != NULL;
}

/* A body that is too long is read to its end all the same: the reply can only be sent then. */
static void receive(struct exchange *exchange, const char *data, size_t bytes)
{
    size_t have = exchange->request.body_bytes;

    if (exchange->refused)
        return;
    if (have + bytes > BODY_MAX_BYTES) {
        exchange->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    } else if (!reserve(exchange, have + bytes)) {
        exchange->refused = MHD_HTTP_INSUFFICIENT_STORAGE;
    } else {
        memcpy(exchange->body + have, data, bytes);
        exchange->body[have + bytes] = '\0';
        exchange->request.body_bytes = have + bytes;
    }
}

static const char *refusal(unsigned status)
{
    switch (status) {
    case MHD_HTTP_BAD_REQUEST: return "X-Tenant is a name of up to 64 letters, digits, dots, dashes, underscores";
    case MHD_HTTP_CONTENT_TOO_LARGE: return "a document has at most 1 MiB";
    default: return "out of memory, or the tenant's limit is reached";
    }
}

/* The thread that finishes sending the reply frees its body. */
static enum MHD_Result send_reply(struct MHD_Connection *connection, struct reply *reply)
{
    size_t bytes = reply->body ? strlen(reply->body) : 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, reply->body, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (!response) {
        free(reply->body);
        return MHD_NO;
    }
    if (reply->body)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                reply->is_text ? "text/plain; charset=utf-8" : "application/json");
    if (reply->location[0])
        MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, reply->location);
    if (reply->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
    result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static void work(struct exchange *exchange, struct docs *docs, struct reply *reply)
{
    exchange->request.body = exchange->body ? exchange->body : "";
    jespan_enter(exchange->span);
    routes_handle(exchange->route, docs, &exchange->request, reply);
    jespan_exit(exchange->span);
}

/* This runs outside the span, where the tenant's limit does not hold: there is memory for a refusal. */
static enum MHD_Result answer(struct exchange *exchange, struct docs *docs, struct MHD_Connection *connection)
{
    struct reply reply = {.status = exchange->refused};

    if (!exchange->refused)
        work(exchange, docs, &reply);
    if (exchange->refused || reply.status == MHD_HTTP_INSUFFICIENT_STORAGE)
        reply_error(&reply, reply.status, refusal(reply.status));
    return send_reply(connection, &reply);
}

/* libmicrohttpd calls this for the headers, for each part of the body, and at the end of the request. A reply to the
 * headers alone, before the body has come, ends the connection. */
static enum MHD_Result handle(void *docs, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *data_bytes, void **state)
{
    struct exchange *exchange = *state;
    enum MHD_Result result = MHD_YES;

    (void)version;
    if (!exchange) {
        *state = exchange = exchange_begin(connection, path, method);
        if (!exchange || !exchange->refused)
            return exchange ? MHD_YES : MHD_NO;
    }
    if (*data_bytes) {
        jespan_enter(exchange->span);
        receive(exchange, data, *data_bytes);
        jespan_exit(exchange->span);
    } else {
        result = answer(exchange, docs, connection);
    }
    *data_bytes = 0;
    return result;
}

struct http *http_start(struct docs *docs, uint16_t *port, unsigned n_threads)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *daemon;

    figures_start();
    daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, docs, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_THREAD_POOL_SIZE, n_threads, MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S, MHD_OPTION_NOTIFY_COMPLETED, exchange_end, NULL, MHD_OPTION_END);

    if (daemon)
        *port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    return (struct http *)daemon;
}

void http_stop(struct http *http)
{
    MHD_stop_daemon((struct MHD_Daemon *)http);
}
