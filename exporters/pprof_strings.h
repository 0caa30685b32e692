/* SPDX-License-Identifier: BSD-2-Clause */
/* The string table of a profile: each distinct text is written once, when first asked for. */
#ifndef JESPAN_PPROF_STRINGS_H
#define JESPAN_PPROF_STRINGS_H

#include <stdint.h>

#include "pprof_index.h"
#include "pprof_out.h"

struct pprof_strings {
    struct pprof_out *out;
    struct pprof_index index;
    const char **items; /* by string index; not copies */
    uint32_t n, capacity;
};

/* Writes entry 0, the empty string. Errors, here and below, go to `out`. */
void pprof_strings_init(struct pprof_strings *strings, struct pprof_out *out);
void pprof_strings_free(struct pprof_strings *strings);

/* The index of `text`, which must stay as it is until pprof_strings_free(). The empty string has index 0.
 * Bytes that are not UTF-8 are written as U+FFFD, since strict readers reject the whole file for them. */
int64_t pprof_strings_intern(struct pprof_strings *strings, const char *text);

/* Writes `text` as an entry that pprof_strings_intern() does not find: its memory may be reused. */
int64_t pprof_strings_append(struct pprof_strings *strings, const char *text);

#endif
