/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas under many threads, many spans, and forks in the middle.
 *
 * ARENAS_THREADS: threads that come and go over 64 arenas (10,000). ARENAS_SPANS: spans with a label of their own
 * (1,000,000). ARENAS_FORKS: children of threads that allocate (40), each with two generations below it.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/many_locks.h"
#include "../support/objects.h"
#include "../support/spans.h"
#include "base/compiler.h"

#define ARENAS 64
#define AT_ONCE 8
#define HELD 4096 /* objects that threads leave to each other */

static struct jespan_site sites[ARENAS];
static char names[ARENAS][16];
static _Atomic(void *) held[HELD];

static void make_sites(void)
{
    for (unsigned i = 0; i < ARENAS; i++) {
        snprintf(names[i], sizeof names[i], "arena%u", i);
        sites[i] = (struct jespan_site){.name = names[i], .arena = {.flags = JESPAN_ARENA}};
    }
}

/* Puts new objects of the arena into places, and frees the objects that were there. */
static void exchange(struct random *r, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        size_t size = random_below(r, 64) ? random_below(r, 700) : random_below(r, 40000);
        F(free)(atomic_exchange(&held[random_below(r, HELD)], F(malloc)(size)));
    }
}

static void visit_arenas(struct random *r, unsigned visits)
{
    for (unsigned i = 0; i < visits; i++) {
        ARENA_BLOCK(&sites[random_below(r, ARENAS)]);
        exchange(r, 40);
    }
}

static void *short_life(void *number)
{
    struct random r = {.state = ((uintptr_t)number + 1) * 0x9e3779b97f4a7c15ull};
    visit_arenas(&r, 4);
    if ((uintptr_t)number % 2 == 0)
        jespan_enter(jespan_open(&sites[random_below(&r, ARENAS)], JESPAN_ROOT, NULL, 0)); /* never left */
    exchange(&r, 1);
    return NULL;
}

/* Checks that the arenas have the objects in `held`, and nothing in caches. */
static void check_held(const char *where)
{
    uint64_t objects[ARENAS + 1] = {0}, bytes[ARENAS + 1] = {0}, index[ARENAS + 1], any = 1;
    uint32_t end = (uint32_t)ctl_u64("spans.arenas.count") + 1;
    for (uint32_t arena = 1; arena < end; arena++)
        index[arena] = arena_figure(arena, "index");
    for (unsigned i = 0; i < HELD; i++)
        for (uint32_t arena = 1; held[i] && arena < end; arena++)
            if (arena_of_object(held[i]) == index[arena]) {
                objects[arena]++;
                bytes[arena] += F(malloc_usable_size)(held[i]);
                break;
            }
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(F(mallctl)("spans.epoch", NULL, NULL, &any, sizeof any), 0);
    for (uint32_t arena = 1; arena < end; arena++) {
        arena_check_inuse(arena, objects[arena], bytes[arena], where);
        CHECK_EQ(arena_figure(arena, "cached_bytes"), 0);
    }
}

static void free_held(void)
{
    for (unsigned i = 0; i < HELD; i++)
        F(free)(atomic_exchange(&held[i], NULL));
}

/* jemalloc has 4094 explicit tcaches. Span arenas take no more than 2,048 of them. Each of these threads asks for
 * several. */
static void threads(void)
{
    uint64_t n = check_rounds("ARENAS_THREADS", 10000);
    make_sites();
    for (uint64_t i = 0; i < n; i += AT_ONCE) {
        pthread_t thread[AT_ONCE];
        for (uint64_t k = 0; k < AT_ONCE; k++)
            CHECK_EQ(pthread_create(&thread[k], NULL, short_life, (void *)(uintptr_t)(i + k)), 0);
        for (unsigned k = 0; k < AT_ONCE; k++)
            pthread_join(thread[k], NULL);
    }
    CHECK_EQ(ctl_u64("spans.arenas.count"), ARENAS);
    CHECK_EQ(ctl_u64("spans.stats.tcache_fallbacks"), 0);
    check_held("after all threads");
    free_held();
    check_held("all freed");
    ctl_check_identity("all freed");
}

