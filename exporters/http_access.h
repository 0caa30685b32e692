/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may ask. */
#ifndef JESPAN_HTTP_ACCESS_H
#define JESPAN_HTTP_ACCESS_H

#include <stdbool.h>

/* Whether a Host header (NULL: there is none) names this machine by an address or as localhost. A page that a browser
 * got elsewhere can have its own name point to 127.0.0.1 and so read what we answer, but it comes with that name. */
bool http_access_host_is_local(const char *host);

/* Whether an Authorization header (NULL: there is none) has the token. Takes as long whatever is wrong with it. */
bool http_access_has_token(const char *authorization, const char *token);

#endif
