/* SPDX-License-Identifier: BSD-2-Clause */
/* Series: what Prometheus keeps apart. One for each name of spans with those labels that series_labels lists, for as
 * long as the process lives: what they count never goes down, also while contexts are recycled.
 *
 * At most so many; what comes later counts in one named "(other)".
 */
#ifndef JESPAN_HTTP_SERIES_H
#define JESPAN_HTTP_SERIES_H

#include <stdint.h>

#include "digest.h"
#include "period.h"

struct http_series {
    char *labels; /* as Prometheus has them, without the braces */
    uint32_t hash;
    uint64_t inuse_bytes, inuse_objects, outlived_bytes; /* of the moment */
    uint64_t alloc_bytes, alloc_objects, opens, wall_ns, busy_ns, cpu_ns;
};

struct http_series_set {
    struct http_series *series; /* the first is the one for all others */
    uint32_t n, room, max;
    uint32_t *slots, n_slots; /* indices of series + 1 */
    uint64_t folded;          /* of the last period: how many had no series of their own */
    struct period *period;
    struct digest *waiting; /* a period that could not be added; mostly NULL */
    struct digest_shape shape;
    const char **keys;  /* of labels, in key_text */
    char (*names)[300]; /* what they are called in series: a key of 255 bytes, a prefix, and _ where names would be equal */
    char *key_text;
    uint32_t n_keys;
};

/* `labels` are keys, separated by |; the text must stay. NULL: no memory. */
struct http_series_set *http_series_make(const char *labels, uint64_t max);
void http_series_free(struct http_series_set *set);

/* Adds what came since the last snapshot. Returns 0, or -ENOMEM: then it is part of the next. */
int http_series_add(struct http_series_set *set, const struct snapshot *s);

#endif
