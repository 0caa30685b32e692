/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the page map, on addresses without memory: headers do not touch the objects themselves. */
#ifndef JESPAN_TESTS_PAGES_H
#define JESPAN_TESTS_PAGES_H

#include "heap/pagemap.h"

#define PAGE HEADER_PAGE_BYTES
#define LEAF ((uintptr_t)1 << (HEADER_PAGE_BITS + LEAF_BITS))

static inline int pages_boot(void **state)
{
    (void)state;
    classes_boot();
    return 0;
}

/* The map's entry for a page; 0: none. */
static inline uint64_t entry_at(uintptr_t p)
{
    page_entry_t *page = pagemap_page(p);
    return page ? load_acquire(page) : 0;
}

#endif
