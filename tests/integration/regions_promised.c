/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of docs/regions.md that no other test checks. The document's last section says which test checks which
 * promise. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <iconv.h>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <wchar.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/entered.h"
#include "../support/family.h"
#include "../support/regions.h"

JESPAN_SITE(region_site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
JESPAN_SITE(wiped_site, "wiped", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED});
JESPAN_SITE(arena_site, "arena", .arena = {.flags = JESPAN_ARENA});

#define CACHE_NONE (1 << 8)                     /* MALLOCX_TCACHE_NONE */
#define ARENA(index) ((int)((index) + 1) << 20) /* MALLOCX_ARENA() */

static bool is_all(const char *p, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != c)
            return false;
    return true;
}

static void *filled(size_t n, char c)
{
    return memset(malloc(n), c, n);
}

/* ---- What is in it ---- */

static void *allocate_outside(void *unused)
{
    (void)unused;
    return filled(1000, 'o');
}

static void other_threads_are_outside(void)
{
    pthread_t thread;
    void *p = NULL;
    jespan_span_t *region = enter_new(&region_site);
    CHECK_EQ(pthread_create(&thread, NULL, allocate_outside, NULL), 0);
    CHECK_EQ(pthread_join(thread, &p), 0);
    CHECK(arena_of_object(p) != arena_of_object(malloc(1000)));
    leave(region);
    CHECK(is_all(p, 'o', 1000));
    free(p);
}

/* mallocx with MALLOCX_ARENA() of an arena that the program has created. */
static void an_arena_of_ones_own_is_outside(void)
{
    unsigned own = 0;
    size_t bytes = sizeof own;
    CHECK_EQ(mallctl("arenas.create", &own, &bytes, NULL, 0), 0);
    jespan_span_t *region = enter_new(&region_site);
    char *small = F(mallocx)(100, ARENA(own) | CACHE_NONE), *big = F(mallocx)(100000, ARENA(own) | CACHE_NONE);
    CHECK(arena_of_object(small) == own && arena_of_object(big) == own);
    memset(small, 's', 100);
    memset(big, 'b', 100000);
    CHECK(malloc(100) != NULL);
    leave(region);
    CHECK_EQ(region_stat("released_objects"), 1);
    CHECK(is_all(small, 's', 100) && is_all(big, 'b', 100000));
    F(dallocx)(small, CACHE_NONE);
    F(dallocx)(big, CACHE_NONE);
    ctl_check_identity("outside");
}

static void it_is_a_span_like_others(void)
{
    char labels[32];
    size_t bytes = sizeof labels;
    char name[64];
    const struct jespan_label label = JESPAN_LABEL("route", "put");
    JESPAN("request");
    jespan_context_t request = jespan_current();
    jespan_span_t *region = jespan_open(&region_site, JESPAN_CURRENT, &label, 1);
    CHECK_EQ(jespan_enter(region), 0);
    jespan_context_t id = jespan_current();
    CHECK(!strcmp(ctl_span_text(id, "name"), "region"));
    CHECK_EQ(ctl_span(id, "parent"), request);
    CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, id, "labels"), labels, &bytes, NULL, 0), 0);
    CHECK(bytes == 10 && !memcmp(labels, "route\0put", 10));
    CHECK(malloc(1000) != NULL);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), 1024);
    leave(region);
}

/* ---- Arenas ---- */

static void each_has_an_arena_of_its_own(void)
{
    enum { OPEN = 10 };
    jespan_span_t *regions[OPEN];
    unsigned arenas[OPEN];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OPEN; i++) {
            regions[i] = enter_new(&region_site);
            arenas[i] = arena_of_object(malloc(100));
            for (int k = 0; k < i; k++)
                CHECK(arenas[k] != arenas[i]);
            CHECK_EQ(jespan_exit(regions[i]), 0);
        }
        for (int i = 0; i < OPEN; i++)
            CHECK_EQ(jespan_close(regions[i]), 0);
    }
    CHECK_EQ(ctl_u64("spans.arenas.count"), OPEN); /* the arenas are used again */
    CHECK_EQ(region_stat("shared"), 0);
}

