/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading figures through mallctl, both jemalloc's and spans.*. A name that cannot be read is a failed check. */
#ifndef JESPAN_TESTS_CTL_H
#define JESPAN_TESTS_CTL_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "family.h"

static inline uint64_t ctl_u64(const char *name)
{
    uint64_t value = 0;
    size_t length = sizeof value;
    int error = F(mallctl)(name, &value, &length, NULL, 0);
    if (error)
        check_fail("mallctl(%s): %s", name, strerror(error));
    return value;
}

static inline const char *ctl_text(const char *name)
{
    const char *value = NULL;
    size_t length = sizeof value;
    int error = F(mallctl)(name, &value, &length, NULL, 0);
    if (error || !value) {
        check_fail("mallctl(%s): %s", name, strerror(error));
        return "";
    }
    return value;
}

static inline const char *ctl_span_name(char *buffer, size_t bytes, uint32_t id, const char *leaf)
{
    snprintf(buffer, bytes, "spans.%u.%s", (unsigned)id, leaf);
    return buffer;
}

static inline uint64_t ctl_span(uint32_t id, const char *leaf)
{
    char name[96];
    return ctl_u64(ctl_span_name(name, sizeof name, id, leaf));
}

static inline const char *ctl_span_text(uint32_t id, const char *leaf)
{
    char name[96];
    return ctl_text(ctl_span_name(name, sizeof name, id, leaf));
}

/* A fresh snapshot, and fresh statistics of jemalloc's. */
static inline void ctl_refresh(void)
{
    uint64_t any = 1;
    int error = F(mallctl)("spans.epoch", NULL, NULL, &any, sizeof any);
    if (error)
        check_fail("mallctl(spans.epoch): %s", strerror(error));
    error = F(mallctl)("epoch", NULL, NULL, &any, sizeof any);
    if (error)
        check_fail("mallctl(epoch): %s", strerror(error));
}

/* What the program holds, by jemalloc's own books.
 *
 * stats.allocated counts, beyond the program's objects: the free ones that thread caches keep (tcache_bytes), and
 * jemalloc's own allocations from itself, chiefly the thread caches' tables (internal). Both are exact, as usable bytes. */
static inline uint64_t ctl_jemalloc_live_bytes(void)
{
    return ctl_u64("stats.allocated") - ctl_u64("stats.arenas." ARENAS_ALL ".tcache_bytes") -
           ctl_u64("stats.arenas." ARENAS_ALL ".internal");
}

/* The identity that ties jespan's books to jemalloc's, with live figures. Only when no other thread allocates. */
static inline void ctl_check_identity(const char *where)
{
    /* Asking jespan hands this thread's buffered frees to jemalloc, whose statistics are brought up to date after that. */
    uint64_t in_use = ctl_u64("spans.all.inuse_bytes"), pending = ctl_u64("spans.stats.pending_bytes"), any = 1;
    int error = F(mallctl)("epoch", NULL, NULL, &any, sizeof any);
    uint64_t jemalloc = ctl_jemalloc_live_bytes();
    if (error || in_use + pending != jemalloc)
        check_fail("%s: in use %llu + pending %llu is not jemalloc's %llu (off by %lld)", where,
                   (unsigned long long)in_use, (unsigned long long)pending, (unsigned long long)jemalloc,
                   (long long)(in_use + pending - jemalloc));
}

#endif
