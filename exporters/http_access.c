/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may ask. */
#include "http_access.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define HOST_BYTES 64 /* what is longer is neither an address nor localhost */

/* The host without its port, and an IPv6 address without its brackets. */
static bool copy_host(char name[HOST_BYTES], const char *host)
{
    bool bracket = host[0] == '[';
    host += bracket;
    size_t n = strcspn(host, bracket ? "]" : ":");
    const char *port = host + n;
    if (n == 0 || n >= HOST_BYTES || (bracket && *port++ != ']'))
        return false;
    if (*port != '\0' && (*port != ':' || port[1 + strspn(port + 1, "0123456789")] != '\0'))
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return true;
}

bool http_access_host_is_local(const char *host)
{
    char name[HOST_BYTES];
    struct in6_addr ignored;
    if (host == NULL)
        return true;
    if (!copy_host(name, host))
        return false;
    if (host[0] == '[')
        return inet_pton(AF_INET6, name, &ignored) == 1;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &ignored) == 1;
}

bool http_access_has_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    const size_t n = strlen(token);
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *given = authorization + sizeof scheme - 1;
    size_t given_n = strlen(given);
    unsigned char difference = given_n != n;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned char)(token[i] ^ (i < given_n ? given[i] : 0));
    return difference == 0;
}