/* max_arenas:1, for regions and other span arenas together. */
static void arenas_are_shared_with_span_arenas(void)
{
    jespan_span_t *span = enter_new(&arena_site);
    void *p;
    CHECK(jespan_open(&region_site, JESPAN_ROOT, NULL, 0) == NULL && errno == ENOSPC);
    {
        JESPAN_REGION("block");
        p = filled(100, 'p');
    }
    CHECK_EQ(region_stat("lost"), 1);
    CHECK(is_all(p, 'p', 100));
    free(p);
    leave(span);
}

/* ---- Who is inside ---- */

enum { THREADS = 3 };
static pthread_barrier_t barrier;
static jespan_span_t *common;

static void *stay_inside(void *number)
{
    char *objects[50], c = (char)('a' + (uintptr_t)number);
    CHECK_EQ(jespan_enter(common), 0);
    for (int i = 0; i < 50; i++)
        objects[i] = filled((size_t)(i * 100 + 1), c);
    pthread_barrier_wait(&barrier); /* all inside */
    pthread_barrier_wait(&barrier); /* closed */
    for (uintptr_t turn = 0; turn < THREADS; turn++) {
        if (turn <= (uintptr_t)number)
            for (int i = 0; i < 50; i++)
                CHECK(is_all(objects[i], c, (size_t)(i * 100 + 1)));
        if (turn == (uintptr_t)number)
            CHECK_EQ(jespan_exit(common), 0);
        pthread_barrier_wait(&barrier);
        CHECK_EQ(region_stat("released"), turn == THREADS - 1); /* when the last thread exits it */
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void it_is_entered_on_several_threads(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    common = open_span(&region_site);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, stay_inside, (void *)i), 0);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(jespan_close(common), 0);
    CHECK_EQ(region_stat("released"), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(region_stat("released_objects"), THREADS * 50);
}

/* While there is a survivor, no object is freed. */
static void a_survivor_keeps_all(void)
{
    jespan_span_t *region = enter_new(&wiped_site);
    char *kept = filled(100, 'k'), *small = filled(200, 's'), *big = filled(100000, 'b');
    CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
    leave(region);
    for (int i = 0; i < 3; i++) {
        region = enter_new(&wiped_site);
        CHECK(filled(200, 'x') && filled(100000, 'x'));
        leave(region);
    }
    CHECK(is_all(kept, 'k', 100) && is_all(small, 's', 200) && is_all(big, 'b', 100000));
    free(kept);
    leave(enter_new(&wiped_site));
    CHECK_EQ(region_stat("set_aside"), 0);
}

/* ---- How they end ---- */

static jmp_buf before_region;
static unsigned arena_of_left;

static __attribute__((noinline)) void jump_out(void)
{
    JESPAN_REGION_OF(&region_site);
    arena_of_left = arena_of_object(malloc(100));
    longjmp(before_region, 1);
}

static void *leave_by_longjmp(void *unused)
{
    if (!setjmp(before_region))
        jump_out();
    CHECK_EQ(arena_of_object(filled(100, 'p')), arena_of_left); /* later allocations of the thread are in the region too */
    CHECK_EQ(region_stat("released"), 0);
    return unused;
}

static void a_jump_leaves_it_open(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, leave_by_longjmp, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(region_stat("released"), 1);
    CHECK_EQ(region_stat("released_objects"), 2);
}

static void *wait_inside(void *unused)
{
    JESPAN_REGION_OF(&region_site);
    CHECK(filled(100, 'p') != NULL);
    pthread_barrier_wait(&barrier);
    for (;;)
        pause();
    return unused;
}

static void threads_may_be_cancelled(void)
{
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, wait_inside, NULL), 0);
        pthread_barrier_wait(&barrier);
        CHECK_EQ(pthread_cancel(thread), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK_EQ(region_stat("released"), 100);
    CHECK_EQ(ctl_u64("spans.arenas.count"), 1);
}

