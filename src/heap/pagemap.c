/* SPDX-License-Identifier: BSD-2-Clause */
/* The page map: all functions off the hot path. */
#include "heap/pagemap.h"

#include <errno.h>

#include "base/meta.h"
#include "jemalloc/binding.h"

#define LEAF_PAGES ((size_t)1 << LEAF_BITS)
#define LEAF_SPAN ((uintptr_t)1 << (HEADER_PAGE_BITS + LEAF_BITS)) /* addresses of one leaf */

_Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];
static _Atomic bool keeps_tables[HEADERS_ARENAS_MAX];

_Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tables_changes;

static header_t *table_of(uint64_t entry)
{
    return page_entry_is_small_any(entry) ? page_entry_slot_any(entry, 0) : NULL;
}

static uint32_t shift_of(uint64_t small_entry)
{
    return CODE_SLOT_SHIFT(page_entry_plain_code(small_entry));
}

/* To be called before a page's entry becomes another one. The page holds no object. */
static void note_change(uint64_t entry)
{
    if (page_entry_is_small_any(entry) || class_of_big(page_entry_big_bytes(entry)))
        atomic_fetch_add_explicit(&tables_changes, 1, memory_order_relaxed);
}

/* Gives the page's table back, if it has one. The page holds no object. */
static void give_table_back(uint64_t entry)
{
    note_change(entry);
    if (page_entry_is_small_any(entry))
        tables_give_back(table_of(entry), shift_of(entry));
}

#define LEAF_BYTES (LEAF_PAGES * sizeof(page_entry_t) + sizeof(struct leaf_more))

/* Returns the leaf of an address. Where there is none, it maps a new one, unless another thread is faster. */
static COLD page_entry_t *leaf_or_new(uintptr_t p)
{
    _Atomic(page_entry_t *) *place = &page_root[p / LEAF_SPAN];
    page_entry_t *leaf = load_acquire(place);
    if (leaf)
        return leaf;
    /* The entry is touched next, and where extents begin, in struct leaf_more: less than META_RANGE_BYTES behind it. */
    page_entry_t *made = meta_map_hot(LEAF_BYTES, pagemap_index(p) * sizeof *made & ~(size_t)(HEADER_PAGE_BYTES - 1));
    if (!made || atomic_compare_exchange_strong(place, &leaf, made))
        return made;
    meta_unmap(made, LEAF_BYTES);
    return leaf;
}

static COLD page_entry_t *page_or_leaf(uintptr_t p)
{
    page_entry_t *leaf = p >> ADDRESS_BITS ? NULL : leaf_or_new(p);
    return leaf ? &leaf[pagemap_index(p)] : NULL;
}

/* ---- Where objects start ---- */

static _Atomic bool bounds_are_void;

/* Returns NULL where the page has no leaf. */
static struct leaf_more *more_of(uintptr_t p)
{
    page_entry_t *leaf = p >> ADDRESS_BITS ? NULL : load_acquire(&page_root[p / LEAF_SPAN]);
    return leaf ? (struct leaf_more *)(leaf + LEAF_PAGES) : NULL;
}

static COLD struct leaf_more *more_or_new(uintptr_t p)
{
    page_entry_t *leaf = p >> ADDRESS_BITS ? NULL : leaf_or_new(p);
    return leaf ? (struct leaf_more *)(leaf + LEAF_PAGES) : NULL;
}

/* Mostly they are known already: the ends of an extent that is split, or of two that are merged. */
void pagemap_bound(uintptr_t p)
{
    struct leaf_more *more = more_of(p);
    if (unlikely(!more) && !(more = more_or_new(p)))
        return;
    if (!load_relaxed(&more->begins[pagemap_index(p)]))
        store_release(&more->begins[pagemap_index(p)], 1);
}

void pagemap_unbound(uintptr_t p)
{
    struct leaf_more *more = more_of(p);
    if (likely(more))
        store_release(&more->begins[pagemap_index(p)], 0);
}

COLD void pagemap_unbound_all(uintptr_t from, uintptr_t to)
{
    for (uintptr_t p = from; p < to; p += HEADER_PAGE_BYTES) {
        struct leaf_more *more = more_of(p);
        if (!more)
            p |= LEAF_SPAN - HEADER_PAGE_BYTES;
        else if (load_relaxed(&more->begins[pagemap_index(p)]))
            store_release(&more->begins[pagemap_index(p)], 0);
    }
}

COLD void pagemap_void_bounds(void)
{
    store_relaxed(&bounds_are_void, true);
}

static bool is_bound(uintptr_t page)
{
    const struct leaf_more *more = more_of(page);
    return more && load_acquire(&more->begins[pagemap_index(page)]);
}

/* The extent that the page is in, if it is as large as a slab of the class. Returns 0 if it is not, or if its bounds
 * are unknown. */
