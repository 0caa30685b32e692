/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: no object is freed that somebody holds, no other object stays, and no arena is lost (docs/regions.md). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include <jespan/limit.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/entered.h"
#include "../support/family.h"
#include "../support/regions.h"

JESPAN_SITE(region_site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
JESPAN_SITE(wiped_site, "wiped", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED});
JESPAN_SITE(step_site, "step");

#define CACHE(index) (((int)(index) + 2) << 8)  /* MALLOCX_TCACHE() */
#define CACHE_NONE CACHE(-1)
#define ARENA(index) ((int)((index) + 1) << 20) /* MALLOCX_ARENA() */

/* A region that was set aside and has no survivors any more is released when another region is opened. */
static void check_nothing_is_aside(void)
{
    leave(enter_new(&region_site));
    CHECK_EQ(region_stat("set_aside"), 0);
}

/* ---- While limits are set ---- */

/* Makes threads find their region again at their next allocation. */
static void what_is_resized_stays_though_limits_come(void)
{
    jespan_span_t *step = enter_new(&step_site);
    jespan_context_t other = jespan_current();
    CHECK_EQ(jespan_exit(step), 0);
    char *outside = strcpy(malloc(100), "outside");
    jespan_span_t *outer = enter_new(&region_site);
    char *p = strcpy(malloc(100), "in the outer one");
    unsigned own = arena_of_object(p);
    jespan_span_t *inner = enter_new(&wiped_site);
    CHECK_EQ(jespan_set_limit(other, 0, 1000000), 0);
    p = realloc(p, 5000);
    CHECK_EQ(arena_of_object(p), own);
    CHECK_EQ(jespan_set_limit(other, 0, 2000000), 0);
    CHECK_EQ(jespan_set_limit(other, 0, 0), 0);
    outside = realloc(outside, 5000);
    CHECK_EQ(jespan_set_limit(other, 0, 1000000), 0);
    CHECK_EQ(setenv("JESPAN_TEST_VARIABLE", "of libc", 1), 0);
    leave(inner);
    CHECK(!strcmp(p, "in the outer one"));
    leave(outer);
    CHECK(!strcmp(outside, "outside"));
    CHECK(!strcmp(getenv("JESPAN_TEST_VARIABLE"), "of libc"));
    free(outside);
    CHECK_EQ(jespan_set_limit(other, 0, 0), 0);
    CHECK_EQ(jespan_close(step), 0);
}

/* ---- While pages are given back ---- */

static atomic_bool over;

/* Runs of objects are freed, so the walk over the region meets free pages. */
static void *come_and_go(void *number)
{
    enum { OBJECTS = 1500, RUN = 100 };
    char *objects[OBJECTS];
    uint64_t state = (uintptr_t)number + 1;
    for (int round = 0; round < 150; round++) {
        JESPAN_REGION_OF(&region_site);
        void *kept = malloc(40);
        for (int i = 0; i < OBJECTS; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            objects[i] = malloc(8 + (state >> 33) % 2000);
            CHECK(objects[i] != NULL);
            *objects[i] = 1;
        }
        for (int i = 0; i < OBJECTS; i++)
            if (i / RUN % 4 || i % 2)
                free(objects[i]);
        if (round % 4 == 0) { /* survivors are looked for */
            CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
            free(kept);
        }
    }
    return NULL;
}

static void *purge(void *unused)
{
    for (unsigned i = 0; !over; i++) {
        CHECK_EQ(mallctl(i % 2 ? "arena.4096.purge" : "arena.4096.decay", NULL, NULL, NULL, 0), 0);
        ctl_u64("spans.all.inuse_bytes");
    }
    return unused;
}

