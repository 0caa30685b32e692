/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that jemalloc's first use touches and leaves zero. */
#include "jemalloc/first_use.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "jemalloc/binding.h"

#define PAGE_BYTES 4096u
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

/* A mapping that is all in memory lies on huge pages, which stay whole. */
static void return_zero_pages(const struct mapping *m)
{
    unsigned char in_memory[PAGES_MAX];
    if (mincore(m->start, m->pages * PAGE_BYTES, in_memory))
        return;
    for (size_t i = 0; i < m->pages; i++)
        in_memory[i] &= 1;
    if (!memchr(in_memory, 0, m->pages))
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
    for (unsigned i = 0; i < n_mappings && !binding_has_threads(); i++)
        return_zero_pages(&mappings[i]);
    errno = saved;
}
