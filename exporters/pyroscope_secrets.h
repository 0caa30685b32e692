/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds credentials in texts that may be printed. */
#ifndef JESPAN_PYROSCOPE_SECRETS_H
#define JESPAN_PYROSCOPE_SECRETS_H

#include <stdbool.h>

#include "conf/conf.h"

/* Whether the text has any four consecutive characters of a credential. Credentials are those of the configuration,
 * and of the proxies that libcurl finds in the environment. True without memory. */
bool pyroscope_secrets_are_in(const struct conf *conf, const char *text);

#endif
