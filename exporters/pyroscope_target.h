/* SPDX-License-Identifier: BSD-2-Clause */
/* The common parts of all requests to a Pyroscope server: address, credentials, TLS, limits. */
#ifndef JESPAN_PYROSCOPE_TARGET_H
#define JESPAN_PYROSCOPE_TARGET_H

#include <curl/curl.h>
#include <stdbool.h>

#include "conf/conf.h"

/* Returns NULL, or an error of the configuration as a short text without secrets. */
const char *pyroscope_target_check(const struct conf *conf);

/* Sets all options of a handle that are the same for all requests. False: no memory, or libcurl lacks an option. */
bool pyroscope_target_set(CURL *easy, const struct conf *conf);

/* Makes the headers of a request; the caller calls curl_slist_free_all(). Returns NULL, or the error as a text. */
const char *pyroscope_target_headers(struct curl_slist **list, const struct conf *conf, const char *content_type,
                                     const char *content_encoding);

#endif
