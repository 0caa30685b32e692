/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables.
 *
 * Tables of one slot shift lie together in chunks. A chunk without tables in use gives its pages to the system, but keeps its
 * addresses. So a reader that comes too late reads zeroes.
 *
 * Each thread keeps a few tables. When a page changes its class, the thread takes a table from these, and keeps the one that the page
 * had. So it needs no lock, and tables that lie side by side tend to belong to one thread. */
#ifndef JESPAN_TABLES_H
#define JESPAN_TABLES_H

#include <stdint.h>

#include "heap/header.h"

struct free_table;

/* Tables that a thread keeps, by slot shift. Only the thread touches them. All zero: none. */
struct table_cache {
    struct free_table *first[HEADER_PAGE_BITS];
    uint8_t n[HEADER_PAGE_BITS];
    uint8_t doublings[HEADER_PAGE_BITS]; /* of the next group that it takes */
    _Bool busy; /* a signal handler must leave it alone now */
};

/* Returns an empty table for pages of this slot shift, or NULL when out of memory. `cache` may be NULL. */
header_t *tables_take(struct table_cache *cache, uint32_t slot_shift);

/* Keeps a table for tables_take(), or gives it back. All its headers must be 0. `cache` may be NULL. */
void tables_keep(struct table_cache *cache, header_t *table, uint32_t slot_shift);

/* Gives all of a cache back. Its thread ends. */
void tables_empty_cache(struct table_cache *cache);

/* Addresses for the first tables: tables_region_bytes() that nobody touched, aligned to TABLES_ALIGN. To be called once, at boot. */
#define TABLES_ALIGN ((size_t)64 * 1024)
size_t tables_region_bytes(void);
void tables_boot(char *start);

/* Gives a table back. All its headers must be 0. Takes no lock and calls nothing, so extent hooks may use it. */
void tables_give_back(header_t *table, uint32_t slot_shift);

/* Returns given-back tables to their chunks and empty chunks to the system, if there are many and LOCK_HEADERS is
 * free. */
void tables_tidy(void);

/* Bytes of the tables in use, those that threads keep included, and of the chunks that hold memory. */
uint64_t tables_used_bytes(void);
uint64_t tables_held_bytes(void);

/* How often a page lost its table, or the entry of an object of a middle class. A header that was found before may belong
 * to another object since. */
extern INTERNAL _Atomic uint64_t tables_changes;

#endif
