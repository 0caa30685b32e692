/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections of the service. */
#include "http_server.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#include "http_answer.h"

#define SECOND_NS 1000000000u
#define REQUEST_NS (10ull * SECOND_NS)        /* a client must send its request in this time */
#define CROWDED_REQUEST_NS (1ull * SECOND_NS) /* the same when all connections are taken */
#define ACCEPT_PAUSE_NS (SECOND_NS / 10)      /* when there was no descriptor for a connection */
#define MEMORY_BYTES ((size_t)128 * 1024)     /* per connection: 32 KiB of head, 64 bytes for each argument and field */

uint64_t http_server_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- Connections open and close ---- */

static void opened(struct http_server *server, struct MHD_Connection *mhd, void **place)
{
    for (struct http_connection *c = server->connections; c < http_server_connections_end(server); c++)
        if (!c->mhd) {
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
    http_request_drop_start(server, c);
    server->body_bytes -= c->body_bytes;
    if (!c->answered)
        http_server_count(&server->source.host->http->errors, 1);
    server->n_connections--;
    *c = (struct http_connection){0};
}

static void notify(void *cls, struct MHD_Connection *mhd, void **place, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(cls, mhd, place);
    else if (*place)
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

/* ---- Time ---- */

void http_server_watch_half_closed(struct http_connection *c)
{
    const int yes = 1, seconds = 10;
    setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    c->half_closed = true;
}

void http_server_note_events(struct http_connection *c, short events)
{
    if (!c->waiting || (events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        c->gone = true;
    else if (!c->half_closed)
        http_server_watch_half_closed(c);
}

/* Resumes one request, and runs until its answer is queued. If several half-closed connections were resumed at once,
 * libmicrohttpd would answer one and close the others. */
static void resume(struct http_server *server, struct http_connection *c)
{
    c->waiting = false;
    c->deadline_ns = http_server_now_ns() + HTTP_ANSWER_NS;
    server->n_waiting--;
    MHD_resume_connection(c->mhd);
    MHD_run(server->daemon);
    MHD_run(server->daemon);
}

static bool is_asking(const struct http_connection *c)
{
    return c->mhd && !c->route && !c->answered;
}

/* A half-closed connection is watched only for its end: poll() always reports errors and POLLHUP. */
bool http_server_is_watched(const struct http_connection *c, short *events)
{
    *events = c->half_closed ? 0 : POLLRDHUP;
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
    if (server->sample_at_ns < next)
        next = server->sample_at_ns;
    for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
        const struct http_connection *c = &server->connections[i];
        if (c->mhd && deadline(server, c) < next)
            next = deadline(server, c);
    }
    return next;
}

/* Whether the client is gone and everything that it sent has been read. A complete request is answered first. */
static bool has_sent_all(const struct http_connection *c)
{
    char byte;
    return c->gone && is_asking(c) && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* libmicrohttpd notices the shutdown and closes the connection. */
static void tend(struct http_server *server, struct http_connection *c, uint64_t now)
{
    bool over = now >= deadline(server, c);
    if (c->waiting && (over || c->gone)) {
        resume(server, c);
    } else if (!c->waiting && (over || has_sent_all(c))) {
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
    for (struct http_connection *c = server->connections; c < http_server_connections_end(server); c++)
        if (c->mhd)
            tend(server, c, now);
    MHD_run(server->daemon);
}

/* ---- Start and end ---- */

/* The epoll set has our stop socket as a mark, without events. libmicrohttpd ignores an entry whose data is NULL. */
static int mark_epoll(const struct http_server *server, int operation)
{
    struct epoll_event none = {.events = EPOLLET};
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return epoll_ctl(fd, operation, server->source.host->stop_fd, &none);
}

bool http_server_has_epoll(const struct http_server *server)
{
    return mark_epoll(server, EPOLL_CTL_MOD) == 0;
}

int http_server_start(struct http_server *server)
{
    server->source.host->guard(true);
    server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
                                      NULL, http_request_handle, server, MHD_OPTION_NOTIFY_CONNECTION, notify, server,
                                      MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_MAX_CONNECTIONS,
                                      MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                                      MHD_OPTION_URI_LOG_CALLBACK, http_request_look_at_uri, server, MHD_OPTION_END);
    server->source.host->guard(false);
    if (server->daemon)
        mark_epoll(server, EPOLL_CTL_ADD);
    return server->daemon ? 0 : -ENOMEM;
}

static void close_idle(struct http_server *server)
{
    for (struct http_connection *c = server->connections; c < http_server_connections_end(server); c++) {
        if (c->waiting)
            resume(server, c);
        else if (c->mhd && !c->answered)
            shutdown(c->fd, SHUT_RDWR);
    }
}

void http_server_stop(struct http_server *server, uint64_t until_ns)
{
    MHD_run(server->daemon); /* a request that has arrived is read, and answered below */
    server->stopping = true;
    close_idle(server);
    struct pollfd epoll = {MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, POLLIN, 0};
    do
        MHD_run(server->daemon);
    while (server->n_connections > 0 && http_server_now_ns() < until_ns && poll(&epoll, 1, 10) >= 0);
    if (http_server_has_epoll(server))
        MHD_stop_daemon(server->daemon);
    http_processes_free(&server->source);
}
