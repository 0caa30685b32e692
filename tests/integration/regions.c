/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: the end of a region frees all its objects, to the byte. Objects that are credited to another context
 * stay. Late use is detected. */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/ctl.h"

JESPAN_SITE(region_site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
JESPAN_SITE(refusing_site, "refusing", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE});
JESPAN_SITE(releasing_site, "releasing", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_RELEASE});
JESPAN_SITE(wiped_site, "wiped", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED});
JESPAN_SITE(cache_site, "cache");
JESPAN_SITE(arena_site, "arena", .arena = {.flags = JESPAN_ARENA});

#define OBJECTS 3000

static jespan_span_t *open_region(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_ROOT, NULL, 0);
    CHECK(span != NULL);
    return span;
}

static jespan_context_t context_of(jespan_span_t *span)
{
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return id;
}

static void *allocate_in(jespan_span_t *span, size_t bytes)
{
    CHECK_EQ(jespan_enter(span), 0);
    void *p = malloc(bytes);
    CHECK_EQ(jespan_exit(span), 0);
    return p;
}

/* Allocates objects of all sizes. Some are freed again, some are resized. */
static void fill(void)
{
    void *last = NULL;
    for (size_t i = 0; i < OBJECTS; i++) {
        char *p = i % 3 ? malloc(1 + i * 37 % 9000) : aligned_alloc(64, 64 + i);
        CHECK(p != NULL);
        memset(p, 1, 1);
        if (i % 5 == 0)
            free(last);
        last = i % 7 ? p : realloc(p, 12 * i + 1);
    }
    CHECK(malloc(3 << 20) && calloc(5, 100000));
}

static void all_of_it_goes(void)
{
    uint64_t before = ctl_u64("spans.all.inuse_bytes"), objects = ctl_u64("spans.all.inuse_objects");
    for (int round = 0; round < 5; round++) {
        jespan_span_t *span = open_region(&region_site);
        jespan_context_t id = context_of(span);
        CHECK_EQ(jespan_enter(span), 0);
        fill();
        {
            JESPAN("inside");
            fill();
        }
        CHECK_EQ(jespan_exit(span), 0);
        uint64_t live = ctl_span(id, "total.inuse_bytes"), all = ctl_u64("spans.all.inuse_bytes");
        CHECK(live > 20000000);
        CHECK_EQ(all - before, live);
        CHECK_EQ(jespan_close(span), 0);
        CHECK_EQ(ctl_span(id, "total.inuse_bytes"), 0);
        CHECK_EQ(ctl_span(id, "total.inuse_objects"), 0);
        CHECK_EQ(ctl_u64("spans.all.inuse_bytes"), before);
        CHECK_EQ(ctl_u64("spans.all.inuse_objects"), objects);
        CHECK_EQ(region_stat("released"), (uint64_t)round + 1);
    }
    CHECK_EQ(ctl_u64("spans.stats.regions_set_aside"), 0);
}

/* For jemalloc, the arena's allocated bytes are those in caches. After a release there are none. */
static void jemalloc_agrees(void)
{
    char name[64];
    uint64_t epoch = 1;
    jespan_span_t *span = open_region(&region_site);
    unsigned index = arena_of_object(allocate_in(span, 100));
    CHECK_EQ(jespan_enter(span), 0);
    fill();
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", index);
    CHECK_EQ(ctl_u64(name), 0);
    snprintf(name, sizeof name, "stats.arenas.%u.large.allocated", index);
    CHECK_EQ(ctl_u64(name), 0);
    snprintf(name, sizeof name, "stats.arenas.%u.pactive", index);
    CHECK_EQ(ctl_u64(name), 0);
    span = open_region(&region_site);
    CHECK_EQ(arena_of_object(allocate_in(span, 100)), index); /* the arena is used again */
    CHECK_EQ(jespan_close(span), 0);
}

static void what_is_another_owners_is_elsewhere(void)
{
    jespan_span_t *cache = open_region(&cache_site), *span = open_region(&region_site), *apart = open_region(&arena_site);
    jespan_context_t id = context_of(cache), own = context_of(apart);
    unsigned outside = arena_of_object(allocate_in(cache, 100)), special = arena_of_object(allocate_in(apart, 100));
    CHECK_EQ(jespan_enter(span), 0);
    unsigned inside = arena_of_object(malloc(100));
    CHECK(inside != outside && inside != special);
    {
        JESPAN("below");
        CHECK_EQ(arena_of_object(malloc(100)), inside);
        JESPAN_CREDIT(id);
        CHECK_EQ(arena_of_object(malloc(100)), outside);
        JESPAN_CREDIT(own);
        CHECK_EQ(arena_of_object(malloc(100)), special);
    }
    CHECK_EQ(arena_of_object(malloc(100)), inside);
    CHECK_EQ(jespan_enter(cache), 0);
    CHECK_EQ(arena_of_object(malloc(100)), outside);
    CHECK_EQ(jespan_exit(cache), 0);
    jespan_context_t previous = jespan_attach(id);
    CHECK_EQ(arena_of_object(malloc(100)), outside);
    jespan_attach(previous);
    CHECK_EQ(arena_of_object(malloc(100)), inside);
    {
        JESPAN_REGION("another");
        unsigned other = arena_of_object(malloc(100));
        CHECK(other != inside && other != outside && other != special);
    }
    CHECK_EQ(arena_of_object(malloc(100)), inside);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(arena_of_object(malloc(100)), outside);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 4);
    CHECK_EQ(ctl_span(own, "inuse_objects"), 2);
}

