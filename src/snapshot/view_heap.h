/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out what the pages of another process's heap contain: it walks the headers, page by page.
 *
 * The process runs on meanwhile, so figures are of slightly different moments. As with views, whatever is in its
 * memory, this code returns an error or figures.
 */
#ifndef JESPAN_VIEW_HEAP_H
#define JESPAN_VIEW_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/view.h"

/* The pages and objects of a context. */
struct heap_context {
    uint64_t objects, bytes; /* live, usable */
    uint64_t resident_bytes; /* of them, in memory */
    uint64_t pinned_bytes;   /* its share of what is free in slabs that have live objects, by bytes */
    uint64_t alone_bytes;    /* free bytes of slabs in which only it has objects */
};

/* Resident memory of a range, in bytes. */
struct heap_parts {
    uint64_t live;   /* in objects */
    uint64_t cached; /* freed objects that threads keep in magazines, where their slab has live ones */
    uint64_t holes;  /* otherwise free, in slabs with live objects */
    uint64_t empty;  /* in slabs without live objects: caches, and pages that jemalloc has not given back yet */
    uint64_t own;    /* jespan's: headers, page map, counters, contexts, threads */
    uint64_t other;  /* all else */
};

struct view_heap;

/* Prepares a walk. To be called after view_snapshot(), with the same view. Returns 0 or a negative errno. */
int view_heap_open(struct view_heap **heap, struct view *view);

/* Adds a mapping of the process, or a part of one, in the order of addresses. resident[i] is whether its page i is in memory.
 * *is_heap: it has objects or slabs. Returns 0 or a negative errno. */
int view_heap_walk(struct view_heap *heap, uint64_t start, uint64_t end, const bool *resident, struct heap_parts *parts, bool *is_heap);

/* After all mappings were walked: moves jespan's own pages of a mapping from `other` to `own`. */
void view_heap_own(struct view_heap *heap, uint64_t start, uint64_t end, const bool *resident, struct heap_parts *parts);

/* The figures of each context, by its number, which is below *n. Entry *n has the objects that no context owns. */
const struct heap_context *view_heap_contexts(const struct view_heap *heap, uint32_t *n);
void view_heap_close(struct view_heap *heap);

#endif
