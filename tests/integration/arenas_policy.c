/* SPDX-License-Identifier: BSD-2-Clause */
/* The page properties of a site's arena (JESPAN_ARENA_…): they apply to the objects of that arena only. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/maps.h"
#include "../support/spans.h"

JESPAN_SITE_ARENA(wiped_site, "wiped", JESPAN_ARENA | JESPAN_ARENA_WIPED);
JESPAN_SITE_ARENA(guarded_site, "guarded", JESPAN_ARENA | JESPAN_ARENA_GUARDED);
JESPAN_SITE_ARENA(dontdump_site, "dontdump", JESPAN_ARENA | JESPAN_ARENA_DONTDUMP);
JESPAN_SITE_ARENA(dontfork_site, "dontfork", JESPAN_ARENA | JESPAN_ARENA_DONTFORK);
JESPAN_SITE_ARENA(locked_site, "locked", JESPAN_ARENA | JESPAN_ARENA_LOCKED);
JESPAN_SITE(limited_site, "limited", .arena = {.flags = JESPAN_ARENA, .limit_bytes = 8 << 20});

static void *get_filled(const struct jespan_site *site, size_t n)
{
    ARENA_BLOCK(site);
    char *p = F(malloc)(n);
    CHECK(p != NULL);
    return p ? memset(p, 0x5a, n) : NULL;
}

static bool is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* The next object of the class lies where the last was, but for large ones, and finds what was left there. */
static void check_wiped(size_t n)
{
    char *p = get_filled(&wiped_site, n), *q;
    uintptr_t place = (uintptr_t)p;
    F(free)(p);
    ARENA_BLOCK(&wiped_site);
    q = opaque_pointer(F(malloc)(n));
    CHECK((uintptr_t)q == place || n > 32768);
    CHECK(is_zero(q, n));
    F(free)(q);
}

/* So does what a resize leaves behind, or cuts off. */
static void check_wiped_resize(size_t from, size_t to)
{
    char *p = get_filled(&wiped_site, from), *q;
    uintptr_t place = (uintptr_t)p;
    ARENA_BLOCK(&wiped_site);
    p = F(realloc)(p, to);
    CHECK(p[0] == 0x5a && p[(to < from ? to : from) - 1] == 0x5a);
    if ((uintptr_t)p != place) {
        q = opaque_pointer(F(malloc)(from));
        CHECK_EQ((uintptr_t)q, place);
        CHECK(is_zero(q, from));
        F(free)(q);
    }
    F(free)(p);
}

static void wiped(void)
{
    static const size_t sizes[] = {8, 100, 4096, 16384, 20000, 300000};
    for (size_t i = 0; i < MEMBERS(sizes); i++)
        check_wiped(sizes[i]);
    check_wiped_resize(100, 1000);
    check_wiped_resize(1000, 100);
    check_wiped_resize(20000, 100);
    CHECK_EQ(F(xallocx)(get_filled(&wiped_site, 300000), 200000, 0, 0), 327680); /* stays whole */
    char *p = get_filled(&guarded_site, 5000); /* and others are left alone; smaller ones wait before they are free */
    uintptr_t place = (uintptr_t)p;
    F(free)(p);
    ARENA_BLOCK(&guarded_site);
    p = opaque_pointer(F(malloc)(5000));
    CHECK((uintptr_t)p == place && p[4500] == 0x5a);
    F(free)(p);
}

/* Beyond the pages of the arena nobody can touch anything. */
static void guarded(void)
{
    char *p = get_filled(&guarded_site, 100000), *end = mapping_end(p);
    CHECK(mapping_end(end) > end); /* the guard is mapped too, with other rights */
    pid_t pid = fork();
    if (pid == 0) {
        *(volatile char *)(end - 1) = 1;
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)end = 1;
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    F(free)(p);
}

static void dontdump(void)
{
    char *p = get_filled(&dontdump_site, 100), *q = F(malloc)(100);
    CHECK(mapping_has_flag(p, "dd"));
    CHECK(!mapping_has_flag(q, "dd"));
    F(free)(p);
    F(free)(q);
}