/* Memory that jespan allocates for itself in a region stays after the region. */
static void jespans_own_is_elsewhere(void)
{
    const char *path = "/dev/full/none";
    for (int i = 0; i < 3; i++) {
        JESPAN_REGION("dumping");
        CHECK(malloc(100) != NULL);
        CHECK(mallctl("spans.dump", NULL, NULL, &path, sizeof path) != 0); /* the exporter is loaded now */
    }
}

static void survivors_stay(void)
{
    jespan_span_t *span = open_region(&region_site);
    jespan_context_t id = context_of(span);
    char *kept = allocate_in(span, 100);
    uint64_t live = malloc_usable_size(allocate_in(span, 5000));
    CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(region_stat("set_aside"), 1);
    CHECK_EQ(region_stat("survivors"), 1);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), live);
    memset(kept, 2, 100);
    span = open_region(&region_site); /* has another arena */
    CHECK(arena_of_object(allocate_in(span, 10)) != arena_of_object(kept));
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(region_stat("set_aside"), 1);
    free(kept);
    span = open_region(&region_site);
    CHECK_EQ(region_stat("set_aside"), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), 0);
}

static void survivors_are_in_the_way(void)
{
    jespan_span_t *span = open_region(&refusing_site);
    CHECK_EQ(jespan_ref(span), 0);
    char *kept = allocate_in(span, 100);
    CHECK(allocate_in(span, 200) != NULL);
    CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
    CHECK_EQ(jespan_close(span), EBUSY);
    CHECK_EQ(jespan_unref(span), 0); /* not the last */
    CHECK_EQ(jespan_unref(span), EBUSY);
    CHECK(allocate_in(span, 300) != NULL); /* open as before */
    free(kept);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(jespan_close(span), EINVAL);
    CHECK_EQ(region_stat("released_objects"), 2);
}

/* A block cannot stay open. */
static void a_block_does_not_refuse(void)
{
    char *kept;
    {
        JESPAN_REGION_OF(&refusing_site);
        kept = malloc(100);
        CHECK(malloc(1000) != NULL);
        CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
        errno = 77;
    }
    CHECK_EQ(errno, 77);
    CHECK_EQ(region_stat("set_aside"), 1);
    free(kept);
    jespan_close(open_region(&refusing_site));
    CHECK_EQ(region_stat("set_aside"), 0);
    CHECK_EQ(region_stat("released"), 2);
}

static void what_is_resized_outside_stays(void)
{
    static const size_t sizes[] = {100, 5000, 1 << 20};
    char *p[3];
    jespan_span_t *span = open_region(&region_site);
    for (int i = 0; i < 3; i++) {
        p[i] = allocate_in(span, sizes[i]);
        memset(p[i], 'a' + i, sizes[i]);
        p[i] = realloc(p[i], sizes[i] - i);
    }
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(region_stat("set_aside"), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(p[i][0] == 'a' + i && p[i][sizes[i] - (size_t)i - 1] == 'a' + i);
        free(p[i]);
    }
}

/* A table that grows when a region is entered belongs to the program, not to the region. */
static void what_is_resized_inside_stays(void)
{
    unsigned long *table = malloc(16 * sizeof *table), n = 16;
    char *outer;
    {
        JESPAN_REGION("outer");
        outer = malloc(100);
        unsigned at = arena_of_object(outer);
        {
            JESPAN_REGION("inner");
            for (; n < 100000; n *= 2) {
                table = realloc(table, 2 * n * sizeof *table);
                memset(table, 5, 2 * n * sizeof *table);
            }
            outer = realloc(outer, 5000);
            CHECK_EQ(arena_of_object(outer), at);
            char *own = realloc(malloc(10), 10000);
            CHECK(own && arena_of_object(own) != at && arena_of_object(own) != arena_of_object(table));
        }
        memset(outer, 1, 5000);
    }
    CHECK_EQ(region_stat("released"), 2);
    CHECK_EQ(region_stat("survivors"), 0);
    CHECK_EQ(table[n - 1], 0x0505050505050505);
    free(table);
}

