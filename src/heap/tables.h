/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables: from where they come, and how it goes back to the system when the heap has shrunk.
 *
 * Tables of one slot shift lie together in blocks. A block whose tables are all back gives its pages to the system, but
 * never its addresses: a reader that comes too late reads zeroes.
 */
#ifndef JESPAN_TABLES_H
#define JESPAN_TABLES_H

#include <stdint.h>

typedef _Atomic uint32_t header_t;

/* An empty table for pages of this slot shift; NULL when out of memory. Under LOCK_HEADERS. */
header_t *tables_take(uint32_t slot_shift);

/* Gives a table back whose headers are all 0. Takes no lock and calls no one: for extent hooks. */
void tables_give_back(header_t *table, uint32_t slot_shift);

/* Sorts what was given back into its blocks, and empty blocks to the system, if there is much of it and LOCK_HEADERS is
 * free. */
void tables_tidy(void);

/* Bytes of the tables in use, and of the blocks that hold memory. */
uint64_t tables_used_bytes(void);
uint64_t tables_held_bytes(void);

#endif
