/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers: page map and header tables, everything off the hot path. */
#include "headers.h"

#include <errno.h>

#include "../jemalloc-hooks/binding.h"
#include "lock.h"
#include "meta.h"

#define LEAF_BYTES (((size_t)1 << LEAF_BITS) * sizeof(page_entry_t))

_Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];

static void give_table_back(uint64_t entry)
{
    tables_give_back(entry_slot(entry, 0), CODE_SLOT_SHIFT(entry_code(entry)));
}

/* Under LOCK_HEADERS. */
static page_entry_t *page_or_leaf(uintptr_t p)
{
    page_entry_t *page = headers_page(p);
    if (page || p >> ADDRESS_BITS)
        return page;
    page_entry_t *leaf = meta_map(LEAF_BYTES);
    if (!leaf)
        return NULL;
    store_release(&page_root[p >> (HEADER_PAGE_BITS + LEAF_BITS)], leaf);
    return headers_page(p);
}

COLD uint64_t headers_install(uintptr_t p, uint16_t code)
{
    uint64_t entry = 0;
    lock(LOCK_HEADERS);
    page_entry_t *page = page_or_leaf(p);
    if (page) {
        entry = load_acquire(page);
        if (entry_code(entry) != code) {
            if (entry_is_small(entry))
                give_table_back(entry);
            header_t *table = tables_take(CODE_SLOT_SHIFT(code));
            entry = table ? (uint64_t)(uintptr_t)table << 16 | code : 0;
            store_release(page, entry);
        }
    }
    unlock(LOCK_HEADERS);
    return entry;
}

int headers_set_big(uintptr_t p, size_t usable_bytes, uint32_t tag)
{
    page_entry_t *page = headers_page(p);
    if (unlikely(!page)) {
        lock(LOCK_HEADERS);
        page = page_or_leaf(p);
        unlock(LOCK_HEADERS);
        if (!page)
            return -ENOMEM;
    }
    uint64_t old = load_relaxed(page);
    if (unlikely(entry_is_small(old)))
        give_table_back(old);
    uint64_t kib = usable_bytes / 1024;
    if (unlikely(kib > BIG_KIB_MAX || usable_bytes % 1024))
        kib = 0;
    store_relaxed(page, (uint64_t)tag << BIG_TAG_SHIFT | kib << BIG_KIB_SHIFT | ENTRY_BIG);
    return 0;
}

/* The pages are nobody's: jemalloc is about to give them back, and hands them out again only after this. */
COLD void headers_release(uintptr_t start, size_t bytes)
{
    for (uintptr_t p = start; p < start + bytes; p += HEADER_PAGE_BYTES) {
        page_entry_t *page = headers_page(p);
        if (!page) {
            p |= ((uintptr_t)1 << (HEADER_PAGE_BITS + LEAF_BITS)) - HEADER_PAGE_BYTES; /* on to the next leaf */
            continue;
        }
        uint64_t entry = load_relaxed(page);
        if (!entry)
            continue;
        store_relaxed(page, 0);
        if (entry_is_small(entry))
            give_table_back(entry);
    }
    tables_tidy();
}
