/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that do odd things with their stacks, with stacks:all. Nothing crashes or waits, and no byte is lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/family.h"

#define NOINLINE __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")

static void require_figures(const char *where)
{
    CHECK(ctl_u64("spans.stats.stacks.stacks") > 0);
    ctl_check_identity(where);
}

static NOINLINE void pair(size_t bytes)
{
    void *p = F(malloc)(bytes);
    KEEP(p);
    F(free)(p);
}

/* Paths of calls with frames of two sizes. */
static NOINLINE unsigned large(unsigned path, unsigned depth);
static NOINLINE unsigned small(unsigned path, unsigned depth)
{
    if (!depth)
        pair(path % 500 + 1);
    else
        path += path >> depth & 1 ? small(path, depth - 1) : large(path, depth - 1);
    KEEP(path);
    return path;
}

static NOINLINE unsigned large(unsigned path, unsigned depth)
{
    volatile char room[200];
    room[path % sizeof room] = 1;
    return small(path, depth ? depth - 1 : 0) + (unsigned)room[path % sizeof room];
}

/* ---- Threads that share blocks, one after the other, with stacks of different sizes ---- */

static void *short_thread(void *number)
{
    for (unsigned i = 0; i < 300; i++)
        small((unsigned)(uintptr_t)number + i, 8);
    return NULL;
}

static void thread_churn(void)
{
    for (uintptr_t round = 0; round < 60; round++) {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++) {
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            pthread_attr_setstacksize(&attr, (round + i) % 3 ? 256 << 10 : 4 << 20);
            CHECK_EQ(pthread_create(&threads[i], &attr, short_thread, (void *)(round * 4 + i)), 0);
            pthread_attr_destroy(&attr);
        }
        for (int i = 0; i < 4; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    require_figures("threads");
}

/* A thread has the block of the one before and allocates at the same place, but its stack ends lower. */
#define WITH_FRAME(name, bytes)                                                                                        \
    static NOINLINE void *name(void *unused)                                                                           \
    {                                                                                                                  \
        char room[bytes];                                                                                              \
        KEEP(room);                                                                                                    \
        for (int i = 0; i < 5; i++)                                                                                    \
            pair(64);                                                                                                  \
        KEEP(room);                                                                                                    \
        return unused;                                                                                                 \
    }
#define MUCH ((size_t)256 << 10)
#define LITTLE ((size_t)64 << 10)
WITH_FRAME(with_large_frame, MUCH)
WITH_FRAME(with_small_frame, LITTLE)

static void smaller_stack(void)
{
    const size_t most = 1 << 20;
    char *p = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 6; i++) {
        size_t bytes = i % 2 ? most - (MUCH - LITTLE) : most;
        pthread_attr_t attr;
        pthread_t thread;
        CHECK_EQ(mprotect(p, bytes, PROT_READ | PROT_WRITE), 0);
        pthread_attr_init(&attr);
        pthread_attr_setstack(&attr, p, bytes);
        CHECK_EQ(pthread_create(&thread, &attr, i % 2 ? with_small_frame : with_large_frame, NULL), 0);
        pthread_attr_destroy(&attr);
        pthread_join(thread, NULL);
        CHECK_EQ(mprotect(p, most, PROT_NONE), 0);
    }
    munmap(p, most);
    require_figures("a smaller stack");
}

/* ---- Coroutines, whose stacks are unmapped and mapped anew at the same place ---- */

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    for (unsigned i = 0; i < 20; i++) {
        small(i, 6);
        swapcontext(&coroutine_context, &main_context);
    }
}

static void coroutines(void)
{
    for (volatile size_t round = 0; round < 50; round++) {
        size_t bytes = (size_t)16384 << round % 3;
        char *p = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK_EQ(mprotect(p + 4096, bytes, PROT_READ | PROT_WRITE), 0);
        getcontext(&coroutine_context);
        coroutine_context.uc_stack.ss_sp = p + 4096;
        coroutine_context.uc_stack.ss_size = bytes;
        coroutine_context.uc_link = &main_context;
        makecontext(&coroutine_context, coroutine, 0);
        for (unsigned i = 0; i < 21; i++) {
            swapcontext(&main_context, &coroutine_context);
            small(i, 7);
        }
        munmap(p, bytes + 8192);
    }
    require_figures("coroutines");
}

/* ---- Signals ---- */

static atomic_uint ticks;

static NOINLINE void on_tick(int number)
{
    (void)number;
    atomic_fetch_add(&ticks, 1);
}