static void pages_are_given_back_meanwhile(void)
{
    pthread_t threads[3], purger;
    CHECK_EQ(pthread_create(&purger, NULL, purge, NULL), 0);
    for (uintptr_t i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    over = true;
    pthread_join(purger, NULL);
    check_nothing_is_aside();
    CHECK_EQ(region_stat("released"), 3 * 150 + 1);
    ctl_check_identity("after purges");
}

/* ---- Who is another owner ---- */

/* A region of the same site inside the region. */
static void the_outer_one_is_another(void)
{
    jespan_span_t *outer = enter_new(&region_site);
    jespan_context_t id = jespan_current();
    jespan_span_t *inner = enter_new(&region_site);
    char *p = malloc(100);
    memset(p, 'p', 100);
    CHECK_EQ(jespan_credit(p, id), 0);
    leave(inner);
    CHECK_EQ(region_stat("survivors"), 1);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(p[i], 'p');
    free(p);
    leave(outer);
    check_nothing_is_aside();
}

static void other_labels_are_another(void)
{
    const struct jespan_label one = JESPAN_LABEL("tenant", "one"), two = JESPAN_LABEL("tenant", "two");
    jespan_span_t *a = jespan_open(&region_site, JESPAN_ROOT, &one, 1), *b = jespan_open(&region_site, JESPAN_ROOT, &two, 1);
    CHECK_EQ(jespan_enter(b), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(b), 0);
    CHECK_EQ(jespan_enter(a), 0);
    char *small = malloc(100), *big = malloc(100000);
    CHECK_EQ(jespan_credit(small, id), 0);
    CHECK_EQ(jespan_credit(big, id), 0);
    leave(a);
    CHECK_EQ(region_stat("survivors"), 2);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 2);
    memset(small, 1, 100);
    memset(big, 1, 100000);
    free(small);
    free(big);
    CHECK_EQ(jespan_close(b), 0);
    check_nothing_is_aside();
}

/* Two regions have the same context. The object now belongs to the one that the thread is in. */
static void one_beside_it_is_another(void)
{
    jespan_span_t *a = open_span(&region_site), *b = open_span(&region_site);
    CHECK_EQ(jespan_enter(a), 0);
    char *p = malloc(100);
    CHECK_EQ(jespan_exit(a), 0);
    CHECK_EQ(jespan_enter(b), 0);
    CHECK_EQ(jespan_credit(p, JESPAN_CURRENT), 0);
    CHECK_EQ(jespan_close(a), 0);
    memset(p, 'p', 100);
    CHECK_EQ(region_stat("set_aside"), 1);
    free(p);
    leave(b);
    check_nothing_is_aside();
}

/* An object that another context owns, resized in its region, keeps its owner. */
static void it_stays_credited(void)
{
    jespan_span_t *region = enter_new(&region_site);
    char *small = malloc(100), *big = malloc(100000);
    CHECK_EQ(jespan_credit(small, JESPAN_BASE), 0);
    CHECK_EQ(jespan_credit(big, JESPAN_BASE), 0);
    small = realloc(small, 101);
    big = realloc(big, 99000);
    leave(region);
    CHECK_EQ(region_stat("set_aside"), 0);
    memset(small, 1, 101);
    memset(big, 1, 99000);
    free(small);
    free(big);
}

/* An object that is credited to the region again is released with it, and so is one of a child context. */
static void its_own_are_not(void)
{
    jespan_span_t *region = enter_new(&region_site);
    jespan_context_t id = jespan_current();
    void *back = malloc(100), *below = malloc(100);
    CHECK_EQ(jespan_credit(back, JESPAN_BASE), 0);
    CHECK_EQ(jespan_credit(back, id), 0);
    {
        JESPAN("child");
        CHECK_EQ(jespan_credit(below, JESPAN_CURRENT), 0);
    }
    const struct jespan_label label = JESPAN_LABEL("late", "label");
    CHECK_EQ(jespan_add_label(region, &label), 0);
    void *renamed = malloc(100);
    CHECK_EQ(jespan_credit(renamed, JESPAN_CURRENT), 0);
    leave(region);
    CHECK_EQ(region_stat("survivors"), 0);
    CHECK_EQ(region_stat("released_objects"), 3);
}