static void *stay_in_all(void *barrier)
{
    struct random r = {.state = (uintptr_t)barrier | 1};
    for (unsigned i = 0; i < ARENAS; i++) {
        ARENA_BLOCK(&sites[i]);
        exchange(&r, 20);
    }
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* Threads times arenas are more than the tcaches that span arenas may have. The rest goes without a tcache and is
 * counted, and the program gets tcaches of its own. */
static void more_than_tcaches(void)
{
    enum { THREADS = 80 };
    pthread_t thread[THREADS];
    pthread_barrier_t barrier;
    make_sites();
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (unsigned k = 0; k < THREADS; k++)
        CHECK_EQ(pthread_create(&thread[k], NULL, stay_in_all, &barrier), 0);
    pthread_barrier_wait(&barrier);
    uint64_t lost = ctl_u64("spans.stats.tcache_fallbacks");
    CHECK_EQ(lost, THREADS * ARENAS - 2048);
    for (int i = 0; i < 2000; i++) {
        unsigned cache;
        size_t bytes = sizeof cache;
        CHECK_EQ(F(mallctl)("tcache.create", &cache, &bytes, NULL, 0), 0);
    }
    ctl_check_identity("without tcaches");
    pthread_barrier_wait(&barrier);
    for (unsigned k = 0; k < THREADS; k++)
        pthread_join(thread[k], NULL);
    struct random r = {.state = 1};
    visit_arenas(&r, 1000);
    CHECK_EQ(ctl_u64("spans.stats.tcache_fallbacks"), lost);
    check_held("with tcaches again");
    free_held();
    ctl_check_identity("with tcaches again");
}

/* A million spans have at most max_arenas arenas. The arenas of tenants that are gone serve the next ones. */
static void spans(void)
{
    static const struct jespan_site site = {"request", "", "", 0, {JESPAN_ARENA, 0, 0, 0, 0, "who"}};
    struct random r = {.state = 77};
    for (uint64_t i = 0, n = check_rounds("ARENAS_SPANS", 1000000); i < n; i++) {
        char who[24];
        snprintf(who, sizeof who, "%llu", (unsigned long long)i);
        const struct jespan_label label = JESPAN_LABEL("who", who);
        jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
        CHECK_EQ(jespan_enter(span), 0);
        if (i % 16)
            F(free)(opaque_pointer(F(malloc)(100)));
        else
            exchange(&r, 1);
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
    }
    CHECK_EQ(ctl_u64("spans.arenas.count"), 16);
    check_held("after all spans");
    free_held();
    check_held("all freed");
    ctl_check_identity("all freed");
}

static atomic_bool over;
static atomic_uint begun;

static void *busy(void *number)
{
    struct random r = {.state = ((uintptr_t)number + 1) * 0x9e3779b97f4a7c15ull};
    visit_arenas(&r, 1);
    begun++;
    while (!over)
        visit_arenas(&r, 1);
    return NULL;
}

/* A child's figures are as exact as its parent's, except for objects whose exchange the fork interrupted. */
static void generation(unsigned below, uint64_t seed)
{
    struct random r = {.state = seed};
    uint64_t inuse = ctl_u64("spans.all.inuse_objects");
    visit_arenas(&r, 200);
    free_held();
    CHECK(ctl_u64("spans.all.inuse_objects") <= inuse);
    for (uint32_t arena = 1; arena <= ctl_u64("spans.arenas.count"); arena++)
        if (arena_figure(arena, "inuse_objects") > AT_ONCE)
            check_fail("arena %u has %llu objects left", (unsigned)arena,
                       (unsigned long long)arena_figure(arena, "inuse_objects"));
    if (!UNDER_TSAN) /* which cannot */
        spans_on_thread(short_life, (void *)(uintptr_t)seed);
    if (!below)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        generation(below - 1, seed + 1);
        _exit(check_result());
    }
    CHECK_CHILD(pid);
}

/* Forks children of a program whose threads go on in their arenas. All threads have begun before the first child: a child
 * that makes a thread waits for ever if another thread was in AddressSanitizer's allocator, as a new thread is. */
static void forks(void)
{
    pthread_t thread[AT_ONCE];
    make_sites();
    for (unsigned i = 0; i < ARENAS; i++) {
        ARENA_BLOCK(&sites[i]);
    }
    for (uintptr_t k = 0; k < AT_ONCE; k++)
        CHECK_EQ(pthread_create(&thread[k], NULL, busy, (void *)k), 0);
    while (begun < AT_ONCE)
        sched_yield();
    for (uint64_t i = 0, n = check_rounds("ARENAS_FORKS", 40); i < n; i++) {
        struct random r = {.state = i + 1};
        visit_arenas(&r, 50);
        pid_t pid = fork();
        if (pid == 0) {
            over = true;
            generation(2, i + 1);
            _exit(check_result());
        }
        CHECK_CHILD(pid);
    }
    over = true;
    for (unsigned k = 0; k < AT_ONCE; k++)
        pthread_join(thread[k], NULL);
    check_held("after all forks");
    free_held();
    ctl_check_identity("after all forks");
}

/* ThreadSanitizer does not see how jemalloc hands a new arena of its own from thread to thread. */
#define MALLOC_CONF_USED (UNDER_TSAN ? "narenas:1" : NULL)

static const struct test_case cases[] = {
    {"threads", threads, MALLOC_CONF_USED, NULL},
    {"more_than_tcaches", more_than_tcaches, MALLOC_CONF_USED, NULL},
    {"spans", spans, MALLOC_CONF_USED, "max_arenas:16"},
    {"forks", forks, MALLOC_CONF_USED, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
