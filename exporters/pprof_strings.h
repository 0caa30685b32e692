/* SPDX-License-Identifier: BSD-2-Clause */
/* The string table of a profile. */
#ifndef JESPAN_PPROF_STRINGS_H
#define JESPAN_PPROF_STRINGS_H

#include <stdint.h>

#include "hash_index.h"
#include "pprof_out.h"

/* Each text is written once, when it is first needed. */
struct pprof_strings {
    struct pprof_out *out;
    struct hash_index index;
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
