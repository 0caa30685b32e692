/* SPDX-License-Identifier: BSD-2-Clause */
/* Tenants: a span for the requests of each, with a limit, and one for what the cache keeps for it.
 *
 * Clients name them, and each makes contexts of its own, so their number is bounded here: the first names are kept, up
 * to MAX_TENANTS, all later ones are "other". All functions are thread-safe.
 */
#ifndef DOCSTORE_TENANT_H
#define DOCSTORE_TENANT_H

#include <stdint.h>

#include "document.h"
#include "spans.h"

#define MAX_TENANTS 128
#define MAX_TENANTS_AND_OTHERS (MAX_TENANTS + 3)

struct tenant {
    char name[NAME_MAX_BYTES + 1];
    jespan_context_t requests; /* requests are opened below it; it has the limit */
    jespan_context_t cache;    /* the cache's documents of the tenant are credited to it */
};

/* Sets how many bytes the requests of each tenant may have in use; 0: any amount. Call this once, before the first tenant. */
void tenants_start(uint64_t limit_bytes);

/* `header` is what the client sent, or NULL: then it is the tenant "none". Returns a tenant for good, or NULL if the
 * header is not a name of 1 to 64 letters, digits, dots, dashes and underscores. */
const struct tenant *tenant_find(const char *header);

/* The tenant of requests that are refused because their name is not valid. */
const struct tenant *tenant_invalid(void);

/* The nth tenant, from 0, or NULL if there are no more. */
const struct tenant *tenant_nth(unsigned n);

#endif
