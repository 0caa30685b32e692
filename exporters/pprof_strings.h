/* SPDX-License-Identifier: BSD-2-Clause */
/* The string table of a profile, and the hash index that it uses. */
#ifndef JESPAN_PPROF_STRINGS_H
#define JESPAN_PPROF_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pprof_out.h"

/* ---- The hash index: finds the position of an item in the list of its owner by its contents ---- */

struct pprof_index {
    const struct exporter_memory *memory; /* NULL: malloc */
    struct pprof_index_bucket *buckets; /* a power of two, at most three quarters in use */
    uint32_t n_buckets, n_used;
};

/* Whether the owner's item at `position` is `key`. */
typedef bool pprof_index_same(const void *owner, uint32_t position, const void *key);

/* Sets *position to that of `key`. A new key gets `next`. Returns 1: added, 0: found, or -ENOMEM. A zeroed index is
 * empty. */
int pprof_index_intern(struct pprof_index *index, uint32_t hash, pprof_index_same *same, const void *owner,
                       const void *key, uint32_t next, uint32_t *position);
void pprof_index_free(struct pprof_index *index);

/* ---- The string table: each text is written once, when it is first needed ---- */

struct pprof_strings {
    struct pprof_out *out;
    struct pprof_index index;
    const char **items; /* by string index, without copies */
    uint32_t n, capacity;
};

/* Writes entry 0, the empty string. Errors of all functions here go to `out`. */
void pprof_strings_init(struct pprof_strings *strings, struct pprof_out *out);
void pprof_strings_free(struct pprof_strings *strings);

/* Returns the index of `text`, which must not change until pprof_strings_free(). The empty string has index 0. Invalid
 * UTF-8 is written as U+FFFD, because strict readers reject the whole file for it. */
int64_t pprof_strings_intern(struct pprof_strings *strings, const char *text);

/* Writes `text` as an entry that pprof_strings_intern() does not find. The caller may change it afterwards. */
int64_t pprof_strings_append(struct pprof_strings *strings, const char *text);

#endif
