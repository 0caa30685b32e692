/* SPDX-License-Identifier: BSD-2-Clause */
/* JESPAN() blocks, where something is in the way of the fast paths in block_api.c. */
#ifndef JESPAN_BLOCK_SLOW_H
#define JESPAN_BLOCK_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jespan/jespan.h"
#include "span/span.h"

/* As jespan_enter_block(), whatever is in the way. */
void block_enter_slowly(struct jespan_block *block, const struct jespan_site *site, const char *const *name_and_labels,
                        size_t count);

/* The line of the thread's cache that leads from the current context and the site to the child context, if it fits. */
HOT_INLINE uint32_t block_hash(const struct thread *t, const struct jespan_site *site)
{
    return ((uint32_t)((uintptr_t)site >> 3) * 2654435761u ^ t->tag * 2246822519u) >> 16;
}

HOT_INLINE struct site_cache_line *block_line(struct thread *t, const struct jespan_site *site)
{
    return &t->site_cache[block_hash(t, site) % SITE_CACHE_LINES];
}

/* Whether the line is for the site and the current context, if the site still has the same contents: is_same_site(). */
HOT_INLINE bool line_fits(const struct thread *t, const struct site_cache_line *line, const struct jespan_site *site)
{
    return tree_lockless && line->site == site && line->parent == t->tag;
}

#endif
