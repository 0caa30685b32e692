/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers: for every object the tag of the context that owns it, out of line.
 *
 * The page map is a two-level radix tree from a 4 KiB page to one 64-bit entry:
 *     small   address of the page's header table (48 bits) | class number (8) | 52 + slot shift (8)
 *     big     tag (32 bits) | where in the page it starts, in 16 bytes (8) | usable bytes (11 bits, and 5 of a shift; 0: ask
 *             jemalloc) | ENTRY_BIG (8)
 *     0       nothing of ours starts in this page
 * The lowest byte is 55 to 63, which have ENTRY_SMALL_BIT in common, or ENTRY_BIG, or 0.
 * In a page that a span arena has claimed it has ENTRY_ARENA and lacks ENTRY_SMALL_BIT: 0x97 to 0x9f, 0xc0, or 0x80. So
 * the fast ways, which look for ENTRY_SMALL_BIT or a whole code, leave such pages to the slow ones, which read with the
 * functions whose names end in _any. Which arena it is says a second map, of the same two levels.
 * A table has one 4-byte slot for every 2^slot_shift bytes of the page; an object's slot is the one its first byte is
 * in. Objects of one class start further apart than that, so each has its own. Tag 0 means no object.
 *
 * Slots do not say where in them an object starts: an address inside of it may have the same one. So each page has a *place*
 * besides, which goes with where it lies in jemalloc's slab. It is learnt when the table is installed, and stands until the slab is another's: who finds that an address is no object's start by it asks
 * pagemap_find_start(), which knows by the bounds of extents that hooks saw.
 *
 * Who writes: a slot or a big entry, the thread that allocates or frees the object, which is its only owner then; a
 * table's installation, whoever allocates first in a page whose slab changed class, under LOCK_HEADERS (the objects of
 * the old class are all gone by then); a release, a claim or its end, an extent hook, for pages that hold no object.
 * Leaves come by compare-and-swap. All of it is type-stable memory: a reader that comes too late reads a wrong tag,
 * never a bad address.
 */
#ifndef JESPAN_HEADERS_H
#define JESPAN_HEADERS_H

#include <stdbool.h>

#include "heap/classes.h"
#include "heap/tables.h"

#define ADDRESS_BITS 48
#define LEAF_BITS 18
#define ROOT_BITS (ADDRESS_BITS - HEADER_PAGE_BITS - LEAF_BITS)
#define ENTRY_BIG 0x40u
#define ENTRY_ARENA 0x80u
#define ENTRY_SMALL_BIT 0x20u
#define ENTRY_SMALL_ANY 0x1fu /* a part of each small entry's shift, whoever's page it is */
#define BIG_SHIFT_SHIFT 8
#define BIG_SHIFT_MASK 31u
#define BIG_BYTES_SHIFT 13
#define BIG_BYTES_MASK 0x7ffu
#define BIG_START_SHIFT 24
#define BIG_START_UNIT 16
#define BIG_TAG_SHIFT 32

/* Beside the tag of an object of a region that belongs to somebody else: regions.h. In pages of span arenas only, so that
 * the fast ways never meet it. */
#define TAG_HANDED_OVER 0x80000000u

typedef _Atomic uint64_t page_entry_t;
extern _Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];

/* The entry of the page of `p`, an address below 2^ADDRESS_BITS; NULL where the map has none. */
HOT_INLINE page_entry_t *pagemap_page_of(uintptr_t p)
{
    page_entry_t *leaf = load_acquire(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)]);
    return likely(leaf) ? &leaf[(p >> HEADER_PAGE_BITS) & (((uintptr_t)1 << LEAF_BITS) - 1)] : NULL;
}

/* The same for any address at all. */
HOT_INLINE page_entry_t *pagemap_page(uintptr_t p)
{
    return unlikely(p >> ADDRESS_BITS) ? NULL : pagemap_page_of(p);
}

/* What each leaf has besides: places, and a bit for each page that an extent begins at. */
struct leaf_more {
    /* What makes the lowest 32 bits of an object's address a multiple of the class's bytes. */
    _Atomic uint16_t place[(size_t)1 << LEAF_BITS];
    _Atomic uint64_t bounds[((size_t)1 << LEAF_BITS) / 64];
};

/* Whether an object of this class starts at p, by what is known of its page, which has an entry. No: perhaps it does all the
 * same. */
