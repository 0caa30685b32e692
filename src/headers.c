/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers: page map and header tables, everything off the hot path. */
#include "headers.h"

#include <errno.h>

#include "../jemalloc-hooks/binding.h"
#include "lock.h"
#include "meta.h"

#define LEAF_BYTES (((size_t)1 << LEAF_BITS) * sizeof(page_entry_t))

_Atomic(page_entry_t *) page_root[(size_t)1 << ROOT_BITS];

/* A table that is not in use; lies in the table's first bytes. */
struct free_table {
    _Atomic(struct free_table *) next;
};

/* By slot shift. Released ones are pushed without a lock by extent hooks and taken all at once under LOCK_HEADERS, so
 * that no element is ever compared while it may be reused (no ABA). */
static _Atomic(struct free_table *) released[HEADER_PAGE_BITS];
static struct free_table *available[HEADER_PAGE_BITS]; /* LOCK_HEADERS */
static _Atomic uint64_t table_bytes;

static size_t bytes_of_table(uint32_t slot_shift)
{
    return (HEADER_PAGE_BYTES >> slot_shift) * sizeof(header_t);
}

/* Under LOCK_HEADERS. Slots of a table given back are zero but for the link. */
static header_t *take_table(uint32_t slot_shift)
{
    if (!available[slot_shift])
        available[slot_shift] = atomic_exchange_explicit(&released[slot_shift], NULL, memory_order_acquire);
    struct free_table *table = available[slot_shift];
    if (table) {
        available[slot_shift] = load_relaxed(&table->next);
        store_relaxed(&table->next, NULL);
    } else {
        table = meta_alloc(bytes_of_table(slot_shift));
    }
    if (table)
        atomic_fetch_add_explicit(&table_bytes, bytes_of_table(slot_shift), memory_order_relaxed);
    return (header_t *)table;
}

static void give_table_back(uint64_t entry)
{
    uint32_t slot_shift = entry & CODE_SHIFT_MASK;
    struct free_table *table = (struct free_table *)entry_slot(entry, 0);
    struct free_table *head = load_relaxed(&released[slot_shift]);
    do {
        store_relaxed(&table->next, head);
    } while (!atomic_compare_exchange_weak_explicit(&released[slot_shift], &head, table, memory_order_release,
                                                    memory_order_relaxed));
    atomic_fetch_sub_explicit(&table_bytes, bytes_of_table(slot_shift), memory_order_relaxed);
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
            header_t *table = take_table(code & CODE_SHIFT_MASK);
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
}

uint64_t headers_table_bytes(void)
{
    return load_relaxed(&table_bytes);
}
