/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers: for every object the tag of the context that owns it, out of line.
 *
 * The page map is a two-level radix tree from a 4 KiB page to one 64-bit entry:
 *     small   address of the page's header table (48 bits) | class number (8) | 52 + slot shift (8)
 *     big     tag (32 bits) | usable KiB (24 bits, 0: ask jemalloc) | ENTRY_BIG (8)
 *     0       nothing of ours starts in this page
 * The lowest byte is 55 to 63, which have ENTRY_SMALL_BIT in common, or ENTRY_BIG, or 0.
 * A table has one 4-byte slot for every 2^slot_shift bytes of the page; an object's slot is the one its first byte is
 * in. Objects of one class start further apart than that, so each has its own. Tag 0 means no object.
 *
 * Who writes: a slot or a big entry, the thread that allocates or frees the object, which is its only owner then; a
 * table's installation, whoever allocates first in a page whose slab changed class, under LOCK_HEADERS (the objects of
 * the old class are all gone by then); a release, an extent hook, for pages that hold no object. All of it is
 * type-stable memory: a reader that comes too late reads a wrong tag, never a bad address.
 */
#ifndef JESPAN_HEADERS_H
#define JESPAN_HEADERS_H

#include <stdbool.h>

#include "classes.h"
#include "tables.h"

#define ADDRESS_BITS 48
#define LEAF_BITS 18
#define ROOT_BITS (ADDRESS_BITS - HEADER_PAGE_BITS - LEAF_BITS)
#define ENTRY_BIG 0x40u
#define ENTRY_SMALL_BIT 0x20u
#define BIG_KIB_SHIFT 8
#define BIG_KIB_MAX 0xffffffu
#define BIG_TAG_SHIFT 32

typedef _Atomic uint64_t page_entry_t;
extern _Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];

/* The entry of the page of `p`, an address below 2^ADDRESS_BITS; NULL where the map has none. */
HOT_INLINE page_entry_t *headers_page_of(uintptr_t p)
{
    page_entry_t *leaf = load_acquire(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)]);
    return likely(leaf) ? &leaf[(p >> HEADER_PAGE_BITS) & (((uintptr_t)1 << LEAF_BITS) - 1)] : NULL;
}

/* The same for any address at all. */
HOT_INLINE page_entry_t *headers_page(uintptr_t p)
{
    return unlikely(p >> ADDRESS_BITS) ? NULL : headers_page_of(p);
}

HOT_INLINE uint16_t entry_code(uint64_t entry)
{
    return (uint16_t)entry;
}

HOT_INLINE unsigned entry_class(uint64_t small_entry)
{
    return (uint8_t)(small_entry >> 8);
}

HOT_INLINE bool entry_is_small(uint64_t entry)
{
    return entry & ENTRY_SMALL_BIT;
}

HOT_INLINE bool entry_is_big(uint64_t entry)
{
    return (uint8_t)entry == ENTRY_BIG;
}

/* The header of the object at `p`, in a page with this small entry. A shift takes the lowest bits of its count only, so
 * the entry itself will do on x86-64. */
HOT_INLINE header_t *entry_slot(uint64_t entry, uintptr_t p)
{
    header_t *table = (header_t *)(uintptr_t)(entry >> 16);
    return &table[(uint64_t)p << (64 - HEADER_PAGE_BITS) >> (entry & CODE_SHIFT_MASK)];
}

HOT_INLINE uint32_t entry_big_tag(uint64_t entry)
{
    return (uint32_t)(entry >> BIG_TAG_SHIFT);
}

/* Makes the page of `p` one of this class, with an empty table. Returns its entry, 0 when out of memory. */
uint64_t headers_install(uintptr_t p, uint16_t code);

/* Writes the entry of the big object at `p`. Returns 0 or -ENOMEM. */
int headers_set_big(uintptr_t p, size_t usable_bytes, uint32_t tag);

HOT_INLINE size_t entry_big_bytes(uint64_t entry)
{
    return (size_t)((entry >> BIG_KIB_SHIFT) & BIG_KIB_MAX) * 1024;
}

/* Releases the tables of pages that hold no object. Waits for no lock and allocates nothing: for extent hooks. */
void headers_release(uintptr_t start, size_t bytes);

#endif
