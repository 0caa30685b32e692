/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request to a reply, whatever carries them. */
#ifndef DOCSTORE_ROUTES_H
#define DOCSTORE_ROUTES_H

#include "docs.h"

struct route;

struct request {
    jespan_context_t keeper; /* see docs.h */
    const char *path;
    struct document_key key; /* set by routes_find() */
    const char *words;       /* to search for, or NULL */
    const char *limit;       /* of results, or NULL */
    bool as_text;            /* rather than JSON, where there is a choice */
    const char *body;
    size_t body_bytes;
};

struct reply {
    unsigned status; /* 507: there was no memory, or the tenant's limit was reached; without a body */
    char *body;   /* JSON, owned by whoever sends it, or NULL */
    bool is_text; /* no, for people */
    char location[2 * NAME_MAX_BYTES + 16];
    const char *allow; /* methods, or NULL */
};

/* Never NULL: there is a route for what is not found. */
const struct route *routes_find(const char *method, struct request *request);

/* A short constant name, such as "get". */
const char *routes_name(const struct route *route);

void routes_handle(const struct route *route, struct docs *docs, const struct request *request, struct reply *reply);

/* A reply whose body explains what was wrong. */
void reply_error(struct reply *reply, unsigned status, const char *why);

#endif