/* A span of another request has the same context as the spans that are opened inside. */
static void spans_from_elsewhere_are_outside(void)
{
    jespan_span_t *a = enter_new(&region_site), *of_a = open_span(&step_site);
    CHECK_EQ(jespan_exit(a), 0);
    jespan_span_t *b = enter_new(&region_site), *of_b = open_span(&step_site);
    CHECK_EQ(jespan_enter(of_a), 0);
    char *p = malloc(100);
    CHECK_EQ(jespan_exit(of_a), 0);
    CHECK_EQ(jespan_enter(of_b), 0);
    CHECK(malloc(100) && arena_of_object(malloc(100)) != arena_of_object(p));
    CHECK_EQ(jespan_exit(of_b), 0);
    leave(b);
    memset(p, 'p', 100);
    free(p);
    CHECK_EQ(region_stat("released_objects"), 2);
    CHECK_EQ(jespan_close(a) + jespan_close(of_a) + jespan_close(of_b), 0);
    /* The arena serves another region now, not the one in which the span was opened. */
    b = enter_new(&region_site);
    jespan_span_t *old = open_span(&step_site);
    leave(b);
    b = enter_new(&region_site);
    CHECK_EQ(jespan_enter(old), 0);
    p = malloc(100);
    leave(old);
    leave(b);
    memset(p, 'p', 100);
    free(p);
}

/* A thread in another region resizes the object. */
static void it_moves_to_nobodys_region(void)
{
    jespan_span_t *a = enter_new(&region_site);
    char *p = malloc(100);
    CHECK_EQ(jespan_exit(a), 0);
    jespan_span_t *b = enter_new(&region_site);
    p = realloc(p, 5000);
    CHECK_EQ(jespan_close(a), 0);
    leave(b);
    memset(p, 'p', 5000);
    free(p);
    check_nothing_is_aside();
}

/* ---- Properties and flags ---- */

/* If jemalloc moves a large object by some cache lines, its last bytes are wiped too. */
static void nothing_is_left_to_read(void)
{
    static const size_t sizes[] = {100, 3500, 4096, 5000, 9000, 14336, 20000, 100000, 3 << 20};
    enum { EACH = 20, SIZES = sizeof sizes / sizeof *sizes };
    static volatile unsigned char *object[SIZES][EACH];
    jespan_span_t *region = enter_new(&wiped_site);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < EACH; k++)
            memset((void *)(uintptr_t)(object[i][k] = malloc(sizes[i])), 'x', sizes[i]);
    leave(region);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < EACH; k++)
            for (size_t at = 0, left = 0; at < sizes[i]; at++) {
                left += object[i][k][at] != 0;
                if (at == sizes[i] - 1)
                    CHECK_EQ(left, 0);
            }
}

static void a_cache_leads_nowhere_else(void)
{
    unsigned cache;
    size_t bytes = sizeof cache;
    CHECK_EQ(mallctl("tcache.create", &cache, &bytes, NULL, 0), 0);
    uint64_t before = ctl_u64("spans.all.inuse_bytes");
    for (int i = 0; i < 1000; i++) {
        jespan_span_t *region = enter_new(&region_site);
        CHECK(F(mallocx)(1000, CACHE(cache)) != NULL);
        CHECK(F(mallocx)(1000, CACHE_NONE) != NULL);
        CHECK(F(rallocx)(malloc(10), 1000, CACHE(cache)) != NULL);
        CHECK(F(rallocx)(malloc(10), 100000, CACHE_NONE) != NULL);
        unsigned own = arena_of_object(malloc(1)), chosen = arena_of_object(F(mallocx)(1, ARENA(own)));
        CHECK_EQ(own, chosen);
        leave(region);
    }
    CHECK_EQ(ctl_u64("spans.all.inuse_bytes"), before);
    CHECK_EQ(region_stat("released_objects"), 6000);
}

/* The arena of a region gets no objects of others. */
static void its_arena_is_not_for_others(void)
{
    jespan_span_t *region = enter_new(&region_site);
    unsigned index = arena_of_object(malloc(100));
    CHECK_EQ(jespan_exit(region), 0);
    size_t mib[2], length = 2;
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &index, sizeof index), EPERM);
    CHECK_EQ(mallctlnametomib("thread.arena", mib, &length), 0);
    CHECK_EQ(mallctlbymib(mib, length, NULL, NULL, &index, sizeof index), EPERM);
    char *p = F(mallocx)(100, ARENA(index));
    CHECK_EQ(jespan_close(region), 0);
    memset(p, 1, 100);
    free(p);
    CHECK_EQ(region_stat("released_objects"), 1);
}

/* ---- How they end ---- */