static uintptr_t slab_of(uintptr_t page, unsigned class)
{
    size_t bytes = class_slab_pages[class] * HEADER_PAGE_BYTES;
    uintptr_t start = page, end = page + HEADER_PAGE_BYTES;
    while (!is_bound(start) && page - start < bytes)
        start -= HEADER_PAGE_BYTES;
    while (!is_bound(end) && end - start < bytes)
        end += HEADER_PAGE_BYTES;
    return is_bound(start) && is_bound(end) && end - start == bytes && !load_relaxed(&bounds_are_void) ? start : 0;
}

/* The bits of an entry for the place of the page of p, which is `within` bytes into an object. */
static uint64_t place_bits(uintptr_t p, size_t within, unsigned class)
{
    int32_t offset = (int32_t)(p & (HEADER_PAGE_BYTES - 1)) - (int32_t)within;
    return (uint64_t)class_place(class, offset) << PAGE_ENTRY_PLACE_SHIFT;
}

/* A thread may learn it, and another one too, while an object of the class is in the page. */
static void learn_place(page_entry_t *page, uint64_t entry, uint64_t place)
{
    uint64_t known = (entry & ~((CLASS_PLACES - 1ull) << PAGE_ENTRY_PLACE_SHIFT)) | place;
    atomic_compare_exchange_strong(page, &entry, known);
}

COLD bool pagemap_find_start(uintptr_t p)
{
    page_entry_t *page = pagemap_page_of(p);
    uint64_t entry = load_relaxed(page);
    unsigned class = page_entry_class(entry);
    size_t bytes = class_bytes[class], natural = bytes & -bytes;
    if (p & (natural - 1)) /* slabs begin at pages, so objects are aligned like this */
        return false;
    uintptr_t slab = slab_of(p & ~(HEADER_PAGE_BYTES - 1), class);
    size_t within = slab ? (p - slab) % bytes : 0;
    learn_place(page, entry, place_bits(p, within, class));
    return !within;
}

/* The code of a small entry in a page whose entry is `old` now. */
static uint64_t code_beside(uint64_t old, uint16_t code)
{
    return old & PAGE_ENTRY_ARENA ? (code & ~PAGE_ENTRY_SMALL_BIT) | PAGE_ENTRY_ARENA : code;
}

/* Nothing has the entry's table any more: the page has another entry, or never had this one. */
static void keep_table(struct table_cache *cache, uint64_t entry)
{
    if (page_entry_is_small_any(entry))
        tables_keep(cache, table_of(entry), shift_of(entry));
}

/* For the page of p, at which an object starts. A table of the same slot shift stays. 0: no memory. */
static uint64_t next_entry(struct table_cache *cache, uint64_t old, uint16_t code, uintptr_t p)
{
    bool stays = page_entry_is_small_any(old) && shift_of(old) == CODE_SLOT_SHIFT(code);
    header_t *table = stays ? table_of(old) : tables_take(cache, CODE_SLOT_SHIFT(code));
    return table ? (uint64_t)(uintptr_t)table << 16 | place_bits(p, 0, CODE_CLASS(code)) | code_beside(old, code) : 0;
}

/* Threads that allocate in the page at the same time all want this class, so one of them wins. */
NOINLINE uint64_t pagemap_install(struct table_cache *cache, uintptr_t p, uint16_t code)
{
    page_entry_t *page = page_or_leaf(p);
    uint64_t old = page ? load_acquire(page) : 0;
    while (page && page_entry_plain_code(old) != code) {
        uint64_t entry = next_entry(cache, old, code, p), seen = old;
        if (!entry)
            return 0;
        note_change(old);
        bool is_set = atomic_compare_exchange_strong(page, &seen, entry);
        uint64_t unused = is_set ? old : entry;
        if (table_of(old) != table_of(entry))
            keep_table(cache, unused);
        old = is_set ? entry : seen;
    }
    return old;
}

/* For a page that has another entry, or is claimed. */
static COLD int set_big_over(page_entry_t *page, uint64_t old, uint64_t entry)
{
    give_table_back(old);
    store_relaxed(page, entry | (old & PAGE_ENTRY_ARENA));
    return old & PAGE_ENTRY_ARENA ? HEADERS_IN_ARENA : 0;
}

/* jemalloc's classes have few bits that are not 0, so most fit. */
static uint64_t packed_bytes(size_t bytes)
{
    unsigned shift = (unsigned)__builtin_ctzl(bytes);
    shift = shift < BIG_SHIFT_MASK ? shift : BIG_SHIFT_MASK;
    if (unlikely(bytes >> shift > BIG_BYTES_MASK))
        return 0;
    return (uint64_t)(bytes >> shift) << BIG_BYTES_SHIFT | shift << BIG_SHIFT_SHIFT;
}

static uint64_t big_entry(uintptr_t p, size_t usable_bytes, uint32_t tag)
{
    uint64_t start = (p & (HEADER_PAGE_BYTES - 1)) / BIG_START_UNIT;
    return (uint64_t)header_pack(tag) << BIG_TAG_SHIFT | start << BIG_START_SHIFT | packed_bytes(usable_bytes) | PAGE_ENTRY_BIG;
}

