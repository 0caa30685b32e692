/* SPDX-License-Identifier: BSD-2-Clause */
/* Page properties of span arenas, checked with the system. */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../../support/cases.h"
#include "../../support/mappings.h"
#include "../../support/span_extents.h"
#include "heap/pagemap.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)

static struct extent_arena plain = {.id = 7, .policy = EXTENT_POLICY_DEFAULT};
static struct extent_arena special = {.id = 8, .policy = EXTENT_POLICY_DEFAULT};

/* Stores the text that `act` writes to stderr in `text`. */
static void hear(void (*act)(void), char *text, size_t room)
{
    int saved = dup(STDERR_FILENO), ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    act();
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(ends[0], text, room - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void create_special(void)
{
    create(&special);
}

/* How a forked child ends that does this. */
static int in_child(void (*act)(void))
{
    int status = -1;
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own handler would end it otherwise */
        act();
        _exit(check_result());
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- Flags ---- */

static void check_flags(const char *flags)
{
    static const char *const known[] = {"dd", "dc", "lo", "hg", "nh"};
    create(&plain);
    create(&special);
    char *small = from(&special, 64), *large = from(&special, 3 * MIB), *none = from(&plain, 3 * MIB);
    for (int i = 0; i < 5; i++) {
        int wanted = strstr(flags, known[i]) != NULL;
        CHECK_EQ(mapping_has_flag(small, known[i]), wanted);
        CHECK_EQ(mapping_has_flag(large, known[i]), wanted);
        CHECK_EQ(mapping_has_flag(large + 3 * MIB - 1, known[i]), wanted);
        CHECK_EQ(mapping_has_flag(none, known[i]), 0);
    }
    CHECK_EQ(load_relaxed(&special.policy_errors), 0);
    memset(large, 1, 3 * MIB);
    back(large);
    arena_does(&special, "purge");
    memset(from(&special, 3 * MIB), 1, 3 * MIB);
}

static void case_no_flags(void)
{
    check_flags("");
}

static void case_all_flags(void)
{
    struct rlimit lockable;
    getrlimit(RLIMIT_MEMLOCK, &lockable);
    special.policy.dontdump = special.policy.dontfork = true;
    special.policy.locked = lockable.rlim_cur >= 16 * MIB || geteuid() == 0;
    special.policy.thp = EXTENT_THP_ALWAYS;
    check_flags(special.policy.locked ? "dd dc lo hg" : "dd dc hg");
}

static void case_no_huge_pages(void)
{
    special.policy.thp = EXTENT_THP_NEVER;
    check_flags("nh");
}

static void case_dontdump(void)
{
    special.policy.dontdump = true;
    check_flags("dd");
}

/* ---- Locked ---- */

static unsigned char resident(void *p)
{
    unsigned char in_memory = 0;
    CHECK_EQ(mincore((void *)((uintptr_t)p & ~(PAGE - 1)), PAGE, &in_memory), 0);
    return in_memory & 1;
}

/* Freed and purged pages stay in a locked arena and are counted; in another arena they are gone. */
static void case_locked_stays(void)
{
    struct extent_arena *arenas[] = {&plain, &special};
    special.policy.locked = true;
    for (int i = 0; i < 2; i++) {
        create(arenas[i]);
        char *p = from(arenas[i], MIB);
        CHECK_EQ(resident(p + MIB / 2), 0); /* locked as it is touched */
        memset(p, 1, MIB);
        CHECK_EQ(resident(p), 1);
        back(p);
        arena_does(arenas[i], "decay");
        CHECK_EQ(resident(p), i);
        stats_refresh();
        CHECK_EQ(stats_of_arena(arenas[i]->index, "pdirty") * stats_read("arenas.page") >= MIB, i);
    }
    arena_does(&special, "purge");
    CHECK_EQ(load_relaxed(&special.figures.purged_forced_bytes), 0);
    CHECK_EQ(load_relaxed(&special.policy_errors), 0);
}

static void limit_locking(size_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0) /* whom no limit binds */
        CHECK_EQ(setresuid(65534, 65534, 65534), 0);
}

/* The first page can be locked, what the arena maps cannot: the program goes on. */
static void case_lock_limit(void)
{
    special.policy.locked = true;
    limit_locking(64 * 1024);
    create(&special);
    memset(from(&special, MIB), 1, MIB);
    CHECK_EQ(load_relaxed(&special.policy_errors), 1);
}

static void case_nothing_locked(void)
{
    char text[256];
    special.policy.locked = plain.policy.locked = true;
    limit_locking(0);
    hear(create_special, text, sizeof text);
    CHECK(!strcmp(text, "jespan: span arenas cannot have locked memory here: Operation not permitted\n") ||
          !strcmp(text, "jespan: span arenas cannot have locked memory here: Cannot allocate memory\n"));
    create(&plain); /* says nothing more */
    memset(from(&special, MIB), 1, MIB);
    CHECK_EQ(load_relaxed(&special.policy_errors), 1);
}

/* ---- Guarded ---- */

static sigjmp_buf after_fault;

static void on_fault(int signal)
{
    siglongjmp(after_fault, signal);
}

static int faults(char *p)
{
    struct sigaction action = {.sa_handler = on_fault}, old;
    sigaction(SIGSEGV, &action, &old);
    int signal = sigsetjmp(after_fault, 1);
    if (!signal)
        *(volatile char *)p = 1;
    sigaction(SIGSEGV, &old, NULL);
    return signal;
}

static int check_guards(void *unused, uintptr_t start, size_t bytes)
{
    CHECK(faults((char *)start - 1) && faults((char *)start - PAGE));
    CHECK(faults((char *)start + bytes) && faults((char *)start + bytes + PAGE - 1));
    CHECK(!faults((char *)start) && !faults((char *)start + bytes - 1));
    CHECK(pagemap_is_guard(start - PAGE) && pagemap_is_guard(start + bytes));
    (void)unused;
    return 0;
}

static int count_range(void *n, uintptr_t start, size_t bytes)
{
    (void)start;
    (void)bytes;
    ++*(unsigned *)n;
    return 0;
}

/* All of it goes when the arena does, guards included. */
static void case_guarded(void)
{
    special.policy.guarded = true;
    create(&plain);
    create(&special);
    uint64_t mapped = load_relaxed(&extents_heap.mapped_bytes), extents = load_relaxed(&extents_heap.extents);
    void *objects[400];
    unsigned ranges = 0, guards = mappings_with("---p");
    for (int i = 0; i < 400; i++)
        objects[i] = from(&special, (size_t)(i % 20 + 1) * 4000);
    char *large = from(&special, 20 * MIB), *aligned = aligned_from(&special, 2 * MIB, 64 * MIB);
    CHECK_EQ((uintptr_t)aligned % (64 * MIB), 0);
    memset(large, 1, 20 * MIB);
    memset(aligned, 1, 2 * MIB);
    extent_arena_each_range(&special, check_guards, NULL);
    for (int i = 0; i < 400; i += 2)
        back(objects[i]);
    back(large);
    arena_does(&special, "purge");
    CHECK(resident(large) == 0);
    extent_arena_each_range(&special, check_guards, NULL);
    extent_arena_each_range(&special, count_range, &ranges);
    CHECK(ranges >= 2);
    CHECK(load_relaxed(&extents_heap.mapped_bytes) - mapped >=
          load_relaxed(&special.figures.mapped_bytes) + 2 * ranges * PAGE);
    for (int i = 1; i < 400; i += 2)
        back(objects[i]);
    back(aligned);
    arena_does(&special, "destroy");
    CHECK_EQ(load_relaxed(&special.figures.mapped_bytes), 0);
    CHECK_EQ(load_relaxed(&special.figures.extents), 0);
    CHECK_EQ(load_relaxed(&extents_heap.mapped_bytes), mapped);
    CHECK_EQ(load_relaxed(&extents_heap.extents), extents);
    CHECK_EQ(mappings_with("---p"), guards);
    CHECK_EQ(extent_arena_each_range(&special, check_guards, NULL), 0);
    CHECK_EQ(load_relaxed(&special.policy_errors), 0);
}

/* ---- Fork ---- */

static char *secret;

static void read_secret(void)
{
    CHECK_EQ(*(volatile char *)secret, 0);
}

static int check_mapped(void *unused, uintptr_t start, size_t bytes)
{
    unsigned char vector[1024];
    for (uintptr_t p = start; p < start + bytes; p += sizeof vector * PAGE) {
        size_t part = start + bytes - p;
        CHECK_EQ(mincore((void *)p, part < sizeof vector * PAGE ? part : sizeof vector * PAGE, vector), 0);
    }
    (void)unused;
    return 0;
}

/* All of the arena reads as zero, what was allocated can be freed, and there is more. */
static void live_on(void)
{
    extent_arena_each_range(&special, check_mapped, NULL);
    for (size_t i = 0; i < 3 * MIB; i++)
        if (secret[i])
            check_fail("byte %zu of the parent's is there", i);
    CHECK(mapping_has_flag(secret, "dc"));
    memset(secret, 2, 3 * MIB);
    back(secret);
    for (int i = 0; i < 1000; i++)
        memset(from(&special, 5000), 3, 5000);
    arena_does(&special, "purge");
    memset(from(&special, 30 * MIB), 4, 30 * MIB);
}

static void case_not_forked(void)
{
    if (UNDER_TSAN)
        return; /* fork takes more locks than it can follow */
    special.policy.dontfork = true;
    create(&special);
    secret = from(&special, 3 * MIB);
    memset(secret, 's', 3 * MIB);
    CHECK_EQ(in_child(read_secret), 0);
    CHECK_EQ(in_child(live_on), 0);
    CHECK_EQ(secret[3 * MIB - 1], 's');
    CHECK_EQ(load_relaxed(&special.policy_errors), 0);
}

/* ---- NUMA ---- */

static bool has_one_node(void)
{
    unsigned long nodes[16] = {0};
    return syscall(SYS_get_mempolicy, NULL, nodes, 1024ul, NULL, (unsigned long)MPOL_F_MEMS_ALLOWED) || nodes[0] == 1;
}

static void case_node(void)
{
    char text[256];
    unsigned long nodes[16] = {0};
    int mode = -1;
    special.policy.numa_node = plain.policy.numa_node = 0;
    int error = (int)syscall(SYS_get_mempolicy, NULL, nodes, 1024ul, NULL, (unsigned long)MPOL_F_MEMS_ALLOWED);
    hear(create_special, text, sizeof text);
    create(&plain); /* says nothing more */
    void *p = from(&special, MIB);
    if (error || nodes[0] == 1)
        CHECK(strstr(text, "jespan: there is one NUMA node only") == text);
    if (error)
        return;
    CHECK_EQ(syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, p, (unsigned long)MPOL_F_ADDR), 0);
    CHECK_EQ(mode, MPOL_PREFERRED);
    CHECK_EQ(nodes[0], 1);
    CHECK_EQ(load_relaxed(&special.policy_errors), 0);
}

static void case_no_such_node(void)
{
    char text[512];
    special.policy.numa_node = 1000;
    hear(create_special, text, sizeof text);
    if (has_one_node()) /* one line, and not one that contradicts it */
        CHECK(!strcmp(text, "jespan: there is one NUMA node only: span arenas have their memory there, and node:1000 has no effect\n"));
    else
        CHECK(strstr(text, "span arenas cannot have memory of the NUMA node that they name here: ") != NULL);
    CHECK(from(&special, MIB) != NULL);
    CHECK_EQ(load_relaxed(&special.policy_errors), 1);
}

static const struct test_case cases[] = {
    {"no flags", case_no_flags, NULL, NULL},
    {"all flags", case_all_flags, NULL, NULL},
    {"all flags, unmapped", case_all_flags, "retain:false", NULL},
    {"no huge pages", case_no_huge_pages, NULL, NULL},
    {"dontdump", case_dontdump, NULL, NULL},
    {"locked stays", case_locked_stays, "dirty_decay_ms:0", NULL},
    {"lock limit", case_lock_limit, NULL, NULL},
    {"nothing locked", case_nothing_locked, NULL, NULL},
    {"guarded", case_guarded, NULL, NULL},
    {"guarded, unmapped", case_guarded, "retain:false", NULL},
    {"guarded, at once", case_guarded, "retain:false,dirty_decay_ms:0", NULL},
    {"not forked", case_not_forked, NULL, NULL},
    {"not forked, unmapped", case_not_forked, "retain:false,dirty_decay_ms:0", NULL},
    {"node", case_node, NULL, NULL},
    {"no such node", case_no_such_node, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