/* A child reads zeroes, and may free what it inherited and allocate anew. */
static void dontfork(void)
{
    char *p = get_filled(&dontfork_site, 100), *big = get_filled(&dontfork_site, 300000), *q = F(malloc)(10);
    CHECK(mapping_has_flag(p, "dc"));
    CHECK(!mapping_has_flag(q, "dc"));
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(is_zero(p, 100) && is_zero(big, 300000));
        F(free)(p);
        F(free)(big);
        arena_check_inuse(1, 0, 0, "in the child");
        F(free)(get_filled(&dontfork_site, 100));
        ctl_check_identity("in the child");
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    CHECK(p[50] == 0x5a && big[200000] == 0x5a);
    F(free)(p);
    F(free)(big);
    F(free)(q);
}

static void locked(void)
{
    char *p = get_filled(&locked_site, 100);
    if (!arena_figure(1, "policy_errors")) /* RLIMIT_MEMLOCK */
        CHECK(mapping_has_flag(p, "lo"));
    F(free)(p);
}

/* Objects until there are no more. Returns their bytes. */
static uint64_t fill(void **objects, size_t n)
{
    ARENA_BLOCK(&limited_site);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        errno = 0;
        objects[i] = F(malloc)(100000);
        if (!objects[i])
            CHECK_EQ(errno, ENOMEM);
        bytes += F(malloc_usable_size)(objects[i]);
    }
    return bytes;
}

/* Freed memory can be allocated again, with any sizes. The limit holds at each moment. */
static void limited_again(void)
{
    static const size_t sizes[] = {3 << 20, 3600 << 10, 100, 7 << 20, 50000, 5 << 20, 3000};
    ARENA_BLOCK(&limited_site);
    void *objects[20000];
    for (unsigned round = 0; round < 30; round++) {
        size_t bytes = sizes[round % MEMBERS(sizes)], n = (7 << 20) / (bytes + bytes / 4 + 64);
        n = n > MEMBERS(objects) ? MEMBERS(objects) : n ? n : 1;
        for (size_t i = 0; i < n; i++)
            CHECK((objects[i] = F(malloc)(bytes)) != NULL);
        CHECK(arena_figure(1, "committed_bytes") <= 8 << 20);
        for (size_t i = 0; i < n; i++)
            F(free)(objects[i]);
    }
    CHECK_EQ(arena_figure(1, "refusals"), 0);
    CHECK(F(malloc)(9 << 20) == NULL);
    CHECK_EQ(arena_figure(1, "refusals"), 1);
    arena_check_inuse(1, 0, 0, "again");
    ctl_check_identity("limited again");
}

/* The arena's pages are bounded; others are not. */
static void limited(void)
{
    void *objects[200], *more[200], *other = F(malloc)(64 << 20);
    uint64_t raised = 16 << 20, bytes = fill(objects, MEMBERS(objects));
    CHECK(bytes > (4 << 20) && bytes <= (8 << 20));
    CHECK(other != NULL);
    CHECK(arena_figure(1, "committed_bytes") <= 8 << 20);
    CHECK(arena_figure(1, "refusals") > 0);
    CHECK_EQ(arena_figure(1, "limit_bytes"), 8 << 20);
    CHECK_EQ(F(mallctl)("spans.arenas.1.limit_bytes", NULL, NULL, &raised, sizeof raised), 0);
    CHECK_EQ(arena_figure(1, "limit_bytes"), raised);
    bytes += fill(more, MEMBERS(more));
    CHECK(bytes > (8 << 20) && bytes <= raised);
    CHECK(arena_figure(1, "committed_bytes") <= raised);
    arena_check_inuse(1, bytes / F(malloc_usable_size)(objects[0]), bytes, "full");
    for (size_t i = 0; i < MEMBERS(objects); i++) {
        F(free)(objects[i]);
        F(free)(more[i]);
    }
    F(free)(other);
    arena_check_inuse(1, 0, 0, "empty");
    ctl_check_identity("limited");
}

static const struct test_case cases[] = {
    {"wiped", wiped, NULL, NULL},       {"guarded", guarded, NULL, NULL}, {"dontdump", dontdump, NULL, NULL},
    {"dontfork", dontfork, NULL, NULL}, {"locked", locked, NULL, NULL},   {"limited", limited, NULL, NULL},
    {"limited again", limited_again, NULL, NULL},
    {"limited again, and addresses go", limited_again, "retain:false", NULL},
    {"limited again, decay 0", limited_again, "dirty_decay_ms:0,muzzy_decay_ms:0", NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
