/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers with many threads and with recycling: a callback is replaced while spans are opened, and sums are exact
 * to the byte. Other tests of samplers are in tests/integration/samplers.c. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <time.h>

#include "../support/cases.h"
#include "../support/spans.h"

/* ---- Replaced ---- */

static _Atomic bool said_yes[2], said_no; /* yes to a span, and to a block */

/* Each callback must be called with its own `user`: 1 samples, 2 does not. */
static int says_yes(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)site;
    CHECK_EQ((uintptr_t)user, 1);
    said_yes[n_labels == 1 && strcmp(labels[0].key, "key") == 0] = true;
    return 1;
}

static int says_no(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)site, (void)labels, (void)n_labels;
    CHECK_EQ((uintptr_t)user, 2);
    said_no = true;
    return 0;
}

static _Atomic bool stop;

static void *opens_spans(void *unused)
{
    (void)unused;
    while (!stop) {
        JESPAN("flood", "key", "value");
        void *p = F(malloc)(64);
        jespan_span_t *span = spans_open("flood", 1, JESPAN_ROOT);
        CHECK_EQ(jespan_enter(span), 0);
        F(free)(p);
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
    }
    return NULL;
}

static void replaced_while_spans_open(void)
{
    pthread_t threads[4];
    for (size_t i = 0; i < MEMBERS(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, opens_spans, NULL), 0);
    for (uint64_t i = 0, n = check_rounds("REPLACEMENTS", 50000); i < n || !said_yes[0] || !said_yes[1] || !said_no; i++) {
        jespan_set_sampler(i % 3 == 0 ? says_yes : i % 3 == 1 ? says_no : NULL, (void *)(uintptr_t)(i % 3 + 1));
        if (i % 100 == 0)
            nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    stop = true;
    for (size_t i = 0; i < MEMBERS(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK(ctl_u64("spans.stats.unsampled") > 0);
    CHECK_EQ(spans_named("flood"), 2);
    spans_check_sums("after replacements");
}

/* ---- At random ---- */

/* The objects of each thread, in sampled and unsampled spans. Other threads free some of them. */
#define SLOTS 512
static void *_Atomic held[SLOTS];

static void *at_random(void *argument)
{
    uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        JESPAN("outer");
        jespan_span_t *span = spans_open("opened", 1, random >> 60 & 1 ? JESPAN_CURRENT : JESPAN_ROOT);
        CHECK_EQ(jespan_enter(span), 0);
        JESPAN("inner", "parity", i % 2 ? "odd" : "even");
        void *p = F(malloc)(random >> 40 & 0x3fff);
        F(free)(atomic_exchange(&held[random >> 33 & (SLOTS - 1)], random >> 61 & 1 ? F(realloc)(p, 100) : p));
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
    }
    return NULL;
}

/* With max_contexts:64 and half of all spans sampled. Sums are exact to the byte, also while contexts are recycled. */
static void nothing_is_lost(void)
{
    pthread_t threads[4];
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < MEMBERS(threads); i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, at_random, (void *)(i + 1)), 0);
        for (size_t i = 0; i < MEMBERS(threads); i++)
            pthread_join(threads[i], NULL);
        spans_check_sums("at random");
    }
    CHECK(ctl_u64("spans.stats.unsampled") > 10000);
    for (int i = 0; i < SLOTS; i++)
        F(free)(held[i]);
    spans_check_sums("all freed");
}

/* A recycled id would take the unsampled bytes along. */
static void never_recycled(void)
{
    jespan_context_t unsampled;
    {
        JESPAN("first");
        unsampled = jespan_current();
    }
    jespan_set_sampler(says_yes, (void *)1);
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        JESPAN("passing", "number", text);
        CHECK(jespan_current() != unsampled);
    }
    CHECK(ctl_u64("spans.stats.recycled") > 500);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    spans_check_sums("after recycling");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"replaced_while_spans_open", replaced_while_spans_open, NULL, NULL},
        {"nothing_is_lost", nothing_is_lost, NULL, "sampler:0.5,max_contexts:64"},
        {"nothing_is_lost_with_ages", nothing_is_lost, NULL, "sampler:0.5,max_contexts:256,age_period_s:1"},
        {"never_recycled", never_recycled, NULL, "sampler:never,max_contexts:64"},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
