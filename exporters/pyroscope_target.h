/* SPDX-License-Identifier: BSD-2-Clause */
/* What all requests to a Pyroscope server have in common: its address, credentials, TLS, limits. */
#ifndef JESPAN_PYROSCOPE_TARGET_H
#define JESPAN_PYROSCOPE_TARGET_H

#include <curl/curl.h>
#include <stdbool.h>

#include "conf/conf.h"

/* NULL, or what is wrong with the configuration, in a few words and with nothing secret in them. */
const char *pyroscope_target_check(const struct conf *conf);

/* Sets all of a handle that does not change from request to request. False: no memory. */
bool pyroscope_target_set(CURL *easy, const struct conf *conf);

/* The headers of a request, for curl_slist_free_all(). NULL, or what is wrong. */
const char *pyroscope_target_headers(struct curl_slist **list, const struct conf *conf, const char *content_type,
                                     const char *content_encoding);

#endif
