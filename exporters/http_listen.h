/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the service `http` is reached: the addresses of http_listen, and sockets that listen there.
 *
 * One socket at a time listens. A forked child gives up what it has inherited of its parent's, so that nobody waits for
 * answers from a process that gives none.
 */
#ifndef JESPAN_HTTP_LISTEN_H
#define JESPAN_HTTP_LISTEN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define HTTP_PATH_BYTES 4096

struct http_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } socket;
    socklen_t bytes;
};

struct http_listener {
    int fd;
    pid_t pid;               /* who made it */
    struct http_address address; /* with the port that was chosen */
    dev_t device;            /* of a Unix socket, what it was at its path */
    ino_t inode;
    char path[HTTP_PATH_BYTES]; /* its path, wherever the program is */
};

/* IPV4:PORT, [IPV6]:PORT, localhost:PORT, :PORT, which means the loopback address, or unix:PATH. Returns NULL, or what
 * is wrong. */
const char *http_listen_parse(struct http_address *address, const char *text);

/* Whether only this machine's processes reach it. */
bool http_listen_is_local(const struct http_address *address);

/* Returns NULL, or what went wrong. A Unix socket is its owner's alone; one where nobody listens any more is replaced. Of
 * several processes that want the same path at once, one gets it: they lock its directory meanwhile. */
const char *http_listen_open(struct http_listener *l, const struct http_address *address);
void http_listen_close(struct http_listener *l);
void http_listen_forget(struct http_listener *l); /* instead, where its number may be another's */

uint16_t http_listen_port(const struct http_listener *l);

/* A connection, which does not block; or -1 with errno. */
int http_listen_accept(const struct http_listener *l, struct sockaddr_storage *peer, socklen_t *peer_bytes);

#endif
