/* SPDX-License-Identifier: BSD-2-Clause */
/* Which texts may be printed: an answer may quote the request, credentials and all. */
#ifndef JESPAN_PYROSCOPE_SECRETS_H
#define JESPAN_PYROSCOPE_SECRETS_H

#include <stdbool.h>

#include "conf/conf.h"

/* Whether any four characters in a row of a credential are in the text. Credentials are those of the configuration, and of
 * the proxies that libcurl finds in the environment. Also without memory to find out. */
bool pyroscope_secrets_are_in(const struct conf *conf, const char *text);

#endif
