/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket that listens at the address of http_listen.
 *
 * One socket at a time listens. A forked child closes the inherited socket, so that nobody waits for answers of a
 * process that gives none.
 */
#ifndef JESPAN_HTTP_LISTEN_H
#define JESPAN_HTTP_LISTEN_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/http_address.h"

#define HTTP_PATH_BYTES 4096

struct http_listener {
    int fd;
    pid_t pid;               /* the process that made it */
    struct http_address address; /* with the actual port */
    dev_t device;            /* device and inode of a Unix socket */
    ino_t inode;
    char path[HTTP_PATH_BYTES]; /* its absolute path */
};

/* Returns NULL, or the error as a text. Only the owner can connect to a Unix socket. A socket where nobody listens any
 * more is replaced. If several processes ask for the same path at once, one gets it: they lock its directory. */
const char *http_listen_open(struct http_listener *l, const struct http_address *address);
void http_listen_close(struct http_listener *l);
void http_listen_forget(struct http_listener *l); /* instead of closing, if its number may belong to another file */

uint16_t http_listen_port(const struct http_listener *l);

/* Returns a connection that does not block, or -1 with errno. */
int http_listen_accept(const struct http_listener *l, struct sockaddr_storage *peer, socklen_t *peer_bytes);

#endif
