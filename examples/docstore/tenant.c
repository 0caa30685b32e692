/* SPDX-License-Identifier: BSD-2-Clause */
/* Tenants as a label. */
#include "tenant.h"

#include <pthread.h>
#include <string.h>

#include "document.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[MAX_TENANTS][NAME_MAX_BYTES + 1];
static unsigned n_names;

static const char *intern(const char *name)
{
    for (unsigned i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return names[i];
    if (n_names == MAX_TENANTS)
        return "other";
    return strcpy(names[n_names++], name);
}

const char *tenant_label(const char *header)
{
    char name[NAME_MAX_BYTES + 1];
    const char *label;

    if (!header)
        return "none";
    if (!document_name_copy(name, header, strlen(header)))
        return NULL;
    pthread_mutex_lock(&lock);
    label = intern(name);
    pthread_mutex_unlock(&lock);
    return label;
}
