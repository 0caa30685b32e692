/* SPDX-License-Identifier: BSD-2-Clause */
/* The most that contexts had in use: of programs whose peaks are known. With peak_looks_percent:100, looks are bounded by
 * what threads move, and not by time. */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define MIB ((uint64_t)1 << 20)
#define FREE_BUFFER_OBJECTS 32

static void reset(void)
{
    CHECK_EQ(mallctl("spans.reset_peaks", NULL, NULL, NULL, 0), 0);
}

/* ---- One thread: exact ---- */

/* `outer` has 2 MiB, and `inner` below it 3 MiB. Then `inner` alone has 6 MiB, when `outer` has freed its own. */
static void big_objects(void)
{
    void *p[8];
    uint64_t before;
    jespan_context_t outer, inner;
    reset();
    before = ctl_u64("spans.all.inuse_bytes");
    {
        JESPAN("outer");
        outer = jespan_current();
        p[0] = malloc(2 * MIB);
        JESPAN("inner");
        inner = jespan_current();
        p[1] = malloc(3 * MIB);
        CHECK_EQ(ctl_span(outer, "peak_bytes"), 2 * MIB);
        CHECK_EQ(ctl_span(outer, "total.peak_bytes"), 5 * MIB);
        free(p[0]);
        p[2] = malloc(3 * MIB);
        free(p[1]);
        free(p[2]);
    }
    CHECK_EQ(ctl_span(outer, "inuse_bytes"), 0);
    CHECK_EQ(ctl_span(outer, "peak_bytes"), 2 * MIB);
    CHECK_EQ(ctl_span(inner, "peak_bytes"), 6 * MIB);
    CHECK_EQ(ctl_span(inner, "total.peak_bytes"), 6 * MIB);
    CHECK_EQ(ctl_span(outer, "total.peak_bytes"), 6 * MIB);
    CHECK_EQ(ctl_u64("spans.all.peak_bytes"), before + 6 * MIB);
    CHECK_EQ(ctl_span(inner, "at_peak_bytes"), 6 * MIB);
    CHECK_EQ(ctl_span(outer, "at_peak_bytes"), 0);
    reset();
    CHECK_EQ(ctl_span(inner, "peak_bytes"), 0);
    CHECK_EQ(ctl_span(outer, "total.peak_bytes"), 0);
    CHECK_EQ(ctl_u64("spans.all.peak_bytes"), ctl_u64("spans.all.inuse_bytes"));
}

/* A peak that lasts for a moment, again and again, with another context each time. */
static void many_peaks(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    jespan_context_t ids[4] = {0};
    reset();
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++) {
            struct jespan_label label = {"which", names[i]};
            JESPAN_SITE(site, "moment");
            jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
            CHECK_EQ(jespan_enter(span), 0);
            ids[i] = jespan_current();
            void *p = malloc((size_t)(i + 1) * 64 * 1024);
            memset(p, 1, 100);
            free(p);
            CHECK_EQ(jespan_exit(span), 0);
            jespan_close(span);
        }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(ctl_span(ids[i], "peak_bytes"), (uint64_t)(i + 1) * 64 * 1024);
}

/* Small objects: the frees in the thread's buffer are known, but not when they were made. */
static void small_objects(void)
{
    enum { N = 20000, BYTES = 64 };
    static void *p[N];
    jespan_context_t id;
    reset();
    {
        JESPAN("small");
        id = jespan_current();
        for (int i = 0; i < N; i++)
            p[i] = malloc(BYTES);
        for (int i = 0; i < N; i++)
            free(p[i]);
        CHECK(ctl_span(id, "peak_bytes") <= N * BYTES);
        CHECK(ctl_span(id, "peak_bytes") >= (N - FREE_BUFFER_OBJECTS) * BYTES);
        for (int i = 0; i < N / 2; i++) /* a lower one */
            p[i] = malloc(BYTES);
        for (int i = 0; i < N / 2; i++)
            free(p[i]);
    }
    CHECK(ctl_span(id, "peak_bytes") <= N * BYTES);
    CHECK(ctl_span(id, "peak_bytes") >= (N - FREE_BUFFER_OBJECTS) * BYTES);
}

/* Where memory is in use, the peak is at least that, without any look. */
static void now(void)
{
    JESPAN("now");
    jespan_context_t id = jespan_current();
    reset();
    void *p = malloc(100);
    CHECK_EQ(ctl_span(id, "peak_bytes"), 112);
    CHECK_EQ(ctl_span(id, "at_peak_bytes"), 112);
    CHECK_EQ(ctl_u64("spans.all.peak_bytes"), ctl_u64("spans.all.inuse_bytes"));
    free(p);
}

/* ---- Other ways in which memory goes ---- */

