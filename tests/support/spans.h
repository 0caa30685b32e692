/* SPDX-License-Identifier: BSD-2-Clause */
/* Short cuts for tests of spans: opening them, asking for their context, running a thread. */
#ifndef JESPAN_TESTS_SPANS_H
#define JESPAN_TESTS_SPANS_H

#include <pthread.h>

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

#endif