static char *of_other;

static void *stay_in_a_block(void *unused)
{
    JESPAN_REGION_OF(&region_site);
    of_other = filled(1000, 'o');
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* A child cannot close the blocks of other threads. They stay open. */
static void blocks_of_others_stay_in_a_child(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, stay_in_a_block, NULL), 0);
    pthread_barrier_wait(&barrier);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 10; i++) {
            jespan_span_t *region = enter_new(&region_site);
            CHECK(arena_of_object(filled(1000, 'x')) != arena_of_object(of_other));
            leave(region);
        }
        CHECK_EQ(region_stat("released"), 10);
        CHECK(is_all(of_other, 'o', 1000));
        _exit(check_failures != 0);
    }
    CHECK_CHILD(pid);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK_EQ(region_stat("released"), 1);
}

/* ---- libc ---- */

static void use_the_memory(void)
{
    jespan_span_t *region = enter_new(&wiped_site);
    for (int i = 0; i < 1000; i++)
        CHECK(filled((size_t)i + 1, '?') != NULL);
    leave(region);
}

/* State of libc that is created inside stays: time zones, libraries, look-ups of names. */
static void state_of_libc_stays(void)
{
    struct addrinfo *found = NULL, hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct tm tm = {0};
    time_t now = 0;
    if (!LIBC_IS_TOLD_APART)
        return;
    jespan_span_t *region = enter_new(&region_site);
    CHECK_EQ(setenv("TZ", "Europe/Berlin", 1), 0);
    tzset();
    void *library = dlopen("libanl.so.1", RTLD_NOW);
    CHECK_EQ(getaddrinfo("127.0.0.1", "80", &hints, &found), 0);
    leave(region);
    CHECK_EQ(region_stat("released_objects"), 0);
    use_the_memory();
    CHECK(localtime_r(&now, &tm) != NULL);
    CHECK(!library || dlclose(library) == 0);
    CHECK(found && found->ai_addr != NULL);
    freeaddrinfo(found);
}

/* The module of a conversion allocates itself. It is loaded when a program first needs it. */
static void conversions_stay(void)
{
    if (!LIBC_IS_TOLD_APART)
        return;
    jespan_span_t *region = enter_new(&region_site);
    iconv_t conversion = iconv_open("UTF-16", "ISO-8859-1");
    leave(region);
    if (conversion == (iconv_t)-1)
        return; /* the conversion is not installed */
    use_the_memory();
    char in[] = "text", out[32], *from = in, *to = out;
    size_t n = 4, room = sizeof out;
    CHECK_EQ(iconv(conversion, &from, &n, &to, &room), 0);
    CHECK_EQ(iconv_close(conversion), 0);
}

/* libc's objects count for the context, and are freed as without a region. */
static void libc_counts_for_the_context(void)
{
    if (!LIBC_IS_TOLD_APART)
        return;
    jespan_span_t *region = enter_new(&region_site);
    jespan_context_t id = jespan_current();
    uint64_t before = ctl_span(id, "inuse_bytes");
    FILE *file = fopen("/dev/null", "w");
    CHECK(ctl_span(id, "inuse_bytes") > before);
    fclose(file);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), before);
    leave(region);
}

static int format(char **text, const char *with, ...)
{
    va_list arguments;
    va_start(arguments, with);
    int n = vasprintf(text, with, arguments);
    va_end(arguments);
    return n;
}

