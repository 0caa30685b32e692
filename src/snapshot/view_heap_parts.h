/* SPDX-License-Identifier: BSD-2-Clause */
/* A walk over the headers of another process's heap, for view_heap.c, which reads what a walk needs, and view_heap_walk.c. */
#ifndef JESPAN_VIEW_HEAP_PARTS_H
#define JESPAN_VIEW_HEAP_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/pagemap.h"
#include "snapshot/view_heap.h"
#include "snapshot/view_parts.h"

#define PAGE HEADER_PAGE_BYTES
#define BATCH_PAGES 64 /* pages whose entries and headers are copied at once */
#define SLOTS_MAX (PAGE / 8)
#define LEAF_PAGES ((size_t)1 << LEAF_BITS)
#define MAX_HOLDERS 64 /* contexts in a slab that are told apart; the others share the last place */

struct range {
    uint64_t start, end;
};

struct cached {
    uint64_t address;
    uint32_t bytes;
};

struct holder {
    uint32_t context;
    uint64_t bytes, resident; /* of its objects; of those that start in a resident page */
};

/* Copies of a page's headers, and of their second words where some have one. */
struct table {
    uint16_t headers[SLOTS_MAX], more[SLOTS_MAX];
};

/* The slab that is being walked. */
struct slab {
    uint16_t code;
    uint32_t pages, resident_pages;
    uint64_t live, cached; /* bytes in resident pages */
    struct holder holders[MAX_HOLDERS];
    uint32_t n_holders;
};

struct view_heap {
    struct view *view;
    uint8_t class_slab_pages[CLASSES_MAX];
    uint64_t *root; /* the page map's */
    struct heap_context *contexts;
    uint32_t *owners; /* outside_owners() */
    uint32_t n_contexts;
    struct range *own;
    uint32_t n_own, n_sorted; /* of own */
    size_t own_room;
    struct cached *cached;
    uint32_t n_cached;
    size_t cached_room;
    uint64_t *freed; /* addresses of objects in free buffers, ascending */
    uint32_t n_freed;
    size_t freed_room;
    uint64_t big_start, big_end; /* the big object that was met last */
    /* While a mapping is walked */
    struct slab slab;
    struct heap_parts *parts;
    uint32_t big_context;
    bool big_is_freed;
    uint64_t entries[BATCH_PAGES];
    uint8_t begins[BATCH_PAGES]; /* not 0: an extent begins there */
    struct table *tables;   /* BATCH_PAGES of them */
    uint64_t last_chunk;    /* of header tables: added to `own` already */
};

/* Notes memory of jespan's own. Returns 0 or a negative errno. */
int view_heap_add_own(struct view_heap *h, uint64_t start, uint64_t bytes);

#endif
