/* SPDX-License-Identifier: BSD-2-Clause */
/* HTTP on 127.0.0.1. Each request is a span with its route and tenant as labels. */
#ifndef DOCSTORE_HTTP_H
#define DOCSTORE_HTTP_H

#include <stdint.h>

#include "docs.h"

struct http;

/* Starts `n_threads` threads. `*port` 0 picks a free one, and gets its number. Returns NULL if that failed. */
struct http *http_start(struct docs *docs, uint16_t *port, unsigned n_threads);

/* Ends when all threads have. */
void http_stop(struct http *http);

#endif
