/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads figures through mallctl, both jemalloc's and spans.*. A name that cannot be read is a failed check. */
#ifndef JESPAN_TESTS_CTL_H
#define JESPAN_TESTS_CTL_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* The program's bytes in use, by jemalloc's own figures and those of guarded objects, which are not jemalloc's.
 *
 * stats.allocated counts, beyond the program's objects: the free ones that thread caches keep (tcache_bytes), and
 * jemalloc's own allocations from itself, chiefly the thread caches' tables (internal). Both are exact, as usable
 * bytes. */
static inline uint64_t ctl_jemalloc_live_bytes(void)
{
    return ctl_u64("stats.allocated") - ctl_u64("stats.arenas." ARENAS_ALL ".tcache_bytes") -
           ctl_u64("stats.arenas." ARENAS_ALL ".internal") + ctl_u64("spans.stats.guard_bytes");
}

struct ctl_books {
    uint64_t in_use, pending, jemalloc;
};

static inline struct ctl_books ctl_read_books(void)
{
    /* Asking jespan hands this thread's buffered frees to jemalloc, whose statistics are brought up to date after that. */
    struct ctl_books b;
    uint64_t any = 1;
    b.in_use = ctl_u64("spans.all.inuse_bytes");
    b.pending = ctl_u64("spans.stats.pending_bytes");
    CHECK_EQ(F(mallctl)("epoch", NULL, NULL, &any, sizeof any), 0);
    b.jemalloc = ctl_jemalloc_live_bytes();
    return b;
}

static inline bool ctl_books_agree(struct ctl_books b)
{
    return b.in_use + b.pending == b.jemalloc;
}

static inline void ctl_require_agreement(struct ctl_books b, const char *where)
{
    if (!ctl_books_agree(b))
        check_fail("%s: in use %llu + pending %llu is not jemalloc's %llu (off by %lld)", where,
                   (unsigned long long)b.in_use, (unsigned long long)b.pending, (unsigned long long)b.jemalloc,
                   (long long)(b.in_use + b.pending - b.jemalloc));
}

/* The identity that ties jespan's books to jemalloc's, with live figures. Only when no other thread allocates. */
static inline void ctl_check_identity(const char *where)
{
    ctl_require_agreement(ctl_read_books(), where);
}

/* The same where a thread of jespan's or jemalloc's may have just begun, whose first allocation jemalloc counts piece by
 * piece: it is waited for, 600 s at most. */
static inline void ctl_await_identity(const char *where)
{
    struct ctl_books b = ctl_read_books();
    for (int ms = 0; !ctl_books_agree(b) && ms < 600000; ms++) {
        usleep(1000);
        b = ctl_read_books();
    }
    ctl_require_agreement(b, where);
}

#endif
