/* SPDX-License-Identifier: BSD-2-Clause */
/* What threads keep of span arenas: figures stay exact, objects go back to jemalloc, and a released region leaves none behind. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/spans.h"

JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(region_site, "region", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(other_site, "other region", JESPAN_ARENA_REGION | JESPAN_ARENA_RELEASE);

#define OBJECTS 3000
static void *objects[OBJECTS];

static void fill(void)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        size_t bytes = 1 + i * 7 % 4096;
        objects[i] = F(malloc)(bytes);
        CHECK(objects[i] != NULL);
        memset(objects[i], (int)i, bytes);
    }
}

static void free_each(unsigned step)
{
    for (unsigned i = 0; i < OBJECTS; i += step)
        F(free)(objects[i]);
}

static void next_epoch(void)
{
    uint64_t epoch = 1;
    CHECK_EQ(F(mallctl)("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

/* Bytes of small objects that jemalloc takes for allocated in the span arena. */
static uint64_t allocated_in(unsigned arena)
{
    char name[64];
    next_epoch();
    snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", (unsigned)arena_figure(arena, "index"));
    return ctl_u64(name);
}

/* Objects that are kept count as pending, and flushing the thread's caches gives all of them back. */
static void kept_and_given_back(void)
{
    for (int round = 0; round < 3; round++) {
        ARENA_BLOCK(&cache_site);
        fill();
        ctl_check_identity("filled");
        free_each(1);
        arena_check_inuse(1, 0, 0, "freed");
        ctl_check_identity("freed");
    }
    CHECK(ctl_u64("spans.stats.pending_bytes") > 0);
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(allocated_in(1), 0);
    CHECK_EQ(ctl_u64("spans.stats.pending_bytes"), 0);
}

/* A thread that makes and drops many objects of a size in the arena keeps many of them. */
static void keeps_as_many_as_are_wanted(void)
{
    void *object[200];
    ARENA_BLOCK(&cache_site);
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++)
            CHECK((object[i] = F(malloc)(64)) != NULL);
        for (int i = 0; i < 200; i++)
            F(free)(object[i]);
        ctl_check_identity("batches");
    }
    CHECK(ctl_u64("spans.stats.pending_bytes") >= 128 * 64);
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(allocated_in(1), 0);
}

static void *free_all(void *unused)
{
    ARENA_BLOCK(&cache_site);
    F(free)(F(malloc)(100));
    free_each(1);
    return unused;
}

static void given_back_at_the_end_of_a_thread(void)
{
    pthread_t thread;
    {
        ARENA_BLOCK(&cache_site);
        fill();
    }
    CHECK_EQ(pthread_create(&thread, NULL, free_all, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    arena_check_inuse(1, 0, 0, "after the thread");
    CHECK_EQ(allocated_in(1), 0);
}

/* Objects in use keep their contents while others come and go, so none is given out twice. */
static void none_is_given_out_twice(void)
{
    ARENA_BLOCK(&cache_site);
    fill();
    for (int round = 0; round < 20; round++)
        for (unsigned i = (unsigned)round % 3; i < OBJECTS; i += 3) {
            F(free)(objects[i]);
            objects[i] = F(malloc)(1 + i * 7 % 4096);
            memset(objects[i], (int)i, 1 + i * 7 % 4096);
        }
    for (unsigned i = 0; i < OBJECTS; i++)
        for (size_t byte = 0; byte < 1 + i * 7 % 4096; byte += 64)
            CHECK_EQ(((unsigned char *)objects[i])[byte], i % 256);
    free_each(1);
}

static void in_a_region(void)
{
    jespan_span_t *region = jespan_open(&region_site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(region), 0);
    fill();
    free_each(2);
    CHECK_EQ(jespan_exit(region), 0);
    CHECK_EQ(jespan_enter(region), 0);
    for (unsigned i = 0; i < OBJECTS; i += 2)
        CHECK(F(malloc)(1 + i * 7 % 4096) != NULL);
    ctl_check_identity("in a region");
    CHECK_EQ(jespan_exit(region), 0);
    CHECK_EQ(jespan_close(region), 0);
    ctl_check_identity("after a region");
}

static void *pass_through(void *region)
{
    CHECK_EQ(jespan_enter(region), 0);
    for (int i = 0; i < 1000; i++)
        F(free)(F(malloc)(1 + (size_t)i * 7 % 4096));
    CHECK_EQ(jespan_exit(region), 0);
    return NULL;
}

/* What is kept for a region does not grow with the threads that pass through it. Neither those that have left it keep something, nor
 * those that have ended in it. */
static void a_thread_that_leaves_keeps_nothing(void)
{
    pthread_t thread;
    jespan_span_t *region = jespan_open(&region_site, JESPAN_ROOT, NULL, 0);
    pass_through(region);
    uint64_t before = ctl_u64("spans.stats.pending_bytes");
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, pass_through, region), 0);
        pthread_join(thread, NULL);
        CHECK(ctl_u64("spans.stats.pending_bytes") <= before);
    }
    CHECK_EQ(jespan_close(region), 0);
}

