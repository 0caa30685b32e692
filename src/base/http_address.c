/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads addresses to listen at. */
#include "base/http_address.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HOST_BYTES 64

static const char *parse_path(struct http_address *a, const char *path)
{
    if (path[0] == '\0')
        return "the path after unix: is missing";
    if (strlen(path) >= sizeof a->socket.un.sun_path)
        return "the path is longer than a Unix socket's may be (107 bytes)";
    a->socket.un.sun_family = AF_UNIX;
    strcpy(a->socket.un.sun_path, path);
    a->bytes = sizeof a->socket.un;
    return NULL;
}

static const char *parse_port(const char *text, in_port_t *port)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || n > UINT16_MAX)
        return "the port must be a number from 0 to 65535";
    *port = htons((uint16_t)n);
    return NULL;
}

static bool parse_host(struct http_address *a, const char *host, in_port_t port)
{
    size_t n = strlen(host);
    if (host[0] == '[' && host[n - 1] == ']') {
        char inside[HOST_BYTES];
        memcpy(inside, host + 1, n - 2);
        inside[n - 2] = '\0';
        a->socket.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        a->bytes = sizeof a->socket.in6;
        return inet_pton(AF_INET6, inside, &a->socket.in6.sin6_addr) == 1;
    }
    if (host[0] == '\0' || strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    a->socket.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    a->bytes = sizeof a->socket.in;
    return inet_pton(AF_INET, host, &a->socket.in.sin_addr) == 1;
}

const char *http_address_parse(struct http_address *a, const char *text)
{
    char host[HOST_BYTES];
    in_port_t port;
    memset(a, 0, sizeof *a);
    if (strncmp(text, "unix:", 5) == 0)
        return parse_path(a, text + 5);
    const char *colon = strrchr(text, ':');
    if (!colon)
        return "it must be ADDRESS:PORT or unix:PATH";
    const char *wrong = parse_port(colon + 1, &port);
    size_t n = (size_t)(colon - text);
    if (wrong)
        return wrong;
    if (n < sizeof host) {
        memcpy(host, text, n);
        host[n] = '\0';
    }
    if (n >= sizeof host || !parse_host(a, host, port))
        return "the address must be an IP address ([…] around IPv6) or localhost";
    return NULL;
}

bool http_address_is_local(const struct http_address *a)
{
    switch (a->socket.any.sa_family) {
    case AF_INET:
        return ntohl(a->socket.in.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&a->socket.in6.sin6_addr);
    default:
        return true;
    }
}
