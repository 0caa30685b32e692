/* SPDX-License-Identifier: BSD-2-Clause */
/* Few pages for a forked child to copy. A page fault that copies a page takes about a microsecond, in the child and again
 * in the parent. */
#ifndef JESPAN_FORKED_H
#define JESPAN_FORKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Marks data that each fork writes or looks at. Such data lies together, in less than 1024 bytes:
 * the alignment of lock.c's part keeps it on one page. */
#define WRITTEN_AT_FORK __attribute__((section("jespan_fork")))

/* Sets memory to 0, the value of a mutex that nobody holds. Does not write to memory that is 0 already. */
static inline void forked_clear(void *p, size_t bytes)
{
    char *at = p, *end = at + bytes;
    for (uint64_t word; end - at >= (ptrdiff_t)sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (word)
            memset(at, 0, sizeof word);
    }
    for (; at < end; at++)
        if (*at)
            *at = 0;
}
#define FORKED_CLEAR(object) forked_clear((void *)&(object), sizeof(object))

#endif
