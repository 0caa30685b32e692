/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that are untouchable until they are opened. */
#include "guard/guard_pages.h"

#include <sys/mman.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static bool has_markers; /* constant after boot */

static void *map(size_t bytes, int access)
{
    void *p = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A huge page would hold many slots. */
static void *reserve_with_markers(size_t bytes)
{
    void *p = map(bytes, PROT_READ | PROT_WRITE);
    if (!p)
        return NULL;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    if (!madvise(p, bytes, MADV_GUARD_INSTALL))
        return p;
    munmap(p, bytes);
    return NULL;
}

void *guard_pages_reserve(size_t bytes)
{
    void *p = reserve_with_markers(bytes);
    has_markers = p != NULL;
    return p ? p : map(bytes, PROT_NONE);
}

bool guard_pages_open(void *p, size_t bytes)
{
    return !(has_markers ? madvise(p, bytes, MADV_GUARD_REMOVE) : mprotect(p, bytes, PROT_READ | PROT_WRITE));
}

void guard_pages_close(void *p, size_t bytes)
{
    if (has_markers && !madvise(p, bytes, MADV_GUARD_INSTALL))
        return;
    if (!has_markers)
        mprotect(p, bytes, PROT_NONE);
    madvise(p, bytes, MADV_DONTNEED);
}
