/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas as jemalloc-hooks makes them, without the layers above in src/. */
#ifndef JESPAN_TESTS_SPAN_EXTENTS_H
#define JESPAN_TESTS_SPAN_EXTENTS_H

#include "base/lock.h"
#include "check.h"
#include "family.h"
#include "jemalloc-hooks/span_extents.h"
#include "malloc/track.h"

static inline void create(struct extent_arena *a)
{
    track_thread();
    lock(LOCK_ARENAS);
    CHECK_EQ(extent_arena_create(a), 0);
    unlock(LOCK_ARENAS);
}

/* NULL where the arena has none. */
static inline void *aligned_from(const struct extent_arena *a, size_t bytes, size_t alignment)
{
    return jespan_mallocx(bytes, MALLOCX_ARENA(a->index) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(alignment));
}

static inline void *from(const struct extent_arena *a, size_t bytes)
{
    return aligned_from(a, bytes, 8);
}

static inline void back(void *p)
{
    jespan_dallocx(p, MALLOCX_TCACHE_NONE);
}

/* "purge", … */
static inline void arena_does(const struct extent_arena *a, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", a->index, what);
    CHECK_EQ(jespan_je_mallctl(name, NULL, NULL, NULL, 0), 0);
}

#endif