HOT_INLINE bool pagemap_is_start(uintptr_t p, size_t class)
{
    const page_entry_t *leaf = load_relaxed(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)]);
    const struct leaf_more *more = (const struct leaf_more *)(leaf + ((size_t)1 << LEAF_BITS));
    uint64_t place = load_relaxed(&more->place[((uint32_t)p >> HEADER_PAGE_BITS) & (((uint32_t)1 << LEAF_BITS) - 1)]);
    return (place + (uint32_t)p) * class_reciprocal[class] < class_reciprocal[class];
}

/* The same, when that said no; and remembers the page's place. Yes, too, where it is not known. */
bool pagemap_find_start(uintptr_t p, size_t class);

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

/* ---- The same for pages of span arenas too ---- */

HOT_INLINE bool entry_is_small_any(uint64_t entry)
{
    return entry & ENTRY_SMALL_ANY;
}

HOT_INLINE bool entry_is_big_any(uint64_t entry)
{
    return entry & ENTRY_BIG;
}

HOT_INLINE header_t *entry_slot_any(uint64_t small_entry, uintptr_t p)
{
    return entry_slot(small_entry | ENTRY_SMALL_BIT, p);
}

/* What entry_code() would be in a page that is no span arena's. */
HOT_INLINE uint16_t entry_plain_code(uint64_t entry)
{
    uint16_t code = entry_code(entry) & (uint16_t)~ENTRY_ARENA;
    return entry_is_small_any(entry) ? code | ENTRY_SMALL_BIT : code;
}

/* ---- Of either kind ---- */

HOT_INLINE uint32_t entry_big_tag(uint64_t entry)
{
    return (uint32_t)(entry >> BIG_TAG_SHIFT);
}

/* Makes the page of `p` one of this class, with an empty table. Returns its entry, which is a span arena's in a claimed
 * page; 0 when out of memory. */
uint64_t pagemap_install(uintptr_t p, uint16_t code);

/* Writes the entry of the big object at `p`. Returns 0, HEADERS_IN_ARENA in a claimed page, or -ENOMEM. */
#define HEADERS_IN_ARENA 1
int pagemap_set_big(uintptr_t p, size_t usable_bytes, uint32_t tag);

HOT_INLINE size_t entry_big_bytes(uint64_t entry)
{
    return (size_t)((entry >> BIG_BYTES_SHIFT) & BIG_BYTES_MASK) << ((entry >> BIG_SHIFT_SHIFT) & BIG_SHIFT_MASK);
}

/* Whether a big object with this entry starts at p. */
HOT_INLINE bool entry_big_starts_at(uint64_t entry, uintptr_t p)
{
    uintptr_t start = (uint8_t)(entry >> BIG_START_SHIFT) * (uintptr_t)BIG_START_UNIT;
    return (p & (HEADER_PAGE_BYTES - 1)) == start;
}

/* The following wait for no lock and allocate nothing from the heap: for extent hooks. The pages hold no object. */

/* Bounds of extents: an extent begins there, or none does any more between two addresses. */
void pagemap_bound(uintptr_t p);
void pagemap_unbound(uintptr_t from, uintptr_t to);

/* Somebody else sees to extents as well: bounds are not to be relied on any more. */
void pagemap_void_bounds(void);

/* Releases the tables of pages, which stay claimed by whom they are. Pages of an arena that keeps its tables are left alone. */
void pagemap_release(uintptr_t start, size_t bytes);

/* The arena's pages keep their tables, for good: no hook releases them, only pagemap_drop_tables(), whose caller has the arena
 * to himself, and no object in these pages. So what walks over the tables owns them. Arenas are numbered below
 * HEADERS_ARENAS_MAX. */
#define HEADERS_ARENAS_MAX 4096
void pagemap_keep_tables(uint16_t arena);
void pagemap_drop_tables(uintptr_t start, size_t bytes);

/* Makes whole pages a span arena's until they are disowned. Returns 0 or -ENOMEM, with nothing claimed. Arenas are
 * numbered from 1; pages of number 0 are nobody's, but marked: pagemap_is_guard(). */
int pagemap_claim(uintptr_t start, size_t bytes, uint16_t arena);
void pagemap_disown(uintptr_t start, size_t bytes);

/* The span arena that claims the page of any address at all, 0: none. */
uint16_t pagemap_arena(uintptr_t p);
bool pagemap_is_guard(uintptr_t p);

/* The first run of pages that the arena claims from *start on, below `end`: moves *start there and returns its bytes, 0
 * where there is none. */
size_t pagemap_next_claim(uint16_t arena, uintptr_t *start, uintptr_t end);

#endif
