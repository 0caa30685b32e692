/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites and label sets as jespan keeps them: copies, cut to the limits of the public header.
 *
 * The program's own may go away (dlclose, freed strings). Sites are interned for good, as there are only as many as
 * places in the code. Label sets come and go with their contexts. All under LOCK_TREE.
 */
#ifndef JESPAN_SITES_H
#define JESPAN_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "jespan/jespan.h"

struct site {
    struct site *next; /* same hash bucket */
    uint32_t hash, line;
    const char *name, *target, *file; /* never NULL */
};

/* The one copy of this site; NULL when out of memory. */
const struct site *site_intern(const struct jespan_site *site);

/* count times "key\0value\0". */
struct label_set {
    uint32_t hash, count, bytes;
    uint32_t capacity; /* of text */
    char text[];
};
#define LABEL_TEXT_MAX (JESPAN_MAX_LABELS * 2 * (JESPAN_MAX_STRING_BYTES + 1))

/* A label set in the making, to compare with. */
union label_draft {
    struct label_set set;
    char room[sizeof(struct label_set) + LABEL_TEXT_MAX];
};

/* Composes a draft. Returns 0, or -EINVAL where a key or value is NULL. Needs no lock. */
int labels_draft(union label_draft *draft, const struct jespan_label *labels, size_t count);

/* A lasting copy; NULL when out of memory. */
struct label_set *labels_copy(const struct label_set *draft);
void labels_free(struct label_set *set);
int labels_equal(const struct label_set *a, const struct label_set *b); /* NULL: no labels */

/* How often a string or a list of labels was cut. */
uint64_t sites_truncated(void);

#endif
