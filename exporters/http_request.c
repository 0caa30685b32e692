/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of the service `http`: from the head of a request to its answer. */
#include "http_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http_answer.h"

#define SECOND_NS 1000000000u
#define MAX_ARGUMENTS 1000                    /* of a query. With more, libmicrohttpd has no memory to refuse */
#define MAX_BODY_BYTES ((size_t)64 << 20)     /* of all unsent answers. A single one may be larger */
#define MAX_START_BYTES ((size_t)64 << 20)    /* of all starts of differences. A single one may be larger */
#define SHARED_PART 100                       /* a start is shared if it is younger than 1/100 of the wanted time */

static const char page_policy[] = "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
    if (answer->file[0]) {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"", answer->file);
        MHD_add_response_header(response, "Content-Disposition", text);
    }
    if (answer->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"jespan\"");
    if (answer->status == 405)
        MHD_add_response_header(response, "Allow", answer->may_change ? "GET, HEAD, POST" : "GET, HEAD");
}

/* A connection is closed after its answer, so each has one request. */
static enum MHD_Result send_answer(struct http_server *server, struct http_connection *c, struct http_answer *answer)
{
    struct http_stats *stats = server->source.host->http;
    if (answer->body.failed || (server->body_bytes > 0 && server->body_bytes + answer->body.n > MAX_BODY_BYTES))
        http_answer_line(answer, 503, "too many answers are not sent yet; try again later");
    size_t bytes = answer->body.n;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, answer->body.data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        http_text_free(&answer->body);
        return MHD_NO;
    }
    add_headers(response, answer);
    enum MHD_Result queued = MHD_queue_response(c->mhd, answer->status, response);
    MHD_destroy_response(response);
    if (queued != MHD_YES)
        return MHD_NO;
    c->answered = true;
    c->deadline_ns = http_server_now_ns() + HTTP_ANSWER_NS;
    c->body_bytes = bytes;
    server->body_bytes += bytes;
    http_server_count(answer->status < 400 ? &stats->requests : &stats->errors, 1);
    http_server_count(&stats->sent_bytes, bytes);
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
    return header(mhd, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
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

/* ---- Requests that wait (?seconds=) ---- */

static size_t start_bytes(const struct http_start *start)
{
    return sizeof *start + start->n_rows * sizeof start->rows[0];
}

void http_request_drop_start(struct http_server *server, struct http_connection *c)
{
    if (c->start && --c->start->callers == 0) {
        server->start_bytes -= start_bytes(c->start);
        free(c->start);
    }
    c->start = NULL;
}

/* Finds the start of another request that is young enough to be shared. */
static struct http_start *find_start(struct http_server *server, const struct http_source *source, uint64_t now, uint64_t ns)
{
    struct http_start *found = NULL;
    for (struct http_connection *c = server->connections; c < http_server_connections_end(server); c++)
        if (c->start && http_source_is_of(source, c->start) && now - c->start->taken_ns <= ns / SHARED_PART
            && (!found || c->start->taken_ns > found->taken_ns))
            found = c->start;
    return found;
}

/* NULL: `answer` says why there is none. */
static struct http_start *make_start(struct http_server *server, struct http_source *source, uint64_t now,
                                     struct http_answer *answer)
{
    const struct snapshot *s = http_answer_look(source, answer);
    if (!s)
        return NULL;
    size_t bytes = http_start_bytes(s);
    if (server->start_bytes > 0 && server->start_bytes + bytes > MAX_START_BYTES) {
        http_answer_line(answer, 503, "too many requests wait with ?seconds=: no memory is left for the start of this difference");
        return NULL;
    }
    struct http_start *start = http_start_make(s);
    if (!start) {
        http_answer_line(answer, 503, "no memory for the start of the difference");
        return NULL;
    }
    start->taken_ns = now;
    start->pid = source->pid;
    start->began_ns = source->began_ns;
    server->start_bytes += bytes;
    return start;
}

/* Whether another request may wait. A client that has shut down its side may be gone altogether; TCP does not tell the
 * two apart. Such clients may wait too. If too many requests wait, the oldest such client is answered with 503. */
static bool may_wait(struct http_server *server)
{
    struct http_connection *oldest = NULL;
    if (server->n_waiting < HTTP_MAX_WAITING)
        return true;
    for (struct http_connection *c = server->connections; c < http_server_connections_end(server); c++) {
        struct pollfd now = {c->fd, POLLRDHUP, 0};
        if (!c->waiting || c->displaced)
            continue;
        if (!c->half_closed && poll(&now, 1, 0) == 1)
            http_server_note_events(c, now.revents);
        if ((c->half_closed || c->gone) && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (!oldest)
        return false;
    oldest->displaced = true;
    oldest->deadline_ns = 0;
    return true;
}

static enum MHD_Result begin_to_wait(struct http_server *server, struct http_connection *c,
                                     const struct http_request *request)
{
    struct http_answer answer = {0};
    const uint64_t ns = c->seconds * (uint64_t)SECOND_NS, now = http_server_now_ns();
    if (server->stopping || !may_wait(server)) {
        http_answer_line(&answer, 503, "too many requests wait with ?seconds=");
        return send_answer(server, c, &answer);
    }
    struct http_source *source = http_processes_choose(&server->source, request, &answer);
    struct http_start *start = source ? find_start(server, source, now, ns) : NULL;
    if (source && !start)
        start = make_start(server, source, now, &answer);
    if (!start)
        return send_answer(server, c, &answer);
    start->callers++;
    c->start = start;
    c->deadline_ns = start->taken_ns + ns;
    c->waiting = true;
    if (c->gone)
        http_server_watch_half_closed(c);
    c->gone = false;
    server->n_waiting++;
    MHD_suspend_connection(c->mhd);
    return MHD_YES;
}

/* ---- Steps of a request ---- */

static void make_answer(struct http_server *server, const struct http_route *route, const struct http_request *request,
                        struct http_answer *answer)
{
    struct http_source *source = http_processes_choose(&server->source, request, answer);
    if (source)
        (http_routes_is_change(route, request) ? route->change : route->answer)(source, request, answer);
}

static enum MHD_Result begin(struct http_server *server, struct http_connection *c, const struct http_request *request)
{
    struct http_answer answer = {0};
    c->route = http_routes_find(&server->source, request, &answer);
    if (c->route && http_routes_seconds(c->route, request, &c->seconds, &answer)) {
        if (c->seconds > 0)
            return MHD_YES; /* begin_to_wait() follows: suspended now, a half-closed client would be dropped */
        make_answer(server, c->route, request, &answer);
    }
    return send_answer(server, c, &answer);
}

/* Ends the wait of a request. */
static enum MHD_Result end(struct http_server *server, struct http_connection *c, struct http_request *request)
{
    struct http_answer answer = {0};
    if (c->gone)
        return MHD_NO;
    request->start = c->start;
    if (server->stopping)
        http_answer_line(&answer, 503, "the program ends");
    else if (c->displaced)
        http_answer_line(&answer, 503, "too many requests wait with ?seconds=, and the client has closed its side");
    else
        make_answer(server, c->route, request, &answer);
    http_request_drop_start(server, c);
    return send_answer(server, c, &answer);
}

void *http_request_look_at_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    static const char answer[] = "HTTP/1.1 414 URI Too Long\r\nContent-Type: " HTTP_TYPE_TEXT "\r\nContent-Length: 39\r\n"
                                 "Connection: close\r\n\r\nthe query has more than 1000 arguments\n";
    struct http_connection *c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct http_server *server = cls;
    unsigned n = 0;
    if (!c || c->answered)
        return NULL;
    c->has_nul = strstr(uri, "%00") != NULL;
    for (; *uri != '\0'; uri++)
        n += *uri == '&';
    if (n < MAX_ARGUMENTS)
        return NULL;
    send(c->fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    c->answered = true;
    c->deadline_ns = http_server_now_ns() + SECOND_NS;
    http_server_count(&server->source.host->http->errors, 1);
    return NULL;
}

enum MHD_Result http_request_handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **request_place)
{
    struct http_connection *c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    (void)version;
    (void)upload;
    (void)request_place;
    if (!c || c->answered)
        return MHD_NO;
    *upload_bytes = 0;
    char host[HTTP_HOST_BYTES];
    struct http_request request = {
        .method = method, .path = url, .host = header(mhd, "Host"), .authorization = header(mhd, "Authorization"),
        .accept = header(mhd, "Accept"), .change = header(mhd, "X-Jespan"),
        .mode = argument(mhd, "mode"), .seconds = argument(mhd, "seconds"), .format = argument(mhd, "format"),
        .limit = argument(mhd, "limit"), .labels = argument(mhd, "labels"), .has_body = has_body(mhd),
        .has_hosts = has_hosts(mhd), .has_nul = c->has_nul, .pid = argument(mhd, "pid"), .since = argument(mhd, "since")};
    http_routes_split_target(&request, host);
    if (!c->route)
        return begin(cls, c, &request);
    return c->start ? end(cls, c, &request) : begin_to_wait(cls, c, &request);
}