static void resized_and_credited(void)
{
    JESPAN("from");
    jespan_context_t from = jespan_current(), to;
    reset();
    void *p = malloc(8 * MIB);
    p = realloc(p, 64 * 1024);
    CHECK_EQ(ctl_span(from, "peak_bytes"), 8 * MIB);
    free(p);
    p = malloc(16 * MIB);
    {
        JESPAN("to");
        to = jespan_current();
        CHECK_EQ(jespan_credit(p, to), 0);
    }
    CHECK_EQ(ctl_span(from, "peak_bytes"), 16 * MIB);
    CHECK_EQ(ctl_span(to, "peak_bytes"), 16 * MIB);
    free(p);
    CHECK_EQ(ctl_span(to, "peak_bytes"), 16 * MIB);
    CHECK_EQ(ctl_span(from, "total.peak_bytes"), 16 * MIB);
}

static void regions(void)
{
    enum { N = 1000, BYTES = 1024 };
    jespan_context_t id;
    reset();
    {
        JESPAN_REGION("region");
        id = jespan_current();
        for (int i = 0; i < N; i++)
            memset(malloc(BYTES), 1, BYTES);
    }
    CHECK_EQ(ctl_span(id, "inuse_bytes"), 0);
    CHECK_EQ(ctl_span(id, "peak_bytes"), N * BYTES);
}

/* ---- Contexts that are recycled ---- */

static void recycled(void)
{
    enum { N = 1000 };
    jespan_context_t parent;
    reset();
    {
        JESPAN("parent");
        parent = jespan_current();
        for (int i = 0; i < N; i++) {
            char text[16];
            snprintf(text, sizeof text, "%d", i);
            JESPAN("child", "number", text);
            free(malloc((size_t)(i == 7 ? 4 : 1) * MIB));
        }
    }
    CHECK(ctl_u64("spans.stats.recycled") > N / 2);
    CHECK_EQ(ctl_span(parent, "total.peak_bytes"), 4 * MIB);
    CHECK_EQ(ctl_u64("spans.retired.peak_bytes"), 4 * MIB);
}

/* ---- Several threads ---- */

enum { THREADS = 4, OBJECTS = 50, BYTES = 128 * 1024 };
static pthread_barrier_t all;
static jespan_context_t shared_id;

static void *in_turn(void *number)
{
    void *p[OBJECTS];
    JESPAN("shared");
    shared_id = jespan_current();
    for (int i = 0; i < OBJECTS; i++)
        p[i] = malloc(BYTES);
    pthread_barrier_wait(&all); /* here the peak is */
    if (!number) {
        free(p[0]);
        p[0] = NULL;
    }
    pthread_barrier_wait(&all);
    for (int i = 0; i < OBJECTS; i++)
        free(p[i]);
    return NULL;
}

/* The first free of any of them comes after the barrier, and looks. The others wait for it: a look takes longer than some frees. */
static void threads(void)
{
    pthread_t t[THREADS];
    reset();
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, in_turn, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    uint64_t peak = ctl_span(shared_id, "peak_bytes"), truth = (uint64_t)THREADS * OBJECTS * BYTES;
    CHECK(peak <= truth);
    CHECK(peak >= truth - THREADS * BYTES);
}

/* ---- Names ---- */

static void names(void)
{
    uint64_t value = 1;
    size_t bytes = sizeof value;
    CHECK_EQ(mallctl("spans.reset_peaks", &value, &bytes, NULL, 0), EPERM);
    CHECK_EQ(mallctl("spans.reset_peaks", NULL, NULL, &value, sizeof value), EPERM);
    CHECK_EQ(mallctl("spans.all.peak_bytes", NULL, NULL, &value, sizeof value), EPERM);
    CHECK_EQ(mallctl("spans.4095.peak_bytes", &value, &bytes, NULL, 0), ENOENT);
    free(malloc(MIB));
    CHECK(ctl_u64("spans.stats.peak_looks") > 0);
}

/* Then a peak is what is in use. */
static void without_looks(void)
{
    JESPAN("once");
    jespan_context_t id = jespan_current();
    void *p = malloc(MIB);
    CHECK_EQ(ctl_span(id, "peak_bytes"), MIB);
    free(p);
    CHECK_EQ(ctl_span(id, "peak_bytes"), 0);
    CHECK_EQ(ctl_u64("spans.stats.peak_looks"), 0);
}

#define ALL "peak_looks_percent:100,max_contexts:4096,contexts_kept:64"

static const struct test_case cases[] = {
    {"big_objects", big_objects, NULL, ALL},
    {"many_peaks", many_peaks, NULL, ALL},
    {"small_objects", small_objects, NULL, ALL},
    {"now", now, NULL, ALL},
    {"resized_and_credited", resized_and_credited, NULL, ALL},
    {"regions", regions, NULL, ALL},
    {"recycled", recycled, NULL, ALL},
    {"threads", threads, NULL, ALL},
    {"names", names, NULL, ALL},
    {"without_looks", without_looks, NULL, "peak_looks_percent:0"},
    {"with_limits", big_objects, NULL, ALL ",limit:outer=1G"},
    {"with_small_limits", small_objects, NULL, ALL ",limit:small=1G"},
    {"with_stacks", small_objects, NULL, ALL ",stacks:all"},
    {"with_ages", small_objects, NULL, ALL ",age_period_s:1"},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
