/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds of the context tree: max_contexts, overflow, contexts_kept, and recycling. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/maps.h"
#include "../support/spans.h"

JESPAN_SITE(site, "request");

static jespan_span_t *open_numbered(unsigned n, jespan_context_t parent)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    struct jespan_label label = {"number", text};
    jespan_span_t *span = jespan_open(&site, parent, &label, 1);
    if (!span)
        check_fail("span %u cannot be opened: %s", n, strerror(errno));
    return span;
}

/* With max_contexts:64. Spans beyond that are counted as overflow, and their figures go to the nearest ancestor,
 * exactly. */
static void overflowing(void)
{
    enum { COUNT = 200 };
    jespan_span_t *top = open_numbered(9999, JESPAN_ROOT), *spans[COUNT];
    void *objects[COUNT];
    jespan_context_t parent = spans_context(top);
    unsigned own = 0;
    uint64_t overflow = ctl_u64("spans.stats.overflow");
    for (unsigned i = 0; i < COUNT; i++) {
        spans[i] = open_numbered(i, parent);
        CHECK_EQ(jespan_enter(spans[i]), 0);
        own += jespan_current() != parent;
        objects[i] = F(malloc)(100);
        CHECK_EQ(jespan_exit(spans[i]), 0);
    }
    CHECK(own > 32 && own < 64);
    CHECK_EQ(ctl_u64("spans.stats.overflow") - overflow, COUNT - own);
    CHECK_EQ(ctl_span(parent, "inuse_objects"), COUNT - own);
    CHECK_EQ(ctl_span(parent, "inuse_bytes"), (COUNT - own) * F(malloc_usable_size)(objects[0]));
    CHECK(ctl_u64("spans.stats.contexts") <= 64);
    ctl_check_identity("with overflow");
    for (unsigned i = 0; i < COUNT; i++) {
        F(free)(objects[i]);
        jespan_close(spans[i]);
    }
    CHECK_EQ(ctl_span(parent, "inuse_objects"), 0);
    for (own = 0; own < COUNT; own++) { /* numbers are free again: closed and empty contexts are recycled */
        jespan_span_t *again = open_numbered(1000 + own, parent);
        bool found = spans_context(again) != parent;
        jespan_close(again);
        if (found)
            break;
    }
    CHECK(own < COUNT);
    ctl_check_identity("after overflow");
}

static void one_request(unsigned n)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    JESPAN("request", "number", text);
    F(free)(opaque_pointer(F(malloc)(100 + n % 1000)));
}

static uint64_t sum_of_rows(const char *leaf)
{
    static uint32_t ids[8192];
    size_t bytes = sizeof ids;
    uint64_t sum = 0;
    CHECK_EQ(F(mallctl)("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        sum += ctl_span(ids[i], leaf);
    return sum;
}

static void check_sums(void)
{
    static const char *const leaves[] = {"alloc_objects", "alloc_bytes", "alloc_requested_bytes", "free_objects",
                                         "free_bytes", "inuse_objects", "inuse_bytes", "enters"};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        char all[64], retired[64];
        snprintf(all, sizeof all, "spans.all.%s", leaves[i]);
        snprintf(retired, sizeof retired, "spans.retired.%s", leaves[i]);
        if (ctl_u64(all) != sum_of_rows(leaves[i]) + ctl_u64(retired))
            check_fail("%s is not the sum of the contexts and the retired", all);
    }
}

/* Returns an object of 4321 bytes that a closed span left, and the span's context. */
static void *leak_in_a_span(jespan_context_t *id)
{
    jespan_span_t *leaky = open_numbered(12345678, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(leaky), 0);
    *id = jespan_current();
    void *leak = F(malloc)(4321);
    jespan_exit(leaky);
    jespan_close(leaky);
    return leak;
}

/* With max_contexts:4096. A million contexts that come and go take no more memory, and an old leak keeps its name. */
static void recycling(void)
{
    enum { WARM = 100000, COUNT = 1000000 };
    jespan_context_t id;
    void *leak = leak_in_a_span(&id);
    for (unsigned i = 0; i < WARM; i++)
        one_request(i);
    ctl_refresh();
    uint64_t objects = ctl_u64("spans.all.alloc_objects"), requested = ctl_u64("spans.all.alloc_requested_bytes");
    uint64_t meta = ctl_u64("spans.stats.meta_bytes"), rss = rss_bytes(), expected = 0;
    for (unsigned i = WARM; i < COUNT; i++) {
        one_request(i);
        expected += 100 + i % 1000;
    }
    ctl_refresh();
    CHECK_EQ(ctl_u64("spans.all.alloc_objects") - objects, COUNT - WARM);
    CHECK_EQ(ctl_u64("spans.all.alloc_requested_bytes") - requested, expected);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK_EQ(ctl_u64("spans.retired.inuse_bytes"), 0);
    CHECK(ctl_u64("spans.stats.recycled") > COUNT - 3 * 4096);
    CHECK(ctl_u64("spans.stats.contexts") <= 4096);
    if (ctl_u64("spans.stats.meta_bytes") > meta + 65536 || rss_bytes() > rss + ((uint64_t)2 << 20))
        check_fail("own memory grew from %llu to %llu, RSS from %llu to %llu", (unsigned long long)meta,
                   (unsigned long long)ctl_u64("spans.stats.meta_bytes"), (unsigned long long)rss,
                   (unsigned long long)rss_bytes());
    check_sums();
    CHECK(strcmp(ctl_span_text(id, "name"), "request") == 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), F(malloc_usable_size)(leak));
    CHECK_EQ(ctl_span(id, "alloc_requested_bytes"), 4321);
    ctl_check_identity("after recycling");
}

