/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of spans: open them, find their context, run a thread. */
#ifndef JESPAN_TESTS_SPANS_H
#define JESPAN_TESTS_SPANS_H

#include <pthread.h>
#include <time.h>

#include <jespan/jespan.h>

#include "ctl.h"

#define MEMBERS(array) (sizeof(array) / sizeof *(array))

/* A span with this name, and with a label "number" unless that is negative. */
static inline jespan_span_t *spans_open(const char *name, long number, jespan_context_t parent)
{
    const struct jespan_site site = {.name = name};
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    const struct jespan_label label = {"number", text};
    jespan_span_t *span = jespan_open(&site, parent, &label, number >= 0);
    if (!span)
        check_fail("span %s %ld cannot be opened: %s", name, number, strerror(errno));
    return span;
}

static inline jespan_context_t spans_context(jespan_span_t *span)
{
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return id;
}

/* Allocates in a new span that is closed at once. Returns the object. */
static inline void *spans_leak(const char *name, long number, size_t bytes, jespan_context_t *id)
{
    jespan_span_t *span = spans_open(name, number, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(span), 0);
    void *p = opaque_pointer(F(malloc)(bytes));
    *id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    return p;
}

/* Starts a thread and waits for it. */
static inline void *spans_on_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, run, argument), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}

static inline void spans_check_inuse(jespan_context_t id, uint64_t objects, uint64_t bytes, const char *where)
{
    if (ctl_span(id, "inuse_objects") != objects || ctl_span(id, "inuse_bytes") != bytes)
        check_fail("%s: %llu objects, %llu bytes in use, not %llu, %llu", where,
                   (unsigned long long)ctl_span(id, "inuse_objects"), (unsigned long long)ctl_span(id, "inuse_bytes"),
                   (unsigned long long)objects, (unsigned long long)bytes);
}

static inline uint64_t spans_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void spans_work(unsigned ms)
{
    for (uint64_t start = spans_now_ns(); spans_now_ns() - start < ms * (uint64_t)1000000;)
        ;
}

/* Whether a time differs by at most 1 % from that of another clock. */
static inline void spans_check_time(uint64_t ns, uint64_t low, uint64_t high, const char *what)
{
    if (ns < low - low / 100 || ns > high + high / 100 + 1000)
        check_fail("%s: %llu ns, not %llu to %llu", what, (unsigned long long)ns, (unsigned long long)low,
                   (unsigned long long)high);
}

static uint32_t spans_ids[65536];

/* The contexts of a fresh snapshot, in spans_ids. */
static inline size_t spans_list(void)
{
    size_t bytes = sizeof spans_ids;
    ctl_refresh();
    CHECK_EQ(F(mallctl)("spans.ids", spans_ids, &bytes, NULL, 0), 0);
    return bytes / sizeof *spans_ids;
}

static inline size_t spans_named(const char *name)
{
    size_t n = spans_list(), found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcmp(ctl_span_text(spans_ids[i], "name"), name) == 0;
    return found;
}

/* Checks that the sums over all contexts are the figures of spans.all, and that their bytes in use are those of
 * jemalloc. */
static inline void spans_check_sums(const char *where)
{
    static const char *const leaves[] = {"alloc_objects", "alloc_bytes", "alloc_requested_bytes", "free_objects",
                                         "free_bytes", "inuse_objects", "inuse_bytes", "enters"};
    size_t n = spans_list();
    for (size_t l = 0; l < MEMBERS(leaves); l++) {
        char all[64], retired[64];
        snprintf(all, sizeof all, "spans.all.%s", leaves[l]);
        snprintf(retired, sizeof retired, "spans.retired.%s", leaves[l]);
        uint64_t sum = ctl_u64(retired);
        for (size_t i = 0; i < n; i++)
            sum += ctl_span(spans_ids[i], leaves[l]);
        if (sum != ctl_u64(all))
            check_fail("%s: %s: contexts have %llu, all %llu", where, leaves[l], (unsigned long long)sum,
                       (unsigned long long)ctl_u64(all));
    }
    ctl_check_identity(where);
}

#endif
