/* SPDX-License-Identifier: BSD-2-Clause */
/* The page map and the headers. The header of an object lies outside the object and holds the tag: the number of the
 * context that owns it.
 *
 * The page map is a two-level radix tree from a 4 KiB page to one 64-bit entry:
 *     small   address of the page's header table (48 bits) | place (3) | class number (5) | 52 + slot shift (8)
 *     big     header (16 bits) and its second word (16) | where in the page the object starts, in units of 16 bytes (8) | usable
 *             bytes (11 bits and a shift of 5 bits; 0: ask jemalloc) | PAGE_ENTRY_BIG (8)
 *     0       no object starts in this page
 * The lowest byte is 55 to 63, which have PAGE_ENTRY_SMALL_BIT in common, or PAGE_ENTRY_BIG, or 0. In a page that a span arena
 * has claimed, the byte has PAGE_ENTRY_ARENA and lacks PAGE_ENTRY_SMALL_BIT: 0x97 to 0x9f, 0xc0, or 0x80. The fast paths look for
 * PAGE_ENTRY_SMALL_BIT or a whole code, so they leave such pages to the slow paths, which use the functions whose names end
 * in _any. The number of the arena follows the leaf's entries. A table has one header for every
 * 2^slot_shift bytes of the page: header.h. The slot of an object is that of its first byte. Objects of one class start at least
 * that far apart, so each has its own slot. Tag 0 means no object.
 *
 * A slot does not tell where its object starts: an address inside the object may have the same slot. So each page also
 * has a *place* in its slab: classes.h. It is set when the table is installed. It becomes wrong when jemalloc reuses the page for
 * another slab. When an address seems to be no object's start, the caller asks pagemap_find_start(), which uses the bounds of extents
 * that hooks have seen.
 *
 * Who writes what:
 * - slots and big entries: the thread that allocates or frees the object, its only owner then;
 * - a new table: the first thread that allocates in a page whose slab changed class, by compare-and-swap. All objects of
 *   the old class are gone by then, and the slab cannot change again while this thread has an object in it;
 * - releases, claims and the end of claims: extent hooks, for pages that hold no object;
 * - leaves: any thread, by compare-and-swap.
 *
 * All this memory is type-stable: a reader that comes too late reads a wrong tag, never a bad address.
 */
#ifndef JESPAN_PAGEMAP_H
#define JESPAN_PAGEMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/classes.h"
#include "heap/header.h"
#include "heap/tables.h"

/* ---- The page map ---- */

#define ADDRESS_BITS 48
#define LEAF_BITS 18
#define ROOT_BITS (ADDRESS_BITS - HEADER_PAGE_BITS - LEAF_BITS)
#define PAGE_ENTRY_BIG 0x40u
#define PAGE_ENTRY_ARENA 0x80u
#define PAGE_ENTRY_SMALL_BIT 0x20u
#define PAGE_ENTRY_SMALL_ANY 0x1fu /* each small entry's shift has some of these bits, also in pages of span arenas */
#define PAGE_ENTRY_CLASS_MASK ((1u << CLASS_BITS) - 1)
#define PAGE_ENTRY_CODE_MASK (PAGE_ENTRY_CLASS_MASK << 8 | 0xffu)
#define PAGE_ENTRY_PLACE_SHIFT (8 + CLASS_BITS)
#define BIG_SHIFT_SHIFT 8
#define BIG_SHIFT_MASK 31u
#define BIG_BYTES_SHIFT 13
#define BIG_BYTES_MASK 0x7ffu
#define BIG_START_SHIFT 24
#define BIG_START_UNIT 16
#define BIG_TAG_SHIFT 32

typedef _Atomic uint64_t page_entry_t;
extern _Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];

/* Which page of its leaf the page of `p` is. */
HOT_INLINE uintptr_t pagemap_index(uintptr_t p)
{
    return (p >> HEADER_PAGE_BITS) & (((uintptr_t)1 << LEAF_BITS) - 1);
}

HOT_INLINE uint32_t page_offset(uintptr_t p)
{
    return (uint32_t)p & (HEADER_PAGE_BYTES - 1);
}