bool pagemap_set_big_again(uintptr_t p, size_t usable_bytes, uint32_t tag)
{
    page_entry_t *page = pagemap_page_of(p);
    uint64_t old = page ? load_relaxed(page) : PAGE_ENTRY_ARENA, entry = big_entry(p, usable_bytes, tag);
    if (unlikely(old && (uint32_t)old != (uint32_t)entry) &&
        (old & (PAGE_ENTRY_SMALL_BIT | PAGE_ENTRY_ARENA) || class_of_big(page_entry_big_bytes(old))))
        return false;
    store_relaxed(page, entry);
    return true;
}

int pagemap_set_big(uintptr_t p, size_t usable_bytes, uint32_t tag)
{
    page_entry_t *page = pagemap_page(p);
    if (unlikely(!page)) {
        page = page_or_leaf(p);
        if (!page)
            return -ENOMEM;
    }
    uint64_t old = load_relaxed(page), entry = big_entry(p, usable_bytes, tag);
    if (unlikely((uint32_t)old != (uint32_t)entry && old))
        return set_big_over(page, old, entry);
    store_relaxed(page, entry);
    return 0;
}

/* Clears the bits of each page's entry that are not in `kept`. The pages hold no object: jemalloc is about to give them
 * back, and uses them again only after this. */
static void release(uintptr_t start, size_t bytes, uint64_t kept)
{
    for (uintptr_t p = start; p < start + bytes; p += HEADER_PAGE_BYTES) {
        page_entry_t *page = pagemap_page(p);
        if (!page) {
            p |= LEAF_SPAN - HEADER_PAGE_BYTES; /* continue at the next leaf */
            continue;
        }
        uint64_t entry = load_relaxed(page);
        if (entry == (entry & kept))
            continue;
        store_relaxed(page, entry & kept);
        give_table_back(entry);
    }
    tables_tidy();
}

COLD void pagemap_keep_tables(uint16_t arena)
{
    store_relaxed(&keeps_tables[arena % HEADERS_ARENAS_MAX], true);
}

COLD void pagemap_drop_tables(uintptr_t start, size_t bytes)
{
    release(start, bytes, PAGE_ENTRY_ARENA);
}

COLD void pagemap_release(uintptr_t start, size_t bytes)
{
    uint16_t arena = pagemap_arena(start);
    if (!arena || !load_relaxed(&keeps_tables[arena % HEADERS_ARENAS_MAX]))
        release(start, bytes, PAGE_ENTRY_ARENA);
}

/* ---- Span arenas ---- */

/* The arena's number is set before the mark on the page, and cleared after it. So each marked page has a number. */
static int claim_page(uintptr_t p, uint16_t arena)
{
    page_entry_t *page = page_or_leaf(p);
    if (!page)
        return -ENOMEM;
    store_relaxed(&more_of(p)->arena[pagemap_index(p)], arena);
    give_table_back(atomic_exchange(page, PAGE_ENTRY_ARENA));
    return 0;
}

COLD int pagemap_claim(uintptr_t start, size_t bytes, uint16_t arena)
{
    for (uintptr_t p = start; p < start + bytes; p += HEADER_PAGE_BYTES) {
        int error = claim_page(p, arena);
        if (error) {
            pagemap_disown(start, p - start);
            return error;
        }
    }
    return 0;
}

COLD void pagemap_disown(uintptr_t start, size_t bytes)
{
    release(start, bytes, 0);
    atomic_thread_fence(memory_order_release);
    for (uintptr_t p = start; p < start + bytes; p += HEADER_PAGE_BYTES) {
        struct leaf_more *more = more_of(p);
        if (more)
            store_relaxed(&more->arena[pagemap_index(p)], 0);
        else
            p |= LEAF_SPAN - HEADER_PAGE_BYTES;
    }
}

uint16_t pagemap_arena(uintptr_t p)
{
    const struct leaf_more *more = more_of(p);
    return more ? load_relaxed(&more->arena[pagemap_index(p)]) : 0;
}

bool pagemap_is_guard(uintptr_t p)
{
    page_entry_t *page = pagemap_page(p);
    return page && load_acquire(page) == PAGE_ENTRY_ARENA && !pagemap_arena(p);
}

static bool skip_to(uint16_t arena, bool claimed, uintptr_t *p, uintptr_t end)
{
    while (*p < end && (pagemap_arena(*p) == arena) != claimed) {
        if (claimed && !more_of(*p))
            *p |= LEAF_SPAN - HEADER_PAGE_BYTES;
        *p += HEADER_PAGE_BYTES;
    }
    return *p < end;
}

size_t pagemap_next_claim(uint16_t arena, uintptr_t *start, uintptr_t end)
{
    if (!skip_to(arena, true, start, end))
        return 0;
    uintptr_t stop = *start;
    skip_to(arena, false, &stop, end);
    return stop - *start;
}