static void *exit_inside(void *unused)
{
    JESPAN_REGION_OF(&region_site);
    CHECK(malloc(100) != NULL);
    {
        JESPAN_REGION_OF(&wiped_site);
        CHECK(malloc(100) != NULL);
        pthread_exit(unused);
    }
}

static void threads_may_exit(void)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, exit_inside, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK_EQ(region_stat("released"), 400);
    CHECK_EQ(region_stat("shared") + region_stat("lost"), 0);
    CHECK_EQ(ctl_u64("spans.arenas.count"), 2);
}

static _Atomic(jespan_span_t *) of_others[2];
static atomic_bool is_opening[2];

static void *open_and_close(void *number)
{
    uintptr_t own = (uintptr_t)number;
    while (!over) {
        is_opening[own] = true;
        of_others[own] = jespan_open(&wiped_site, JESPAN_ROOT, NULL, 0);
        is_opening[own] = false;
        CHECK_EQ(jespan_enter(of_others[own]), 0);
        for (int i = 0; i < 2000; i++)
            CHECK(malloc(64) != NULL);
        CHECK(!own || malloc(4 << 20) != NULL); /* wiping it takes a while */
        leave(of_others[own]);
    }
    return NULL;
}

static int in_child(void)
{
    uint64_t shared = region_stat("shared");
    if (is_opening[0] || is_opening[1])
        return 0; /* the handle was not returned yet */
    for (int i = 0; i < 2; i++)
        jespan_close(of_others[i]);
    for (int i = 0; i < 3; i++)
        open_span(&wiped_site);
    CHECK_EQ(region_stat("shared"), shared);
    return check_failures != 0;
}

/* max_arenas:3. A child can close spans of other threads, also those that were being closed at the fork. */
static void children_have_all_arenas(void)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, open_and_close, (void *)i), 0);
    while (!of_others[0] || !of_others[1])
        sched_yield();
    for (int i = 0; i < 150; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(in_child());
        CHECK_CHILD(pid);
    }
    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- libc's own ---- */

static void *nothing(void *unused)
{
    return unused;
}

static void at_exit(void)
{
}

/* State of libraries that is created inside the region stays. */
static void libc_keeps_its_own(void)
{
    pthread_t threads[3];
    char buffer[64];
    FILE *file;
    if (!LIBC_IS_TOLD_APART)
        return;
    jespan_span_t *region = enter_new(&region_site);
    file = fopen("/dev/null", "w");
    CHECK(file && fprintf(file, "%s", "text") == 4);
    printf("%s", "");
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(atexit(at_exit), 0);
        snprintf(buffer, sizeof buffer, "JESPAN_TEST_%d", i);
        CHECK_EQ(setenv(buffer, "value", 1), 0);
    }
    setlocale(LC_ALL, "C.UTF-8");
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, nothing, NULL), 0);
    leave(region);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(fclose(file), 0);
    for (int i = 0; i < 40; i++) {
        snprintf(buffer, sizeof buffer, "JESPAN_TEST_%d", i);
        CHECK(!strcmp(getenv(buffer), "value"));
        CHECK_EQ(unsetenv(buffer), 0);
    }
    setlocale(LC_ALL, "C");
    CHECK_EQ(setenv("JESPAN_TEST", "value", 1), 0);
}

/* Objects that libc allocates for the program belong to the region. */
static void libc_makes_for_the_program(void)
{
    char *line = NULL, *text = NULL;
    size_t n = 0;
    if (!LIBC_IS_TOLD_APART)
        return;
    FILE *file = fopen("/proc/self/status", "r");
    jespan_span_t *region = enter_new(&region_site);
    unsigned own = arena_of_object(malloc(1));
    CHECK_EQ(arena_of_object(strdup("text")), own);
    CHECK_EQ(arena_of_object(strndup("text", 2)), own);
    CHECK(getline(&line, &n, file) > 0);
    CHECK_EQ(arena_of_object(line), own);
    CHECK_EQ(asprintf(&text, "%d", 1), 1);
    CHECK_EQ(arena_of_object(text), own);
    CHECK_EQ(asprintf(&text, "%1000d", 1), 1000);
    CHECK_EQ(arena_of_object(text), own);
    uint64_t before = region_stat("released_objects");
    leave(region);
    CHECK_EQ(region_stat("released_objects") - before, 6);
    fclose(file);
}