static void survivors_go_too(void)
{
    uint64_t before = ctl_u64("spans.1.inuse_bytes");
    jespan_span_t *span = open_region(&releasing_site);
    char *gone = allocate_in(span, 100);
    CHECK_EQ(jespan_credit(gone, JESPAN_BASE), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(region_stat("released_objects"), 1);
    CHECK_EQ(ctl_u64("spans.1.inuse_bytes"), before);
}

/* Calls run() in a child, and keeps in `said` what the child writes to stderr. */
static void in_child(void (*run)(void), char *said, size_t bytes)
{
    int out[2], status;
    CHECK_EQ(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(out[1]);
    ssize_t n = read(out[0], said, bytes - 1);
    said[n > 0 ? n : 0] = '\0';
    close(out[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void free_too_late(void)
{
    void *volatile p;
    {
        JESPAN_REGION("gone");
        p = malloc(100);
    }
    free(p);
}

static void free_a_big_one_too_late(void)
{
    void *volatile p;
    {
        JESPAN_REGION("gone");
        p = malloc(100000);
    }
    free(p);
}

static void late_frees_are_found(void)
{
    char said[256];
    in_child(free_too_late, said, sizeof said);
    CHECK(strstr(said, "free of a pointer that is not allocated"));
    in_child(free_a_big_one_too_late, said, sizeof said);
    CHECK(strstr(said, "free of a pointer that is not allocated"));
}

static void nothing_is_left_to_read(void)
{
    jespan_span_t *span = open_region(&wiped_site);
    char *p = allocate_in(span, 1000), *q = allocate_in(span, 100000);
    memset(p, 'x', 1000);
    memset(q, 'x', 100000);
    CHECK_EQ(jespan_close(span), 0);
    span = open_region(&wiped_site); /* objects that cross the end of a page */
    char *last[20];
    for (int i = 0; i < 20; i++)
        memset(last[i] = allocate_in(span, 3500), 'x', 3500);
    CHECK_EQ(jespan_close(span), 0);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 3500; k++)
            CHECK_EQ(((volatile const char *)last[i])[k], 0);
    volatile const char *late = p; /* jemalloc still has the page, because it decays later */
    CHECK_EQ(late[500], 0);
    late = q;
    CHECK_EQ(late[50000], 0);
}

/* ---- Threads ---- */

static pthread_barrier_t barrier;
static jespan_span_t *common;

static void *stay_inside(void *unused)
{
    (void)unused;
    CHECK_EQ(jespan_enter(common), 0);
    char *p = malloc(100);
    pthread_barrier_wait(&barrier); /* inside */
    pthread_barrier_wait(&barrier); /* closed */
    memset(p, 3, 100);
    fill();
    CHECK_EQ(jespan_exit(common), 0);
    return NULL;
}

static void nothing_goes_while_a_thread_is_inside(void)
{
    pthread_t thread;
    common = open_region(&region_site);
    jespan_context_t id = context_of(common);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, stay_inside, NULL);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(jespan_close(common), 0);
    CHECK_EQ(region_stat("released"), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 1);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK_EQ(region_stat("released"), 1);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
}

static void *end_inside(void *unused)
{
    (void)unused;
    CHECK_EQ(jespan_enter(common), 0);
    fill();
    return NULL;
}

static void a_thread_may_end_inside(void)
{
    pthread_t thread;
    common = open_region(&region_site);
    jespan_context_t id = context_of(common);
    pthread_create(&thread, NULL, end_inside, NULL);
    pthread_join(thread, NULL);
    CHECK(ctl_span(id, "inuse_objects") > OBJECTS / 2);
    CHECK_EQ(jespan_close(common), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
}

static void *free_there(void *p)
{
    free(p);
    return NULL;
}

/* Any thread frees objects, inside or outside. Only the owner uses the cache. */
static void others_may_free(void)
{
    pthread_t thread;
    jespan_span_t *span = open_region(&region_site);
    jespan_context_t id = context_of(span);
    CHECK_EQ(jespan_enter(span), 0);
    for (int i = 0; i < 10; i++) {
        pthread_create(&thread, NULL, free_there, malloc(100 << i));
        pthread_join(thread, NULL);
    }
    CHECK(ctl_span(id, "inuse_objects") < 10); /* of pthread_create() */
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
}

#define THREADS 8
static void *come_and_go(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        JESPAN_REGION("request");
        for (int k = 0; k < 50; k++) {
            char *p = malloc((size_t)(1 + k * 97 % 5000));
            memset(p, i, 1);
            if (k % 4 == 0)
                free(p);
        }
        JESPAN_REGION("nested");
        CHECK(malloc(100) != NULL);
    }
    return NULL;
}

static void many_come_and_go(void)
{
    pthread_t threads[THREADS];
    uint64_t before = ctl_u64("spans.all.inuse_bytes");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, come_and_go, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (region_stat("shared"))
        CHECK(region_stat("released") > 0 && region_stat("released") + region_stat("lost") < THREADS * 600);
    else
        CHECK_EQ(region_stat("released") + region_stat("lost"), THREADS * 600);
    if (!region_stat("lost"))
        CHECK(ctl_u64("spans.all.inuse_bytes") <= before + 8192); /* stacks' caches of libc */
}

/* Two spans share an arena. The objects of both are released with the last span. */
static void two_may_share(void)
{
    jespan_span_t *a = open_region(&region_site), *b = open_region(&region_site);
    jespan_context_t id = context_of(a);
    CHECK_EQ(region_stat("shared"), 1);
    CHECK_EQ(arena_of_object(allocate_in(a, 100)), arena_of_object(allocate_in(b, 100)));
    CHECK_EQ(jespan_close(a), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 2);
    CHECK_EQ(jespan_close(b), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
    CHECK(jespan_open(&wiped_site, JESPAN_ROOT, NULL, 0) == NULL && errno == ENOSPC);
}

static void without_arenas_a_block_is_a_span(void)
{
    void *p;
    {
        JESPAN_REGION("block");
        jespan_context_t id = jespan_current();
        p = malloc(100);
        CHECK_EQ(ctl_span(id, "inuse_objects"), 1);
    }
    memset(p, 1, 100);
    free(p);
    CHECK_EQ(region_stat("lost"), 1);
}

/* The child continues in the region of the forking thread. Nobody there closes the region of the other thread. */
static void a_child_goes_on(void)
{
    pthread_t thread;
    common = open_region(&region_site);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, stay_inside, NULL);
    pthread_barrier_wait(&barrier);
    jespan_span_t *own = open_region(&region_site);
    CHECK_EQ(jespan_enter(own), 0);
    fill();
    pid_t pid = fork();
    if (pid == 0) {
        fill();
        CHECK_EQ(jespan_exit(own), 0);
        CHECK_EQ(jespan_close(own), 0);
        CHECK_EQ(jespan_close(common), 0);
        CHECK_EQ(region_stat("released"), 2);
        CHECK_EQ(ctl_span(context_of(own = open_region(&region_site)), "inuse_objects"), 0);
        _exit(check_failures != 0);
    }
    CHECK_CHILD(pid);
    CHECK_EQ(jespan_exit(own), 0);
    CHECK_EQ(jespan_close(own), 0);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK_EQ(jespan_close(common), 0);
    CHECK_EQ(region_stat("released"), 2);
}

static void wrong_calls_do_no_harm(void)
{
    struct jespan_block scope;
    jespan_enter_region(NULL, &region_site);
    jespan_enter_region(&scope, NULL);
    jespan_exit_region(&scope);
    jespan_exit_region(NULL);
    jespan_span_t *span = open_region(&region_site);
    CHECK_EQ(jespan_exit(span), EPERM);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(jespan_close(span), EINVAL);
    CHECK_EQ(jespan_enter(span), EINVAL);
}

static const struct test_case cases[] = {
    {"all of it goes", all_of_it_goes, NULL, NULL},
    {"all of it goes, with ages", all_of_it_goes, NULL, "age_period_s:1"},
    {"jemalloc agrees", jemalloc_agrees, NULL, NULL},
    {"what is another owner's is elsewhere", what_is_another_owners_is_elsewhere, NULL, NULL},
    {"jespan's own is elsewhere", jespans_own_is_elsewhere, NULL, NULL},
    {"survivors stay", survivors_stay, NULL, NULL},
    {"survivors are in the way", survivors_are_in_the_way, NULL, NULL},
    {"a block does not refuse", a_block_does_not_refuse, NULL, NULL},
    {"what is resized outside stays", what_is_resized_outside_stays, NULL, NULL},
    {"what is resized inside stays", what_is_resized_inside_stays, NULL, NULL},
    {"survivors go too", survivors_go_too, NULL, NULL},
    {"late frees are found", late_frees_are_found, NULL, NULL},
    {"nothing is left to read", nothing_is_left_to_read, NULL, NULL},
    {"nothing goes while a thread is inside", nothing_goes_while_a_thread_is_inside, NULL, NULL},
    {"a thread may end inside", a_thread_may_end_inside, NULL, NULL},
    {"others may free", others_may_free, NULL, NULL},
    {"many come and go", many_come_and_go, NULL, NULL},
    {"many come and go, with few arenas", many_come_and_go, NULL, "max_arenas:3"},
    {"two may share", two_may_share, NULL, "max_arenas:1"},
    {"without arenas a block is a span", without_arenas_a_block_is_a_span, NULL, "max_arenas:0"},
    {"a child goes on", a_child_goes_on, NULL, NULL},
    {"wrong calls do no harm", wrong_calls_do_no_harm, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
