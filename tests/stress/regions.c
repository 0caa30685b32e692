/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions open and close on many threads, with objects that other threads free, survivors, forks in between, and more
 * regions than arenas. At the end nothing is left, and jemalloc's own count agrees.
 *
 * REGIONS_ROUNDS: regions of each thread (1,000; with a sanitizer 200). The program runs itself again with max_arenas:3
 * and with ages.
 */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/many_locks.h"

#define THREADS 8
#define TABLE 64

JESPAN_SITE(request_site, "request", .arena = {.flags = JESPAN_ARENA_REGION});
JESPAN_SITE(wiped_site, "wiped", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED});
JESPAN_SITE(cache_site, "cache", .arena = {.flags = JESPAN_ARENA});

/* Survivors, which any thread takes out and frees. */
static _Atomic(void *) survivors[TABLE];
static jespan_context_t cache;
static atomic_bool over;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void keep(void *p, uint64_t place)
{
    F(free)(atomic_exchange(&survivors[place % TABLE], p));
}

static void work(uint64_t *state, int depth)
{
    void *mine[20] = {0};
    for (int i = 0; i < 60; i++) {
        uint64_t r = next(state), at = r % 20;
        void *p = F(malloc)(1 + (r >> 5) % (i % 9 ? 600 : 30000));
        CHECK(p != NULL);
        memset(p, 1, 1);
        F(free)(mine[at]);
        mine[at] = i % 7 ? p : F(realloc)(p, 1 + (r >> 7) % 9000);
    }
    if (depth > 0) {
        JESPAN_REGION_OF(depth % 2 ? &wiped_site : &request_site);
        work(state, depth - 1);
    }
}

static void one_region(uint64_t *state)
{
    uint64_t r = next(state);
    jespan_span_t *span = jespan_open(r % 5 ? &request_site : &wiped_site, JESPAN_ROOT, NULL, 0);
    if (!span)
        return; /* max_arenas */
    CHECK_EQ(jespan_enter(span), 0);
    work(state, (int)(r % 3));
    if (r % 50 == 0) {
        void *p = F(malloc)(1 + r % 3000);
        CHECK_EQ(jespan_credit(p, cache), 0);
        keep(p, r >> 8);
    } else if (r % 50 == 1) {
        JESPAN_CREDIT(cache);
        keep(F(malloc)(100), r >> 8);
    }
    if (r % 3 == 0)
        CHECK_EQ(jespan_close(span), 0); /* inside */
    CHECK_EQ(jespan_exit(span), 0);
    if (r % 3)
        CHECK_EQ(jespan_close(span), 0);
}

static uint64_t rounds(void)
{
    return check_rounds("REGIONS_ROUNDS", FAMILY_INTERPOSED ? 1000 : 200);
}

static void *run(void *number)
{
    uint64_t state = (uintptr_t)number + 1;
    for (uint64_t i = 0; i < rounds(); i++)
        one_region(&state);
    return NULL;
}

static void *run_until_over(void *number)
{
    uint64_t state = (uintptr_t)number + 100;
    while (!over)
        one_region(&state);
    return NULL;
}

static void open_cache(void)
{
    jespan_span_t *span = jespan_open(&cache_site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    cache = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
}

/* Memory that was set aside is released with the next region, since nothing survives any more. */
static void check_empty(const char *where)
{
    uint64_t state = 7;
    for (uint64_t i = 0; i < TABLE; i++)
        keep(NULL, i);
    work(&state, 0);
    jespan_span_t *span = jespan_open(&request_site, JESPAN_ROOT, NULL, 0);
    if (span)
        jespan_close(span);
    for (uint32_t arena = 1; arena <= ctl_u64("spans.arenas.count"); arena++) {
        char name[64];
        snprintf(name, sizeof name, "spans.arenas.%u.inuse_objects", (unsigned)arena);
        if (ctl_u64(name))
            check_fail("%s: arena %u has %llu objects", where, (unsigned)arena, (unsigned long long)ctl_u64(name));
    }
    CHECK_EQ(ctl_u64("spans.stats.regions_set_aside"), 0);
    CHECK_EQ(ctl_span(cache, "inuse_objects"), 0);
    ctl_check_identity(where);
}

static void threads(void)
{
    pthread_t thread[THREADS];
    open_cache();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK(ctl_u64("spans.stats.regions_released") > 0);
    check_empty("after all");
}

/* A child has the regions that its thread was in. Objects of other threads in them belong to no thread. */
static void forks(void)
{
    pthread_t thread[THREADS];
    uint64_t state = 5;
    open_cache();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, run_until_over, (void *)i), 0);
    for (int i = 0; i < (FAMILY_INTERPOSED ? 30 : 5); i++) {
        jespan_span_t *span = jespan_open(&request_site, JESPAN_ROOT, NULL, 0);
        if (span)
            jespan_enter(span);
        work(&state, 1);
        pid_t pid = fork();
        if (pid == 0) {
            work(&state, 1);
            if (span && (jespan_exit(span) || jespan_close(span)))
                _exit(3);
            for (int k = 0; k < 50; k++)
                one_region(&state);
            _exit(check_failures != 0);
        }
        CHECK_CHILD(pid);
        if (span)
            CHECK_EQ(jespan_exit(span) + jespan_close(span), 0);
    }
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"threads", threads, NULL, "max_arenas:100"},
        {"threads, with ages", threads, NULL, "max_arenas:100,age_period_s:1"},
        {"threads, with few arenas", threads, NULL, "max_arenas:4"},
        {"forks", forks, "narenas:1", NULL},
        {"forks, with few arenas", forks, "narenas:1", "max_arenas:4"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
