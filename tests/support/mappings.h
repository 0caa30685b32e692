/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's figures of its arenas, and the system's figures of mappings. */
#ifndef JESPAN_TESTS_MAPPINGS_H
#define JESPAN_TESTS_MAPPINGS_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "jemalloc/binding.h"
#include "maps.h"

static inline void stats_refresh(void)
{
    uint64_t epoch = 1;
    CHECK_EQ(jespan_je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

/* A figure of 64 or 32 bits; after stats_refresh(), where it is a statistic. */
static inline uint64_t stats_read(const char *name)
{
    uint64_t value = 0;
    size_t bytes = sizeof value;
    int error = jespan_je_mallctl(name, &value, &bytes, NULL, 0);
    bytes = sizeof(uint32_t);
    if (error == EINVAL) /* of another size */
        error = jespan_je_mallctl(name, &value, &bytes, NULL, 0);
    if (error)
        check_fail("%s: %s", name, strerror(error));
    return value;
}

static inline uint64_t stats_of_arena(unsigned index, const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "stats.arenas.%u.%s", index, name);
    return stats_read(whole);
}

/* The bytes of an arena's extents, without its bookkeeping. */
static inline uint64_t stats_mapped(unsigned index)
{
    uint64_t pages =
        stats_of_arena(index, "pactive") + stats_of_arena(index, "pdirty") + stats_of_arena(index, "pmuzzy");
    return pages * stats_read("arenas.page") + stats_of_arena(index, "retained");
}

/* Refreshes the statistics until the mapped bytes of all arenas are the counted ones, for 600 s at most. jemalloc's
 * background thread may be giving pages back, which no statistic has then. */
static inline void stats_refresh_until(const _Atomic uint64_t *counted_bytes)
{
    stats_refresh();
    for (int ms = 0; *counted_bytes != stats_mapped(MALLCTL_ARENAS_ALL) && ms < 600000; ms++) {
        usleep(1000);
        stats_refresh();
    }
}

#endif
