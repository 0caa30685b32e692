/* SPDX-License-Identifier: BSD-2-Clause */
/* For state_file.sh: a program that is killed, and knows what it held.
 *
 *     model FILE THREADS OPERATIONS   threads allocate and free in spans; FILE says what they did; one of them kills all
 *     hold N                          holds N objects, says "ready" and waits
 *     exit N | quit N                 holds N objects and calls exit(), or _exit()
 *     fork N M | clone N M            holds N objects; a child allocates M, says so and waits; then it is killed itself
 *     vfork N                         as hold, after a child of vfork()
 *     exec N PROGRAM ARGUMENT…        holds N objects and executes the program
 *     wide CONTEXTS THREADS           as many counters as that, then says "ready" and waits
 *     load LIBRARY N                  allocates in a library that it loads then, says "ready" and waits
 *     code LIBRARY N CODE             as load, with code in CODE mappings of a file, and in one whose file is empty by now; then as wide
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.h>

enum { KINDS = 48, KEPT = 64, OBJECT_BYTES = 1024, NEW_SPAN_EVERY = 8 };

static void *volatile kept;

static void hold(int n)
{
    while (n--) {
        void **p = malloc(OBJECT_BYTES);
        *p = kept;
        kept = p;
    }
}

static void hold_in(const char *span, int n)
{
    JESPAN("held", "by", span);
    hold(n);
}

static void say(const char *word)
{
    printf("%s %d\n", word, (int)getpid());
    fflush(stdout);
}

static _Noreturn void wait_for_the_end(void)
{
    for (;;)
        pause();
}

/* ---- The model ---- */

/* Of one thread and kind. An operation increments the first before it, and the second after it. */
struct pair {
    _Atomic uint64_t begun, done;
};

struct model {
    struct thread_model {
        struct pair allocated[KINDS], freed[KINDS];
        struct pair passing; /* spans that are opened once: each allocates and frees one object */
    } of[16];
};

static struct model *model;
static long operations;

static uint64_t draw(uint64_t *dice)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return *dice >> 33;
}

/* The sequence of operations is what the model is about, so the compiler keeps it. */
static void begin(struct pair *p)
{
    atomic_fetch_add(&p->begun, 1);
}

static void end(struct pair *p)
{
    atomic_fetch_add(&p->done, 1);
}

static void pass(struct thread_model *m, unsigned thread, uint64_t n)
{
    begin(&m->passing);
    {
        JESPAN_WITH("passing", JESPAN_LABEL_INT("id", (int64_t)(n * 16 + thread)));
        void *p = malloc(OBJECT_BYTES);
        *(volatile char *)p = 1;
        free(p);
    }
    end(&m->passing);
}

static void *work(void *number)
{
    unsigned thread = (unsigned)(uintptr_t)number;
    struct thread_model *m = &model->of[thread];
    static _Thread_local struct {
        void *p;
        unsigned kind;
    } objects[KEPT];
    uint64_t dice = thread + 1;
    for (long n = 0; thread || n < operations; n++) {
        unsigned i = draw(&dice) % KEPT, kind = draw(&dice) % KINDS;
        if (objects[i].p) {
            begin(&m->freed[objects[i].kind]);
            free(objects[i].p);
            end(&m->freed[objects[i].kind]);
            objects[i].p = NULL;
        } else {
            JESPAN_WITH("kind", JESPAN_LABEL_INT("number", (int64_t)kind));
            begin(&m->allocated[kind]);
            objects[i].p = malloc(OBJECT_BYTES);
            end(&m->allocated[kind]);
            objects[i].kind = kind;
        }
        if (n % NEW_SPAN_EVERY == 0)
            pass(m, thread, (uint64_t)n);
    }
    kill(getpid(), SIGKILL);
    return NULL;
}

static int run_model(const char *file, unsigned threads, long n)
{
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *model))
        return 1;
    model = mmap(NULL, sizeof *model, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    operations = n;
    pthread_t t;
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&t, NULL, work, (void *)(uintptr_t)i))
            return 1;
    work(NULL);
    return 1;
}

/* ---- Children ---- */

static int with_child(bool by_fork, int n, int more)
{
    int from[2];
    char byte;
    if (pipe(from))
        return 1;
    hold_in("parent", n);
    pid_t pid = by_fork ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (!pid) {
        hold_in("parent", more);
        hold_in("child", more);
        say("child");
        if (write(from[1], "", 1) != 1)
            _exit(1);
        wait_for_the_end();
    }
    if (pid < 0 || read(from[0], &byte, 1) != 1)
        return 1;
    hold_in("parent", 1);
    kill(getpid(), SIGKILL);
    return 1;
}

/* ---- Many counters ---- */

static int n_contexts;
static pthread_barrier_t barrier;

static void *widen(void *unused)
{
    for (int i = 0; i < n_contexts; i++) {
        JESPAN_WITH("wide", JESPAN_LABEL_INT("id", (int64_t)i));
        void *p = malloc(OBJECT_BYTES);
        *(volatile char *)p = 1;
        free(p);
    }
    pthread_barrier_wait(&barrier);
    wait_for_the_end();
    return unused;
}

static void run_wide(int contexts, int threads)
{
    pthread_t t;
    n_contexts = contexts;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&t, NULL, widen, NULL))
            exit(1);
    pthread_barrier_wait(&barrier);
}

/* ---- A library ---- */

/* jespan looks for new libraries once a second at most, when something is freed. So this goes on for two. */
static void hold_by(void *(*allocate)(int), int n)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    while (n--)
        kept = allocate(n);
    do {
        for (int i = 0; i < 100; i++)
            free(allocate(i));
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < begun.tv_sec + 2 || now.tv_nsec < begun.tv_nsec);
}

/* Code of files without a name, as some compilers at run time make it. */
static bool map_code(int mappings)
{
    int whole = memfd_create("code", 0), empty = memfd_create("gone", 0);
    bool ok = whole >= 0 && empty >= 0 && !ftruncate(whole, 4096) && !ftruncate(empty, 4096);
    for (int i = 0; ok && i < mappings; i++)
        ok = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, whole, 0) != MAP_FAILED;
    return ok && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, empty, 0) != MAP_FAILED && !ftruncate(empty, 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0, more = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(what, "model"))
        return run_model(argv[2], (unsigned)more, atol(argv[4]));
    if (!strcmp(what, "fork") || !strcmp(what, "clone"))
        return with_child(what[0] == 'f', n, more);
    if (!strcmp(what, "vfork")) {
        pid_t pid = vfork();
        if (!pid)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    if (!strcmp(what, "wide")) {
        run_wide(n, more);
    } else if (!strcmp(what, "load") || !strcmp(what, "code")) {
        if (what[0] == 'c' && !map_code(atoi(argv[4])))
            return 1;
        void *library = dlopen(argv[2], RTLD_NOW);
        void *(*allocate)(int) = library ? (void *(*)(int))(uintptr_t)dlsym(library, "allocate_in_library") : NULL;
        if (!allocate)
            return 1;
        hold_by(allocate, more);
        if (what[0] == 'c')
            run_wide(10000, 4);
    } else {
        hold_in("parent", n);
    }
    if (!strcmp(what, "exit"))
        exit(0);
    if (!strcmp(what, "quit"))
        _exit(0);
    if (!strcmp(what, "exec"))
        execv(argv[3], argv + 3);
    say("ready");
    wait_for_the_end();
}
