/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of span arenas and regions: figures, and the jemalloc arena of an object. */
#ifndef JESPAN_TESTS_ARENAS_H
#define JESPAN_TESTS_ARENAS_H

#include <jespan/jespan.h>

#include "ctl.h"

/* A span of the site from here to the end of the block. */
#define ARENA_BLOCK(site)                                                                                              \
    struct jespan_block arena_block __attribute__((cleanup(jespan_exit_block)));                                       \
    jespan_enter_block(&arena_block, site, NULL, 0)

static inline uint64_t arena_figure(uint32_t arena, const char *leaf)
{
    char name[96];
    snprintf(name, sizeof name, "spans.arenas.%u.%s", (unsigned)arena, leaf);
    return ctl_u64(name);
}

/* A figure of all regions: spans.stats.regions_… */
static inline uint64_t region_stat(const char *leaf)
{
    char name[64];
    snprintf(name, sizeof name, "spans.stats.regions_%s", leaf);
    return ctl_u64(name);
}

/* The span arena of the thread's current context. */
static inline uint32_t arena_here(void)
{
    return (uint32_t)ctl_span(jespan_current(), "arena");
}

/* jemalloc's arena of an object, by its own books. */
static inline uint64_t arena_of_object(const void *p)
{
    unsigned index = 0;
    size_t bytes = sizeof index;
    CHECK_EQ(F(mallctl)("arenas.lookup", &index, &bytes, &p, sizeof p), 0);
    return index;
}

/* Live objects and bytes of an arena. */
static inline void arena_check_inuse(uint32_t arena, uint64_t objects, uint64_t bytes, const char *where)
{
    uint64_t o = arena_figure(arena, "inuse_objects"), b = arena_figure(arena, "inuse_bytes");
    if (o != objects || b != bytes)
        check_fail("%s: arena %u has %llu objects, %llu bytes, not %llu, %llu", where, (unsigned)arena,
                   (unsigned long long)o, (unsigned long long)b, (unsigned long long)objects, (unsigned long long)bytes);
}

#endif
