/* SPDX-License-Identifier: BSD-2-Clause */
/* Address space in reserve for a thread's first call of jemalloc. */
#include "jemalloc/reserve.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/number.h"
#include "config.h"
#include "jemalloc/binding.h"

/* jemalloc maps 2 MiB at a time, aligned to 2 MiB: for its own data, for a new arena and for the cache, each at most
 * once. */
#define MAPPING_BYTES ((size_t)2 << 20)
#define RESERVE_BYTES (4 * MAPPING_BYTES)
#define PAGE_BYTES ((size_t)4096)

static THREAD_LOCAL char *left, *left_end; /* the unused part of the reserve */

static void release(char *start, char *end)
{
    if (start < end)
        munmap(start, (size_t)(end - start));
}

COLD bool reserve_begin(void)
{
    int saved = errno;
    char *p = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (p == MAP_FAILED)
        return false;
    left = p;
    left_end = p + RESERVE_BYTES;
    return true;
}

COLD void reserve_end(void)
{
    int saved = errno;
    release(left, left_end);
    left = left_end = NULL;
    errno = saved;
}

COLD void reserve_spend(void)
{
#ifdef JESPAN_BINDING_SHARED
    reserve_end();
#endif
}

static COLD void *take_from_reserve(size_t bytes, int protection)
{
    uintptr_t align = bytes % MAPPING_BYTES ? PAGE_BYTES : MAPPING_BYTES;
    char *start = (char *)round_up((uintptr_t)left, align);
    bytes = round_up(bytes, PAGE_BYTES);
    if (start > left_end || bytes > (size_t)(left_end - start))
        return MAP_FAILED;
    if (protection != (PROT_READ | PROT_WRITE) && mprotect(start, bytes, protection))
        return MAP_FAILED;
    release(left, start);
    left = start + bytes;
    return start;
}

COLD void *jespan_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *p = mmap(address, bytes, protection, flags, fd, offset);
    if (likely(p != MAP_FAILED))
        first_use_note(p, bytes);
    if (likely(p != MAP_FAILED) || !left || address || fd >= 0)
        return p;
    int saved = errno;
    p = take_from_reserve(bytes, protection);
    errno = saved;
    return p;
}

/* ---- Pages that jemalloc's first use touches and leaves zero ---- */

#define PAGES_MAX 1024u /* of a mapping; jemalloc maps 2 MiB at a time */
#define MAPPINGS_MAX 8u

static struct mapping {
    char *start;
    size_t pages;
} mappings[MAPPINGS_MAX];
static unsigned n_mappings;
static bool is_over;

COLD void first_use_note(void *p, size_t bytes)
{
    if (!is_over && n_mappings < MAPPINGS_MAX && bytes / PAGE_BYTES <= PAGES_MAX)
        mappings[n_mappings++] = (struct mapping){p, bytes / PAGE_BYTES};
}

static bool is_zero(const char *page)
{
    return !*page && !memcmp(page, page + 1, PAGE_BYTES - 1);
}

/* Finds out which pages are in memory: bit 63 of their entries (Documentation/admin-guide/mm/pagemap.rst). mincore(2) says
 * the same, but sandboxes kill for it: systemd's SystemCallFilter=@system-service does not allow it. */
static bool read_pagemap(int pagemap, const struct mapping *m, bool *in_memory)
{
    uint64_t entries[128];
    for (size_t i = 0; i < m->pages; i++) {
        size_t place = i % (sizeof entries / sizeof *entries);
        off_t offset = (off_t)(((uintptr_t)m->start / PAGE_BYTES + i) * sizeof *entries);
        if (place == 0 && pread(pagemap, entries, sizeof entries, offset) != sizeof entries)
            return false;
        in_memory[i] = entries[place] >> 63;
    }
    return true;
}

/* A mapping that is all in memory lies on huge pages, which stay whole. */
static void return_zero_pages(int pagemap, const struct mapping *m)
{
    bool in_memory[PAGES_MAX];
    if (!read_pagemap(pagemap, m, in_memory) || !memchr(in_memory, false, m->pages))
        return;
    for (size_t i = 0, n = 0; i < m->pages; i += n + 1) {
        for (n = 0; i + n < m->pages && in_memory[i + n] && is_zero(m->start + (i + n) * PAGE_BYTES);)
            n++;
        if (n)
            madvise(m->start + i * PAGE_BYTES, n * PAGE_BYTES, MADV_DONTNEED);
    }
}

COLD void first_use_end(void)
{
    int saved = errno;
    is_over = true;
    int pagemap = n_mappings && !binding_has_threads() ? descriptor_open("/proc/self/pagemap", O_RDONLY, 0) : -1;
    if (pagemap >= 0) {
        for (unsigned i = 0; i < n_mappings; i++)
            return_zero_pages(pagemap, &mappings[i]);
        close(pagemap);
    }
    errno = saved;
}
