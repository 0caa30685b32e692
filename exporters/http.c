/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `http` (docs/http.md): one thread with one loop. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "http_server.h"
#include "report/service.h"

#define STOP_NS 500000000u /* time to finish answers when the service ends */
#define MAX_POLL_MS 2000 /* the program may have closed the descriptors that are polled (service.h) */

SERVICE_DEFINE(http);

/* ---- The loop ---- */

enum { EPOLL, STOP, LISTEN, WATCHED }; /* indices of polled descriptors */

struct polled {
    struct pollfd fds[WATCHED + HTTP_MAX_CONNECTIONS];
    struct http_connection *connections[HTTP_MAX_CONNECTIONS]; /* of the descriptors from WATCHED on */
    nfds_t n;
};

static void add_watched(struct http_server *server, struct polled *p)
{
    p->n = WATCHED;
    short events;
    for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++)
        if (http_server_is_watched(&server->connections[i], &events)) {
            p->connections[p->n - WATCHED] = &server->connections[i];
            p->fds[p->n++] = (struct pollfd){server->connections[i].fd, events, 0};
        }
}

static int timeout_ms(const struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG soon;
    uint64_t now = http_server_now_ns(), next = http_server_next_ns(server);
    uint64_t ms = next <= now ? 0 : (next - now) / 1000000u + 1;
    if (MHD_get_timeout(server->daemon, &soon) == MHD_YES && soon < ms)
        ms = soon;
    return ms < MAX_POLL_MS ? (int)ms : MAX_POLL_MS;
}

static bool can_accept(const struct http_server *server)
{
    return server->n_connections < HTTP_MAX_CONNECTIONS && server->accept_after_ns == 0;
}

/* Returns false if the service ends. */
static bool round_of(struct http_server *server, struct polled *p)
{
    p->fds[EPOLL] = (struct pollfd){
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, POLLIN, 0};
    p->fds[STOP] = (struct pollfd){server->source.host->stop_fd, POLLIN, 0};
    p->fds[LISTEN] = (struct pollfd){can_accept(server) ? server->listener.fd : -1, POLLIN, 0};
    add_watched(server, p);
    if (poll(p->fds, p->n, timeout_ms(server)) < 0 && errno != EINTR)
        return false;
    server->lost = !server->source.host->has_descriptors(server->source.host) || !http_server_has_epoll(server);
    if (server->lost || p->fds[STOP].revents != 0)
        return false;
    for (nfds_t i = WATCHED; i < p->n; i++)
        if (p->fds[i].revents != 0)
            http_server_note_events(p->connections[i - WATCHED], p->fds[i].revents);
    if (p->fds[LISTEN].revents != 0)
        http_server_accept(server);
    http_server_tend(server);
    http_history_tend(&server->source, http_server_now_ns(), &server->sample_at_ns);
    return true;
}

/* ---- Start and end ---- */

static void say(const struct service_host *host, const char *what, const char *more)
{
    const char *const parts[] = {"http_listen: '", host->conf->http_listen, "': ", what, more, NULL};
    host->say(parts);
}

/* Writes the port to stderr if the system chose it. */
static void say_port(const struct http_server *server, const struct http_address *asked)
{
    char port[32];
    if (asked->socket.any.sa_family == AF_UNIX || asked->socket.in.sin_port != 0)
        return;
    snprintf(port, sizeof port, "%u", http_listen_port(&server->listener));
    say(server->source.host, "listens on port ", port);
}

static int open_listener(struct http_server *server)
{
    const struct service_host *host = server->source.host;
    struct http_address address;
    const char *wrong = http_address_parse(&address, host->conf->http_listen);
    if (!wrong)
        wrong = http_listen_open(&server->listener, &address);
    if (wrong) {
        say(host, wrong, "; http is left out");
        return -ECANCELED;
    }
    server->source.local = http_address_is_local(&address);
    server->source.is_unix = address.socket.any.sa_family == AF_UNIX;
    say_port(server, &address);
    return 0;
}

static uint64_t end_by_ns(const struct service_host *host)
{
    uint64_t soon = http_server_now_ns() + STOP_NS, last = host->stop_by_ns(host);
    return last > 0 && last < soon ? last : soon;
}

static int serve(struct http_server *server)
{
    struct polled polled;
    int error = http_server_start(server);
    if (error != 0)
        return error;
    server->source.host->end_before_others();
    while (round_of(server, &polled))
        ;
    if (server->lost)
        return 0;
    if (can_accept(server))
        http_server_accept(server); /* requests that came before the end are answered */
    http_listen_close(&server->listener);
    http_server_stop(server, end_by_ns(server->source.host));
    return 0;
}

static int serve_once(struct http_server *server)
{
    int error = open_listener(server);
    if (error == 0)
        error = serve(server);
    if (server->lost)
        http_listen_forget(&server->listener);
    else if (error != -ECANCELED)
        http_listen_close(&server->listener);
    return error;
}

/* If the program has closed our descriptors, the service begins again. It leaves the old descriptors and their memory
 * alone. */
static int run(const struct service_host *host)
{
    bool lost = true;
    int error = 0;
    host->free_snapshot(host->base); /* not needed: a child's counters continue those of its parent */
    while (lost && error == 0) {
        struct http_server *server = calloc(1, sizeof *server);
        if (!server)
            return -ENOMEM;
        server->source.host = host;
        server->source.pid = host->pid;
        error = serve_once(server);
        lost = server->lost;
        if (lost)
            error = host->renew(host);
        else
            free(server);
    }
    return error;
}

const struct service jespan_service_http = {.abi = SERVICE_ABI, .name = "http", .run = run};