static void more_that_libc_makes_for_the_program(void)
{
    char *line = NULL, *text = NULL;
    size_t n = 0;
    if (!LIBC_IS_TOLD_APART)
        return;
    FILE *file = fopen("/proc/self/status", "r");
    uint64_t before = region_stat("released_objects");
    jespan_span_t *region = enter_new(&region_site);
    unsigned own = arena_of_object(malloc(1));
    CHECK_EQ(arena_of_object(wcsdup(L"text")), own);
    CHECK(format(&text, "%s", "text") == 4 && arena_of_object(text) == own);
    CHECK(getdelim(&line, &n, ':', file) > 0 && arena_of_object(line) == own);
    leave(region);
    CHECK_EQ(region_stat("released_objects") - before, 4);
    fclose(file);
}

static int any(const struct dirent *unused)
{
    return unused != NULL;
}

/* Objects that other functions of libc return are outside the region, and must be freed. */
static void the_rest_of_libc_is_outside(void)
{
    struct dirent **names;
    glob_t paths = {0};
    regex_t pattern;
    char *text = NULL;
    size_t n = 0;
    if (!LIBC_IS_TOLD_APART)
        return;
    jespan_span_t *region = enter_new(&region_site);
    unsigned own = arena_of_object(malloc(1));
    char *directory = getcwd(NULL, 0), *path = realpath("/proc/self", NULL);
    int count = scandir("/", &names, any, alphasort);
    FILE *stream = open_memstream(&text, &n);
    DIR *opened = opendir("/");
    CHECK(stream && fputs("text", stream) >= 0 && fclose(stream) == 0);
    CHECK_EQ(glob("/*", 0, NULL, &paths), 0);
    CHECK_EQ(regcomp(&pattern, "a*b", 0), 0);
    CHECK(opened && count > 0 && arena_of_object(names) != own && arena_of_object(names[0]) != own && arena_of_object(opened) != own);
    CHECK(arena_of_object(directory) != own && arena_of_object(path) != own && arena_of_object(text) != own &&
          arena_of_object(paths.gl_pathv) != own);
    leave(region);
    leave(enter_new(&wiped_site));
    CHECK(directory[0] == '/' && path[0] == '/' && !strcmp(text, "text") && paths.gl_pathv[0][0] == '/');
    CHECK_EQ(regexec(&pattern, "aab", 0, NULL, 0), 0);
    CHECK(readdir(opened) != NULL);
    closedir(opened);
    regfree(&pattern);
    globfree(&paths);
    while (count)
        free(names[--count]);
    free(names);
    free(directory);
    free(path);
    free(text);
    ctl_check_identity("libc's");
}

static const struct test_case cases[] = {
    {"other threads are outside", other_threads_are_outside, NULL, NULL},
    {"an arena of one's own is outside", an_arena_of_ones_own_is_outside, NULL, NULL},
    {"it is a span like others", it_is_a_span_like_others, NULL, NULL},
    {"each has an arena of its own", each_has_an_arena_of_its_own, NULL, NULL},
    {"arenas are shared with span arenas", arenas_are_shared_with_span_arenas, NULL, "max_arenas:1"},
    {"it is entered on several threads", it_is_entered_on_several_threads, NULL, NULL},
    {"a survivor keeps all", a_survivor_keeps_all, NULL, NULL},
    {"a survivor keeps all, decay 0", a_survivor_keeps_all, "dirty_decay_ms:0,muzzy_decay_ms:0", NULL},
    {"a jump leaves it open", a_jump_leaves_it_open, NULL, NULL},
    {"threads may be cancelled", threads_may_be_cancelled, NULL, NULL},
    {"blocks of others stay in a child", blocks_of_others_stay_in_a_child, NULL, NULL},
    {"state of libc stays", state_of_libc_stays, NULL, NULL},
    {"conversions stay", conversions_stay, NULL, NULL},
    {"libc counts for the context", libc_counts_for_the_context, NULL, NULL},
    {"more that libc makes for the program", more_that_libc_makes_for_the_program, NULL, NULL},
    {"the rest of libc is outside", the_rest_of_libc_is_outside, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
