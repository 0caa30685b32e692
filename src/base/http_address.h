/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses at which the service `http` listens: those of `http_listen`, and of the command's `--http`. */
#ifndef JESPAN_HTTP_ADDRESS_H
#define JESPAN_HTTP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct http_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } socket;
    socklen_t bytes;
};

/* Parses IPV4:PORT, [IPV6]:PORT, localhost:PORT, :PORT (the loopback address) or unix:PATH. Returns NULL, or the error
 * as a text. */
const char *http_address_parse(struct http_address *address, const char *text);

/* Whether only processes of this machine can connect. */
bool http_address_is_local(const struct http_address *address);

#endif
