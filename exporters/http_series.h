/* SPDX-License-Identifier: BSD-2-Clause */
/* Series of Prometheus: one for each name of spans with the labels that series_labels lists. They live as long as the
 * process. Their counters never go down, even if contexts are recycled.
 *
 * Their number is bounded. Further series are counted in one named "(other)".
 */
#ifndef JESPAN_HTTP_SERIES_H
#define JESPAN_HTTP_SERIES_H

#include <stdint.h>

#include "digest.h"
#include "hash_index.h"
#include "period.h"

struct http_series {
    char *labels; /* in the text format of Prometheus, without the braces */
    uint64_t inuse_bytes, inuse_objects, outlived_bytes; /* of the moment */
    uint64_t alloc_bytes, alloc_objects, opens, wall_ns, busy_ns, cpu_ns;
    uint64_t peak_bytes; /* the highest of a context, with all contexts below it, since the peaks were reset */
};

struct http_series_set {
    struct http_series *series; /* the first is "(other)" */
    uint32_t n, max;
    size_t capacity;
    struct hash_index index;  /* of series, by their labels */
    uint64_t all_peak_bytes;  /* of the process; it falls when peaks are reset */
    uint64_t folded;          /* series of the last period that were counted in "(other)" */
    struct period *period;
    struct digest *waiting; /* a period that could not be added; usually NULL */
    struct digest_shape shape;
    const char **keys;  /* of labels, in key_text */
    char (*names)[300]; /* names of the keys in series: a key of 255 bytes, a prefix, and _ to keep names apart */
    char *key_text;
    uint32_t n_keys;
};

/* `labels` are keys, separated by |. The text must outlive the set. NULL: no memory. */
struct http_series_set *http_series_make(const char *labels, uint64_t max);
void http_series_free(struct http_series_set *set);

/* Adds the figures since the last snapshot. Returns 0, or -ENOMEM: the next call adds them. */
int http_series_add(struct http_series_set *set, const struct snapshot *s);

#endif