static void open_and_close(const struct jespan_site *site, int n)
{
    jespan_span_t *region = jespan_open(site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(region), 0);
    for (int i = 0; i < n; i++)
        CHECK(F(malloc)(100) != NULL);
    CHECK_EQ(jespan_exit(region), 0);
    CHECK_EQ(jespan_close(region), 0);
}

/* A small region leaves its memory for the next one. Once it was not opened for a while, regions that end give its memory back. */
static void an_idle_region_gives_back(void)
{
    open_and_close(&region_site, 10);
    arena_check_inuse(1, 0, 0, "after the region");
    CHECK(allocated_in(1) >= 1000);
    ctl_check_identity("after the region");
    while (allocated_in(1))
        open_and_close(&other_site, 1);
    ctl_check_identity("given back");
}

/* A child has the arenas of regions that ended before as they are, and uses them. */
static void a_child_after_regions(void)
{
    open_and_close(&region_site, 10);
    pid_t child = fork();
    if (!child) {
        ctl_check_identity("in the child");
        open_and_close(&region_site, 20);
        arena_check_inuse(1, 0, 0, "in the child");
        ctl_check_identity("after the child's region");
        _exit(check_result());
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    ctl_check_identity("in the parent");
}

/* Each thread finds the region's arena as the other one left it. */
static void *in_regions(void *unused)
{
    for (int i = 0; i < 3; i++)
        in_a_region();
    return unused;
}

static void regions_leave_nothing(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        in_regions(NULL);
        CHECK_EQ(allocated_in(1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, in_regions, NULL), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(allocated_in(1), 0);
    }
}

/* A child goes on with what its thread kept. */
static void in_a_child(void)
{
    ARENA_BLOCK(&cache_site);
    fill();
    free_each(2);
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned i = 0; i < OBJECTS; i += 2)
            CHECK((objects[i] = F(malloc)(1 + i * 7 % 4096)) != NULL);
        free_each(1);
        arena_check_inuse(1, 0, 0, "in a child");
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    ctl_check_identity("in the parent");
}

static const struct test_case cases[] = {
    {"kept_and_given_back", kept_and_given_back, NULL, NULL},
    {"keeps_as_many_as_are_wanted", keeps_as_many_as_are_wanted, NULL, NULL},
    {"kept_and_given_back, with a limit", kept_and_given_back, NULL, "limit:cache=64M"},
    {"given_back_at_the_end_of_a_thread", given_back_at_the_end_of_a_thread, NULL, NULL},
    {"none_is_given_out_twice", none_is_given_out_twice, NULL, NULL},
    {"none_is_given_out_twice, with a limit", none_is_given_out_twice, NULL, "limit:cache=64M"},
    {"a_thread_that_leaves_keeps_nothing", a_thread_that_leaves_keeps_nothing, NULL, NULL},
    {"an_idle_region_gives_back", an_idle_region_gives_back, NULL, NULL},
    {"a_child_after_regions", a_child_after_regions, NULL, NULL},
    {"regions_leave_nothing", regions_leave_nothing, NULL, NULL},
    {"regions_leave_nothing, with a limit", regions_leave_nothing, NULL, "limit:region=64M"},
    {"in_a_child", in_a_child, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
