/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that outlived its span, and the ages of live memory (age_period_s). */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include <pthread.h>
#include <time.h>

#include "../support/cases.h"
#include "../support/ctl.h"

JESPAN_SITE(request, "request");
JESPAN_SITE(busy, "busy");

#define MS 1000000u

static void sleep_ms(uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * (long)MS};
    while (nanosleep(&t, &t))
        ;
}

/* Opens a span, allocates in it, and leaves it open. */
static jespan_span_t *open_and_allocate(const struct jespan_site *site, size_t bytes, void **p, jespan_context_t *id)
{
    jespan_span_t *span = jespan_open(site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    *id = jespan_current();
    *p = malloc(bytes);
    CHECK_EQ(jespan_exit(span), 0);
    return span;
}

static void memory_of_closed_spans(void)
{
    void *p, *q, *r;
    jespan_context_t id, again;
    jespan_span_t *span = open_and_allocate(&request, 1000, &p, &id);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 0);
    jespan_close(span);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 1024);
    CHECK_EQ(ctl_span(id, "outlived_objects"), 1);
    sleep_ms(20);
    CHECK(ctl_span(id, "closed_ns") >= 20 * MS);
    /* While another is open, what was known to have outlived stays known, as far as it is live. */
    span = open_and_allocate(&request, 5000, &q, &again);
    CHECK_EQ(again, id);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 1024);
    CHECK_EQ(ctl_span(id, "outlived_objects"), 1);
    free(q);
    free(p);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 0);
    jespan_close(span);
    {
        JESPAN("block");
        id = jespan_current();
        r = malloc(100);
        CHECK_EQ(ctl_span(id, "outlived_bytes"), 0);
    }
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 112);
    CHECK_EQ(ctl_u64("spans.all.outlived_bytes"), 112);
    free(r);
    CHECK_EQ(ctl_u64("spans.all.outlived_objects"), 0);
}

static void the_end_of_a_block(void)
{
    void *p;
    jespan_context_t id;
    {
        JESPAN("block");
        id = jespan_current();
        p = malloc(100);
        CHECK_EQ(ctl_span(id, "closed_ns"), 0);
    }
    CHECK(ctl_span(id, "closed_ns") > 0);
    sleep_ms(20);
    CHECK(ctl_span(id, "closed_ns") >= 20 * MS);
    free(p);
}

/* By site: the largest first, whatever labels and parents; growth since a second ago or more. */
static void outlived_by_site(void)
{
    enum { TENANTS = 3 };
    struct jespan_outlived list[4];
    void *p[2 * TENANTS + 1];
    jespan_context_t id;
    size_t bytes = sizeof list;
    CHECK_EQ(mallctl("spans.outlived", list, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, 0);
    for (int i = 0; i < TENANTS; i++) {
        const char *tenants[TENANTS] = {"red", "green", "blue"};
        struct jespan_label label = {"tenant", tenants[i]};
        jespan_span_t *span = jespan_open(&request, JESPAN_ROOT, &label, 1);
        jespan_enter(span);
        p[2 * i] = malloc(1000);
        p[2 * i + 1] = malloc(1000);
        jespan_exit(span);
        jespan_close(span);
    }
    jespan_span_t *open = open_and_allocate(&busy, 100, &p[2 * TENANTS], &id);
    jespan_close(open);
    sleep_ms(1100);
    bytes = sizeof list;
    CHECK_EQ(mallctl("spans.outlived", list, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, 2 * sizeof list[0]);
    CHECK(!strcmp(list[0].name, "request") && !strcmp(list[1].name, "busy"));
    CHECK_EQ(list[0].line, request.line);
    CHECK_EQ(list[0].bytes, 2 * TENANTS * 1024);
    CHECK_EQ(list[0].objects, 2 * TENANTS);
    CHECK_EQ(list[0].bytes_by_age[0], 2 * TENANTS * 1024);
    CHECK_EQ(list[1].bytes, 112);
    /* All of it came since the first reading, at least 1.1 s ago. */
    CHECK(list[0].growth_bytes_per_min > 0 && list[0].growth_bytes_per_min <= 2 * TENANTS * 1024 * 60);
    bytes = sizeof list[0] + 1;
    CHECK_EQ(mallctl("spans.outlived", list, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, sizeof list[0]);
    CHECK_EQ(mallctl("spans.outlived", NULL, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, 2 * sizeof list[0]);
    CHECK_EQ(mallctl("spans.outlived", NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("spans.outlived", list, &bytes, list, 1), EPERM);
    for (int i = 0; i <= 2 * TENANTS; i++)
        free(p[i]);
}

static size_t ages_of(jespan_context_t id, struct jespan_age *ages, size_t room)
{
    char name[64];
    size_t bytes = room * sizeof *ages;
    CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, id, "ages"), ages, &bytes, NULL, 0), 0);
    return bytes / sizeof *ages;
}

/* There is always a span of the context open; each period's memory is told apart all the same. */
static void ages_of_a_context_that_is_always_open(void)
{
    enum { PERIODS = 3 };
    void *p[PERIODS + 1];
    struct jespan_age ages[8] = {0};
    jespan_context_t id;
    jespan_span_t *open = open_and_allocate(&busy, 1000, &p[0], &id);
    for (int i = 1; i <= PERIODS; i++) {
        sleep_ms(1100);
        jespan_span_t *next = open_and_allocate(&busy, 1000, &p[i], &id);
        jespan_close(open);
        open = next;
    }
    /* All but the last period's span are closed. */
    CHECK_EQ(ctl_span(id, "inuse_bytes"), (PERIODS + 1) * 1024);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), PERIODS * 1024);
    CHECK_EQ(ctl_span(id, "total.outlived_objects"), PERIODS);
    CHECK_EQ(ctl_span(id, "opens"), PERIODS + 1);
    CHECK_EQ(ctl_span(id, "enters"), PERIODS + 1);
    size_t n = ages_of(id, ages, 8);
    CHECK_EQ(n, PERIODS + 1);
    uint64_t objects = 0, bytes = 0, oldest = 0;
    for (size_t i = 0; i < n; i++) {
        objects += ages[i].objects;
        bytes += ages[i].bytes;
        oldest = ages[i].oldest_ns > oldest ? ages[i].oldest_ns : oldest;
    }
    CHECK_EQ(objects, PERIODS + 1);
    CHECK_EQ(bytes, (PERIODS + 1) * 1024);
    CHECK(oldest >= (uint64_t)PERIODS * 1000 * MS && oldest < 60000ull * MS);
    for (int i = 0; i <= PERIODS; i++)
        free(p[i]);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), 0);
    CHECK_EQ(ages_of(id, ages, 8), 0);
    jespan_close(open);
    ctl_check_identity("ages");
}

