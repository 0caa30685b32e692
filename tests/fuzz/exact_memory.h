/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own memory (base/meta.h) so that each piece ends where a page without access begins: each access behind a piece is
 * a crash. To be included once; it takes the place of base/meta.c. */
#ifndef JESPAN_TESTS_EXACT_MEMORY_H
#define JESPAN_TESTS_EXACT_MEMORY_H

#include <sys/mman.h>

#include "base/meta.h"

#define EXACT_MOST ((size_t)256 << 20) /* of a piece. Larger ones are from damaged figures */
#define EXACT_PAGE ((size_t)4096)
#define EXACT_ALIGN ((size_t)64)

static uint64_t exact_pieces; /* that are mapped now */

static inline size_t exact_rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) & ~(to - 1);
}

void *meta_map(size_t bytes)
{
    size_t pages = exact_rounded(bytes, EXACT_PAGE);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *p = bytes > EXACT_MOST ? MAP_FAILED : mmap(NULL, pages + EXACT_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + pages, EXACT_PAGE, PROT_NONE);
    exact_pieces++;
    return p + pages - exact_rounded(bytes, EXACT_ALIGN);
}

int meta_touch(void *p, size_t bytes)
{
    (void)p, (void)bytes;
    return 0;
}

void *meta_map_hot(size_t bytes, size_t hot)
{
    (void)hot;
    return meta_map(bytes);
}

void meta_unmap(void *p, size_t bytes)
{
    if (!p)
        return;
    exact_pieces--;
    munmap((char *)p - ((uintptr_t)p & (EXACT_PAGE - 1)), exact_rounded(bytes, EXACT_PAGE) + EXACT_PAGE);
}

/* Never returned, and so no leak. */
void *meta_alloc(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

int meta_array_begin(struct meta_array *a, size_t most)
{
    void *p = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *a = (struct meta_array){p == MAP_FAILED ? NULL : p, most, most};
    return p == MAP_FAILED ? -1 : 0;
}

bool meta_array_grow(struct meta_array *a, size_t bytes)
{
    return bytes <= a->mapped;
}

void meta_array_watch(struct meta_array *a)
{
    (void)a;
}

void meta_watch(void)
{
}

void *meta_emergency_alloc(size_t bytes)
{
    return meta_map(bytes);
}

void meta_return(void *p, size_t bytes)
{
    meta_unmap(p, bytes);
}

int meta_set_aside(size_t bytes)
{
    (void)bytes;
    return 0;
}

void meta_emergency_begin(void)
{
}

bool meta_emergency_end(void)
{
    return true;
}

uint64_t meta_alloc_bytes(void)
{
    return 0;
}

uint64_t meta_map_bytes(void)
{
    return 0;
}

#endif
