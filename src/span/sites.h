/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites: copies of the program's sites, cut to the limits of the public header.
 *
 * The program's own sites may go away (dlclose). Copies are interned and stay, since there are only as many as places
 * in the code. Under LOCK_TREE.
 */
#ifndef JESPAN_SITES_H
#define JESPAN_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text_is.h"
#include "jespan/jespan.h"

struct site {
    struct site *next; /* same hash bucket */
    uint32_t hash, line;
    const char *name, *target, *file; /* never NULL; for text_is() */
    uint16_t name_bytes, target_bytes, file_bytes;
    struct jespan_arena arena;        /* the properties of the site, or of the configuration; by_label may be NULL */
};

/* The only copy of this site, or NULL when out of memory. */
const struct site *site_intern(const struct jespan_site *site);

/* The copy of a site that is a constant of the program, without the lock, if it was interned lately. NULL: ask site_intern(). */
const struct site *site_find(const struct jespan_site *site);

/* The bytes of `s` that are kept: at most JESPAN_MAX_STRING_BYTES, and only whole UTF-8 characters. */
size_t sites_cut(const char *s);

/* The same, and counts strings that are cut. */
size_t sites_bounded_length(const char *s);

/* Whether `kept` is the copy of `text` (NULL: ""). */
bool sites_is_kept_as(const char *kept, const char *text);

/* Whether `kept` is the copy of this site, which has no NULL text and no text that was cut. False for other sites. Compares
 * the contents: a plugin may be loaded where another one was, with another site at the same address. If both were made from
 * one template, line and name are equal too. Needs no lock. */
HOT_INLINE bool sites_is_whole_copy(const struct site *kept, const struct jespan_site *site)
{
    return likely(site->target && site->file) && likely(kept->line == site->line) &&
           likely(text_is(site->name, kept->name, kept->name_bytes)) &&
           likely(text_is(site->target, kept->target, kept->target_bytes)) &&
           likely(text_is(site->file, kept->file, kept->file_bytes));
}

/* Whether the site and its texts are constants of the program itself, so the same address always means the same site. Without
 * a lock. */
bool sites_is_constant(const struct jespan_site *site);

/* The number of strings and lists of labels that were cut. */
uint64_t sites_truncated(void);
void sites_count_truncated(void);

#endif