/* The entry of the page of `p`, or NULL where the map has no leaf. `p` is below 2^ADDRESS_BITS. */
HOT_INLINE page_entry_t *pagemap_page_of(uintptr_t p)
{
    page_entry_t *leaf = load_acquire(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)]);
    return likely(leaf) ? &leaf[pagemap_index(p)] : NULL;
}

/* The same for any address. */
HOT_INLINE page_entry_t *pagemap_page(uintptr_t p)
{
    return unlikely(p >> (HEADER_PAGE_BITS + LEAF_BITS) >= (uintptr_t)1 << ROOT_BITS) ? NULL : pagemap_page_of(p);
}

/* Follows each leaf: whether an extent begins at a page, and the pages' span arenas. Each of them has bytes of its own for
 * a page, so hooks write them without a lock prefix: jemalloc has the page for one thread at a time. */
struct leaf_more {
    _Atomic uint8_t begins[(size_t)1 << LEAF_BITS]; /* 1: an extent begins here */
    _Atomic uint16_t arena[(size_t)1 << LEAF_BITS]; /* 0: none */
};

/* What follows the leaf of p, which has one. */
HOT_INLINE const struct leaf_more *pagemap_more_of(uintptr_t p)
{
    const page_entry_t *leaf = load_relaxed(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)]);
    return (const struct leaf_more *)(leaf + ((size_t)1 << LEAF_BITS));
}

/* The arena of a page that one has claimed. */
HOT_INLINE uint16_t pagemap_claimed_by(uintptr_t p)
{
    return load_relaxed(&pagemap_more_of(p)->arena[pagemap_index(p)]);
}

HOT_INLINE uint16_t page_entry_code(uint64_t entry)
{
    return (uint16_t)entry & PAGE_ENTRY_CODE_MASK;
}

HOT_INLINE unsigned page_entry_class(uint64_t small_entry)
{
    return (uint8_t)(small_entry >> 8) & PAGE_ENTRY_CLASS_MASK;
}

/* Where objects start in the page: an index of class_starts. */
HOT_INLINE size_t page_entry_start(uint64_t small_entry)
{
    return (uint8_t)(small_entry >> 8);
}

/* Whether an object starts at p, by the place of its page, which has this small entry. False may be wrong: then
 * pagemap_find_start() decides. */
HOT_INLINE bool page_entry_starts_at(uint64_t small_entry, uintptr_t p)
{
    return class_starts_at(page_entry_start(small_entry), page_offset(p));
}

/* Decides when page_entry_starts_at() returned false, and sets the page's place. Returns true also where it is not known; then
 * the place is that of an object at p. The page has a small entry. */
bool pagemap_find_start(uintptr_t p);

HOT_INLINE bool page_entry_is_small(uint64_t entry)
{
    return entry & PAGE_ENTRY_SMALL_BIT;
}

HOT_INLINE bool page_entry_is_big(uint64_t entry)
{
    return (uint8_t)entry == PAGE_ENTRY_BIG;
}

/* The header of a big object: its two words are the upper half of its page's entry. */
HOT_INLINE header_t *page_entry_big_slot(page_entry_t *page)
{
    return (header_t *)page + 2;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && BIG_TAG_SHIFT == 32, "the header is in the entry's upper half");

/* The header of the object at `p`, in a page with this small entry. On x86-64 a shift uses only the lowest bits of its
 * count, so the mask costs no instruction. */
HOT_INLINE header_t *page_entry_slot(uint64_t entry, uintptr_t p)
{
    header_t *table = (header_t *)(uintptr_t)(entry >> 16);
    return &table[(uint64_t)p << (64 - HEADER_PAGE_BITS) >> (entry & CODE_SHIFT_MASK)];
}

/* The tag of the object at `i` in a free buffer. If the thread flushes meanwhile, it may be another object's. 0: the object
 * was freed twice, or nothing was ever there. */
static inline uint32_t free_buffer_tag(const struct thread *t, uint32_t i)
{
    header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
    return slot ? header_get(slot, class_is_big(load_relaxed(&t->free_buffer_class[i]))) : 0;
}

/* ---- The same, also for pages of span arenas ---- */

HOT_INLINE bool page_entry_is_small_any(uint64_t entry)
{
    return entry & PAGE_ENTRY_SMALL_ANY;
}

HOT_INLINE bool page_entry_is_big_any(uint64_t entry)
{
    return entry & PAGE_ENTRY_BIG;
}

