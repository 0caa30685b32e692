/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables, which goes back to the system when the heap has shrunk.
 *
 * Tables of one slot shift lie together in chunks. A chunk without tables in use gives its pages to the system, but
 * keeps its addresses. So a reader that comes too late reads zeroes.
 */
#ifndef JESPAN_TABLES_H
#define JESPAN_TABLES_H

#include <stdint.h>

typedef _Atomic uint32_t header_t;

/* Returns an empty table for pages of this slot shift, or NULL when out of memory. Under LOCK_HEADERS. */
header_t *tables_take(uint32_t slot_shift);

/* Gives a table back. All its headers must be 0. Takes no lock and calls nothing, so extent hooks may use it. */
void tables_give_back(header_t *table, uint32_t slot_shift);

/* Returns given-back tables to their chunks and empty chunks to the system, if there are many and LOCK_HEADERS is
 * free. */
void tables_tidy(void);

/* Bytes of the tables in use, and of the chunks that hold memory. */
uint64_t tables_used_bytes(void);
uint64_t tables_held_bytes(void);

#endif
