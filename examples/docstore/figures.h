/* SPDX-License-Identifier: BSD-2-Clause */
/* The page /spans: figures of this program while it runs, read with mallctl. All functions are thread-safe. */
#ifndef DOCSTORE_FIGURES_H
#define DOCSTORE_FIGURES_H

#include <jansson.h>

/* Rates begin here. Call this once, before the first request. */
void figures_start(void);

/* The calling thread is in the span of a request of this route. `route` is a constant. There are as few contexts to
 * remember as there are pairs of route and tenant. */
void figures_note(const char *route);

/* By route, all its requests with what is below them: requests, wall, busy and CPU time, allocation rate since the last
 * call, live and outlived bytes. By tenant: what its requests hold, its limit and how often that refused something, and
 * what the cache keeps for it, also as a sum. The caller releases it; NULL when there is no memory. */
json_t *figures_json(void);

/* The same as text for people. The caller frees it; NULL if there is no memory. */
char *figures_text(const json_t *figures);

#endif
