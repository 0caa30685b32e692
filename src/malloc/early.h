/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for what is allocated while jespan starts.
 *
 * jespan and jemalloc call libc when they start, and another preloaded library may be what they reach: libfaketime's
 * clock_gettime() calls dlsym(), which allocates. jemalloc may hold the lock for its first use then, and would wait for
 * itself. jemalloc also starts threads, with background_thread:true. So malloc takes such memory from here. It is zeroed, is never
 * given back, and counts for no context. */
#ifndef JESPAN_EARLY_H
#define JESPAN_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define EARLY_BYTES ((size_t)256 * 1024)
extern INTERNAL char early_memory[EARLY_BYTES];

HOT_INLINE bool early_has(const void *p)
{
    return (uintptr_t)p - (uintptr_t)early_memory < EARLY_BYTES;
}

/* To be called by the thread that starts jespan. `alignment` is a power of 2. Returns NULL with ENOMEM where it has no room. */
void *early_alloc(size_t size, size_t alignment);

/* The size of such an object. */
size_t early_usable(const void *p);

#endif