HOT_INLINE header_t *page_entry_slot_any(uint64_t small_entry, uintptr_t p)
{
    return page_entry_slot(small_entry | PAGE_ENTRY_SMALL_BIT, p);
}

/* The value of page_entry_code() that this entry would have in a page of no span arena. */
HOT_INLINE uint16_t page_entry_plain_code(uint64_t entry)
{
    uint16_t code = page_entry_code(entry) & (uint16_t)~PAGE_ENTRY_ARENA;
    return page_entry_is_small_any(entry) ? code | PAGE_ENTRY_SMALL_BIT : code;
}

/* ---- Both kinds ---- */

HOT_INLINE uint32_t page_entry_big_tag(uint64_t entry)
{
    return header_unpack((uint32_t)(entry >> BIG_TAG_SHIFT));
}

/* Gives the page of `p`, in which an object of the caller begins, this class and an empty table. The table comes from `cache`, and
 * the page's old one goes there. Returns the new entry, with PAGE_ENTRY_ARENA in a claimed page, or 0 when out of memory. */
uint64_t pagemap_install(struct table_cache *cache, uintptr_t p, uint16_t code);

/* Writes the entry of the big object at `p`. Returns 0, HEADERS_IN_ARENA in a claimed page, or -ENOMEM. */
#define HEADERS_IN_ARENA 1
int pagemap_set_big(uintptr_t p, size_t usable_bytes, uint32_t tag);

/* The same in a page that has the entry of such an object, or none. False: this does not hold, and nothing has changed. */
bool pagemap_set_big_again(uintptr_t p, size_t usable_bytes, uint32_t tag);

HOT_INLINE size_t page_entry_big_bytes(uint64_t entry)
{
    return (size_t)((entry >> BIG_BYTES_SHIFT) & BIG_BYTES_MASK) << ((entry >> BIG_SHIFT_SHIFT) & BIG_SHIFT_MASK);
}

/* Where in its page a big object with this entry starts. */
HOT_INLINE uintptr_t page_entry_big_start(uint64_t entry)
{
    return (uint8_t)(entry >> BIG_START_SHIFT) * (uintptr_t)BIG_START_UNIT;
}

HOT_INLINE bool page_entry_big_starts_at(uint64_t entry, uintptr_t p)
{
    return (p & (HEADER_PAGE_BYTES - 1)) == page_entry_big_start(entry);
}

/* ---- For extent hooks ----
 * These functions wait for no lock and allocate nothing from the heap. The pages hold no object. */

/* Notes that an extent begins at p, that none begins there any more, or nowhere between two addresses. */
void pagemap_bound(uintptr_t p);
void pagemap_unbound(uintptr_t p);
void pagemap_unbound_all(uintptr_t from, uintptr_t to);

/* The program has extent hooks of its own, so bounds are not reliable any more. */
void pagemap_void_bounds(void);

/* Releases the tables of pages. Claims stay. Does nothing for pages of an arena that keeps its tables. */
void pagemap_release(uintptr_t start, size_t bytes);

/* From now on the arena's pages keep their tables. No hook releases them, only pagemap_drop_tables(). Its caller owns
 * the arena and has no object in these pages, so it may also walk over the tables. `arena` is below
 * HEADERS_ARENAS_MAX. */
#define HEADERS_ARENAS_MAX 4096
void pagemap_keep_tables(uint16_t arena);
void pagemap_drop_tables(uintptr_t start, size_t bytes);

/* Claims whole pages for a span arena, until they are disowned. Returns 0, or -ENOMEM with nothing claimed. Arenas have
 * numbers from 1. Number 0 marks pages that no arena owns: pagemap_is_guard(). */
int pagemap_claim(uintptr_t start, size_t bytes, uint16_t arena);
void pagemap_disown(uintptr_t start, size_t bytes);

/* The span arena that has claimed the page of any address; 0: none. */
uint16_t pagemap_arena(uintptr_t p);
bool pagemap_is_guard(uintptr_t p);

/* Finds the first run of pages from *start on, below `end`, that the arena has claimed. Moves *start there and returns
 * the bytes of the run, or 0 where there is none. */
size_t pagemap_next_claim(uint16_t arena, uintptr_t *start, uintptr_t end);

#endif