/* ---- Contexts that nothing refers to go early ---- */

#define KEPT 1000

static jespan_context_t one_of_route(void)
{
    JESPAN("request", "route", "/look");
    F(free)(opaque_pointer(F(malloc)(100)));
    return jespan_current();
}

/* With contexts_kept:1000. Contexts of labels that come once are recycled. A label that comes again and again keeps its
 * context, and so does a leak. Afterwards, as many spans as there are numbers can be open. */
static void early(void)
{
    enum { COUNT = 50000, OFTEN = 100 };
    static jespan_span_t *spans[4 * KEPT];
    jespan_context_t route = one_of_route();
    jespan_context_t id;
    void *leak = leak_in_a_span(&id);
    for (unsigned i = 0; i < COUNT; i++) {
        one_request(i);
        if (i % OFTEN == 0)
            CHECK_EQ(one_of_route(), route);
    }
    ctl_refresh();
    CHECK(ctl_u64("spans.stats.contexts") <= KEPT + KEPT / 2);
    CHECK(ctl_u64("spans.stats.recycled") >= COUNT - KEPT - KEPT / 2);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK_EQ(ctl_span(route, "opens"), COUNT / OFTEN + 1);
    CHECK_EQ(ctl_span(route, "alloc_objects"), COUNT / OFTEN + 1);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), F(malloc_usable_size)(leak));
    check_sums();
    for (unsigned i = 0; i < 4 * KEPT; i++)
        spans[i] = open_numbered(i, JESPAN_ROOT);
    CHECK(ctl_u64("spans.stats.contexts") >= 4 * KEPT);
    for (unsigned i = 0; i < 4 * KEPT; i++)
        jespan_close(spans[i]);
    for (unsigned i = 0; i < COUNT; i++)
        one_request(i);
    CHECK(ctl_u64("spans.stats.contexts") <= KEPT + KEPT / 2);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    ctl_check_identity("after many labels");
}

enum { THREADS = 4, LABELS = 60000 };

static void *many_requests(void *first)
{
    for (unsigned i = 0; i < LABELS; i++)
        one_request(*(unsigned *)first + i);
    return NULL;
}

/* With the default configuration, and another label for each span. This once took 27 MB a thread. */
static void flat(void)
{
    pthread_t threads[THREADS];
    unsigned first[THREADS];
    uint64_t rss = rss_bytes();
    for (unsigned i = 0; i < THREADS; i++) {
        first[i] = i * LABELS;
        CHECK_EQ(pthread_create(&threads[i], NULL, many_requests, &first[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ctl_refresh();
    CHECK(ctl_u64("spans.stats.contexts") <= 8192 + 8192 / 2);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    if (rss_bytes() > rss + ((uint64_t)24 << 20))
        check_fail("RSS grew from %llu to %llu", (unsigned long long)rss, (unsigned long long)rss_bytes());
    ctl_check_identity("after labels on threads");
}

/* ---- A thread's block, with what it remembers of sites, goes to another thread ---- */

static void *held;

static jespan_context_t in_block(void)
{
    JESPAN("block");
    if (!held)
        held = malloc(100);
    return jespan_current();
}

static void *remember(void *base)
{
    pthread_setname_np(pthread_self(), "once");
    free(malloc(1));
    *(jespan_context_t *)base = jespan_current();
    in_block();
    return NULL;
}

/* The number of an ended thread's context now belongs to a span. The same block in it gets a context below that span,
 * or the span's own context when all numbers are taken. */
static void *find_number_again(void *base)
{
    jespan_context_t wanted = *(jespan_context_t *)base;
    for (unsigned n = 0; n < 400; n++) {
        jespan_span_t *span = open_numbered(n, JESPAN_ROOT);
        if (spans_context(span) == wanted) {
            CHECK_EQ(jespan_enter(span), 0);
            jespan_context_t id = in_block();
            CHECK(id == wanted || ctl_span(id, "parent") == wanted);
            CHECK_EQ(jespan_exit(span), 0);
            return span;
        }
    }
    return NULL;
}

static void forgetful(void)
{
    jespan_context_t base = 0;
    void *found = NULL;
    pthread_t thread;
    free(malloc(1));
    CHECK_EQ(pthread_create(&thread, NULL, remember, &base), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, find_number_again, &base), 0);
    CHECK_EQ(pthread_join(thread, &found), 0);
    CHECK(found != NULL);
}

static const struct test_case cases[] = {
    {"overflowing", overflowing, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
    {"recycling", recycling, NULL, "max_contexts:4096"},
    {"forgetful", forgetful, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
    {"early", early, NULL, "contexts_kept:1000"},
    {"flat", flat, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