/* ---- The first regions, on two threads at once ---- */

static atomic_int lookers = 1, learners = 1; /* calls so far; at 0, the next one waits */
static atomic_bool second_is_done;

#if FAMILY_INTERPOSED
static void wait_if_first(atomic_int *callers)
{
    if (atomic_fetch_add(callers, 1) == 0)
        while (!second_is_done)
            usleep(100);
}

/* jespan calls these two before and after it enters the first region. */
int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    wait_if_first(&lookers);
    return real(callback, data);
}

wchar_t *wcsdup(const wchar_t *text)
{
    wchar_t *(*real)(const wchar_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "wcsdup");
    wait_if_first(&learners);
    return real(text);
}
#endif

struct told_apart {
    bool libcs, programs;
};

static struct told_apart look_in_region(void)
{
    char *text = NULL;
    jespan_span_t *region = enter_new(&region_site);
    unsigned own = arena_of_object(malloc(1));
    FILE *file = fopen("/dev/null", "w");
    CHECK_EQ(asprintf(&text, "%d", 1), 1);
    struct told_apart is = {arena_of_object(file) != own, arena_of_object(text) == own};
    fclose(file);
    leave(region);
    return is;
}

static void *look_first(void *unused)
{
    leave(enter_new(&region_site));
    return unused;
}

static void two_are_the_first(atomic_int *callers)
{
    pthread_t first;
    *callers = 0;
    CHECK_EQ(pthread_create(&first, NULL, look_first, NULL), 0);
    while (FAMILY_INTERPOSED && *callers == 0)
        usleep(100);
    struct told_apart is = look_in_region();
    second_is_done = true;
    CHECK_EQ(pthread_join(first, NULL), 0);
    if (!LIBC_IS_TOLD_APART)
        return;
    CHECK(is.libcs);
    CHECK(is.programs);
}

static void two_find_libc(void)
{
    two_are_the_first(&lookers);
}

static void two_learn_who_calls(void)
{
    two_are_the_first(&learners);
}

static const struct test_case cases[] = {
    {"what is resized stays though limits come", what_is_resized_stays_though_limits_come, NULL, NULL},
    {"pages are given back meanwhile", pages_are_given_back_meanwhile, "dirty_decay_ms:0,muzzy_decay_ms:0", NULL},
    {"pages are given back meanwhile, decay 10", pages_are_given_back_meanwhile, "dirty_decay_ms:10,muzzy_decay_ms:10", NULL},
    {"pages are given back meanwhile, by a thread", pages_are_given_back_meanwhile,
     "background_thread:true,dirty_decay_ms:1,muzzy_decay_ms:1", NULL},
    {"pages are given back meanwhile, and addresses", pages_are_given_back_meanwhile, "retain:false,dirty_decay_ms:0", NULL},
    {"the outer one is another", the_outer_one_is_another, NULL, NULL},
    {"the outer one is another, with ages", the_outer_one_is_another, NULL, "age_period_s:1"},
    {"other labels are another", other_labels_are_another, NULL, NULL},
    {"one beside it is another", one_beside_it_is_another, NULL, NULL},
    {"it stays credited", it_stays_credited, NULL, NULL},
    {"its own are not", its_own_are_not, NULL, NULL},
    {"spans from elsewhere are outside", spans_from_elsewhere_are_outside, NULL, NULL},
    {"it moves to nobody's region", it_moves_to_nobodys_region, NULL, NULL},
    {"nothing is left to read", nothing_is_left_to_read, "dirty_decay_ms:-1", NULL},
    {"a cache leads nowhere else", a_cache_leads_nowhere_else, NULL, NULL},
    {"its arena is not for others", its_arena_is_not_for_others, NULL, NULL},
    {"threads may exit", threads_may_exit, NULL, NULL},
    {"children have all arenas", children_have_all_arenas, NULL, "max_arenas:3"},
    {"libc keeps its own", libc_keeps_its_own, NULL, NULL},
    {"libc makes for the program", libc_makes_for_the_program, NULL, NULL},
    {"two find libc", two_find_libc, NULL, NULL},
    {"two learn who calls", two_learn_who_calls, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
