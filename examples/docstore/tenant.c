/* SPDX-License-Identifier: BSD-2-Clause */
/* Tenants: a span for the requests of each, with a limit, and one for what the cache keeps for it. */
#include "tenant.h"

#include <jespan/limit.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tenant tenants[MAX_TENANTS_AND_OTHERS];
static unsigned n_tenants;
static uint64_t tenant_limit_bytes;

void tenants_start(uint64_t limit_bytes)
{
    tenant_limit_bytes = limit_bytes;
}

/* The span is never closed, so that its context and its limit last. */
static jespan_context_t open_context(const struct jespan_site *site, const char *tenant)
{
    struct jespan_label label = JESPAN_LABEL("tenant", tenant);
    jespan_span_t *span = jespan_open(site, JESPAN_ROOT, &label, 1);
    jespan_context_t context = JESPAN_ROOT;

    if (jespan_enter(span) == 0) {
        context = jespan_current();
        jespan_exit(span);
    }
    return context;
}

/* The cache bounds its documents itself, and any tenant may push them out. So they do not count for the limit. */
static void make(struct tenant *tenant, const char *name)
{
    JESPAN_SITE(requests, "tenant");
    JESPAN_SITE(cache, "cache", .arena = {.flags = JESPAN_ARENA});
    int error = 0;

    strcpy(tenant->name, name);
    tenant->requests = open_context(&requests, name);
    tenant->cache = open_context(&cache, name);
    if (tenant_limit_bytes && tenant->requests != JESPAN_ROOT)
        error = jespan_set_limit(tenant->requests, 0, tenant_limit_bytes);
    if (error)
        fprintf(stderr, "docstore: tenant %s has no limit: %s\n", name, strerror(error));
}

/* "none", "other" and "invalid" have places of their own. */
static const struct tenant *intern(const char *name, unsigned most)
{
    const struct tenant *found = NULL;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; !found && i < n_tenants; i++)
        if (strcmp(tenants[i].name, name) == 0)
            found = &tenants[i];
    if (!found && n_tenants < most) {
        make(&tenants[n_tenants], name);
        found = &tenants[n_tenants++];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

const struct tenant *tenant_find(const char *header)
{
    char name[NAME_MAX_BYTES + 1];
    const struct tenant *tenant;

    if (!header)
        return intern("none", MAX_TENANTS_AND_OTHERS);
    if (!document_name_copy(name, header, strlen(header)))
        return NULL;
    tenant = intern(name, MAX_TENANTS);
    return tenant ? tenant : intern("other", MAX_TENANTS_AND_OTHERS);
}

const struct tenant *tenant_invalid(void)
{
    return intern("invalid", MAX_TENANTS_AND_OTHERS);
}

const struct tenant *tenant_nth(unsigned n)
{
    const struct tenant *tenant;

    pthread_mutex_lock(&lock);
    tenant = n < n_tenants ? &tenants[n] : NULL;
    pthread_mutex_unlock(&lock);
    return tenant;
}