static NOINLINE uint64_t leaf(uint64_t n)
{
    for (int i = 0; i < 100; i++)
        n = n * 3 + 1;
    return n;
}

static void signal_storm(void)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &often, NULL);
    for (unsigned i = 0; i < 100000 || !atomic_load(&ticks); i++) {
        small(i, 9);
        KEEP(leaf(i));
    }
    setitimer(ITIMER_PROF, &never, NULL);
    require_figures("signals");
}

/* A handler that allocates, also on a stack of its own that lies inside the thread's. raise() makes it safe. */
static void on_raise(int number)
{
    small((unsigned)number, 5);
}

static void allocating_handlers(void)
{
    char own[65536];
    stack_t other = {.ss_sp = own, .ss_size = sizeof own};
    CHECK_EQ(sigaltstack(&other, NULL), 0);
    for (unsigned i = 0; i < 4000; i++) {
        struct sigaction action = {.sa_handler = on_raise, .sa_flags = i % 2 ? SA_ONSTACK : 0};
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        small(i, 6);
    }
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, NULL);
    require_figures("handlers");
}

/* ---- Forks, jumps, depth ---- */

static void *allocate_until_told(void *stop)
{
    for (unsigned i = 0; !atomic_load((atomic_bool *)stop); i++)
        small(i, 8);
    return NULL;
}

static void forks(void)
{
    atomic_bool stop = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_until_told, &stop), 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (unsigned j = 0; j < 200; j++)
                small(j, 8);
            _exit(0);
        }
        CHECK_CHILD(pid);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    require_figures("forks");
}

static jmp_buf place;
static volatile bool jumps_now = true;

static NOINLINE unsigned jump_from(unsigned depth)
{
    pair(depth + 1);
    if (!depth && jumps_now)
        longjmp(place, 1);
    return depth ? jump_from(depth - 1) + 1 : 0;
}

static void jumps(void)
{
    for (volatile unsigned i = 0; i < 3000; i++)
        if (!setjmp(place))
            jump_from(i % 40);
    require_figures("jumps");
}

static NOINLINE unsigned deep(unsigned depth)
{
    volatile char room[300];
    room[0] = 1;
    if (depth % 50 == 0)
        pair(depth % 1000 + 1);
    return depth ? deep(depth - 1) + (unsigned)room[0] : 0;
}

static void *in_depth(void *unused)
{
    for (unsigned i = 1; i < 2200; i += 100)
        deep(i);
    return unused;
}

/* The stack has little room left below the deepest call. */
static void depth(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 2 << 20);
    CHECK_EQ(pthread_create(&thread, &attr, in_depth, NULL), 0);
    pthread_attr_destroy(&attr);
    pthread_join(thread, NULL);
    require_figures("depth");
}

/* ---- Libraries that come and go, while another thread allocates ---- */

static void libraries(void)
{
    static const char *const names[] = {"libm.so.6", "libresolv.so.2", "libutil.so.1", "libnss_compat.so.2", "libanl.so.1"};
    atomic_bool stop = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_until_told, &stop), 0);
    uint64_t x = 20261124;
    unsigned opened = 0;
    for (unsigned i = 0; i < 300; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        void *library = dlopen(names[(x >> 33) % (sizeof names / sizeof names[0])], RTLD_NOW);
        opened += library != NULL;
        small(i, 7);
        if (library)
            dlclose(library);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK(opened > 0);
    require_figures("libraries");
}

/* ---- Switching ---- */

static void switching(void)
{
    static const char *const modes[] = {"off", "all", "sampled", "all@*a*"};
    atomic_bool stop = false;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, allocate_until_told, &stop), 0);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQ(F(mallctl)("spans.stacks", NULL, NULL, (void *)&modes[i % 4], sizeof modes[0]), 0);
        small(i, 8);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    require_figures("switching");
}

int main(int argc, char **argv)
{
#define STACKS "stacks:all,stacks_sample_bytes:4096"
    static const struct test_case cases[] = {
        {"thread_churn", thread_churn, NULL, STACKS},
        {"smaller_stack", smaller_stack, NULL, STACKS},
        {"coroutines", coroutines, NULL, STACKS},
        {"signal_storm", signal_storm, NULL, STACKS},
        {"allocating_handlers", allocating_handlers, NULL, STACKS},
        {"forks", forks, NULL, STACKS},
        {"jumps", jumps, NULL, STACKS},
        {"depth", depth, NULL, STACKS},
        {"libraries", libraries, NULL, STACKS},
        {"switching", switching, NULL, STACKS},
        {"switching, with few frames", switching, NULL, STACKS ",max_stacks:64"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
