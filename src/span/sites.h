/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites as jespan keeps them: copies, cut to the limits of the public header.
 *
 * The program's own may go away (dlclose). They are interned for good, as there are only as many as places in the code.
 * Under LOCK_TREE.
 */
#ifndef JESPAN_SITES_H
#define JESPAN_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jespan/jespan.h"

struct site {
    struct site *next; /* same hash bucket */
    uint32_t hash, line;
    const char *name, *target, *file; /* never NULL */
    struct jespan_arena arena;        /* what it asks for, or the configuration for it; by_label may be NULL */
};

/* The one copy of this site; NULL when out of memory. */
const struct site *site_intern(const struct jespan_site *site);

/* How much of `s` is kept: at most JESPAN_MAX_STRING_BYTES, and no part of a UTF-8 character. */
size_t sites_cut(const char *s);

/* The same, counted where something is cut off. */
size_t sites_bounded_length(const char *s);

/* Whether `text` (NULL: "") is kept like that. */
bool sites_is_kept_as(const char *kept, const char *text);

/* How often a string or a list of labels was cut. */
uint64_t sites_truncated(void);
void sites_count_truncated(void);

#endif