/* A thread that never leaves its context still allocates in one period after another. */
static void a_long_span_grows_older(void)
{
    struct jespan_age ages[8] = {0};
    void *first, *last;
    jespan_context_t id;
    {
        JESPAN("long");
        id = jespan_current();
        first = malloc(3000);
        sleep_ms(1100);
        for (int i = 0; i < 10000; i++)
            free(malloc(16 + (size_t)(i % 64) * 16)); /* something rare comes along */
        last = malloc(3000);
        CHECK_EQ(jespan_current(), id);
        CHECK_EQ(ages_of(id, ages, 8), 2);
        CHECK_EQ(ctl_span(id, "outlived_bytes"), 0);
    }
    CHECK_EQ(ctl_span(id, "opens"), 1);
    CHECK_EQ(ctl_span(id, "enters"), 1);
    CHECK_EQ(ctl_span(id, "outlived_objects"), 2);
    uint64_t wall = ctl_span(id, "wall_ns"), again = ctl_span(id, "wall_ns");
    CHECK(wall >= 1100ull * MS && wall < 30000ull * MS);
    CHECK_EQ(wall, again);
    free(first);
    free(last);
}

/* Periods come and go by the thousand; nothing gets lost, and the numbers of contexts suffice. */
static void *churn(void *unused)
{
    for (int i = 0; i < 200000; i++) {
        JESPAN("outer");
        void *p = malloc(64);
        {
            JESPAN("inner");
            free(malloc(200));
        }
        free(p);
    }
    return unused;
}

static void periods_are_merged_when_empty(void)
{
    pthread_t threads[4];
    void *kept = malloc(500);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        sleep_ms(1000);
    }
    /* Other contexts, with labels, until some must be recycled: the periods that hold nothing are among them. */
    for (int i = 0; i < 400; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        struct jespan_label label = {"number", number};
        CHECK_EQ(jespan_close(jespan_open(&request, JESPAN_ROOT, &label, 1)), 0);
    }
    CHECK(ctl_u64("spans.stats.recycled") > 0);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    uint64_t opens = 0;
    uint32_t ids[256];
    size_t bytes = sizeof ids;
    ctl_refresh();
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof ids[0]; i++)
        if (!strcmp(ctl_span_text(ids[i], "name"), "outer"))
            opens += ctl_span(ids[i], "opens");
    CHECK_EQ(opens, 3 * 4 * 200000);
    ctl_check_identity("merged periods");
    free(kept);
}

/* An allocation is inside its stack when the thread asks which period it is. The thread enters the period once. */
static void stacks_in_periods(void)
{
    enum { OBJECTS = 2000 };
    static void *kept[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++)
        kept[i] = malloc(100 + i * 37);
    CHECK(ctl_u64("spans.stats.stacks.stacks") > 0);
    CHECK_EQ(ctl_span(jespan_current(), "enters"), 1);
    CHECK(ctl_span(jespan_current(), "inuse_objects") >= OBJECTS);
    for (size_t i = 0; i < OBJECTS; i++)
        free(kept[i]);
    ctl_check_identity("stacks in periods");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"memory_of_closed_spans", memory_of_closed_spans, NULL, NULL},
        {"the_end_of_a_block", the_end_of_a_block, NULL, NULL},
        {"the_end_of_a_block, with periods", the_end_of_a_block, NULL, "age_period_s:3600"},
        {"outlived_by_site", outlived_by_site, NULL, NULL},
        {"ages_of_a_context_that_is_always_open", ages_of_a_context_that_is_always_open, NULL, "age_period_s:1"},
        {"ages_of_a_context_that_is_always_open, without times", ages_of_a_context_that_is_always_open, NULL,
         "age_period_s:1,track_time:off"},
        {"a_long_span_grows_older", a_long_span_grows_older, NULL, "age_period_s:1"},
        {"periods_are_merged_when_empty", periods_are_merged_when_empty, NULL, "age_period_s:1,max_contexts:64"},
        {"stacks_in_periods", stacks_in_periods, NULL, "age_period_s:3600,stacks:all"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
