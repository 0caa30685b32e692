/* SPDX-License-Identifier: BSD-2-Clause */
/* For dump_on.sh and dump_on_sidecar.sh: does what its arguments say, one after another.
 *
 *   signal N        sends itself a signal         await NAME N   waits until spans.stats.NAME is N, 600 s at most
 *   handler N       handles it itself             threads        prints the names of all threads
 *   grow MB         leaks in the span "leak"      fork           goes on in a child; the parent ends as it does
 *   fail BYTES      an allocation that must fail; align BYTES: an aligned one
 *                                                 exhaust        takes all that there is, in small pieces
 *   sleep MS                                      space MB       bounds its address space
 *   drop            frees all that grow has taken line           reads a line
 *   waits N         N allocations that must fail: did this thread wait in few or most of them?
 *   refuse          an allocation of 2 MB in the span "small"
 *   defaults        how often a signal was given its default action since the last fork
 *   files NAME N    as await, but counts the files heap.PID.*.NAME.pb.gz in $DUMPS
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

static int defaults;

/* jespan calls it too. */
int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    static int (*next)(int number, const struct sigaction *action, struct sigaction *before);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
    defaults += action && action->sa_handler == SIG_DFL;
    return next(number, action, before);
}

static void *last; /* each block begins with the address of the one before it */

static void grow(size_t megabytes)
{
    JESPAN("leak", "tenant", "t7");
    for (size_t i = 0; i < megabytes; i++) {
        void *p = memset(malloc(1 << 20), 1, 1 << 20);
        memcpy(p, &last, sizeof last);
        last = p;
    }
}

static void drop(void)
{
    for (void *p; (p = last); free(p))
        memcpy(&last, p, sizeof last);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void await(const char *name, uint64_t n)
{
    char full[100];
    snprintf(full, sizeof full, "spans.stats.%s", name);
    for (int i = 0; i < 60000 && ctl_u64(full) < n; i++)
        sleep_ms(10);
    printf("%s %llu\n", name, (unsigned long long)ctl_u64(full));
    fflush(stdout);
}

/* There may be no memory for glob(). */
static size_t count_files(const char *name)
{
    char path[4096];
    size_t n = 0;
    for (int i = 1; i < 10; i++) {
        snprintf(path, sizeof path, "%s/heap.%d.%d.%s.pb.gz", getenv("DUMPS"), (int)getpid(), i, name);
        n += access(path, F_OK) == 0;
    }
    return n;
}

static void await_files(const char *name, size_t n)
{
    for (int i = 0; i < 60000 && count_files(name) < n; i++)
        sleep_ms(10);
    printf("%s %zu\n", name, count_files(name));
    fflush(stdout);
}

static void bound_space(rlim_t megabytes)
{
    CHECK_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){megabytes << 20, megabytes << 20}), 0);
}

static void go_on_in_child(void)
{
    int status;
    defaults = 0;
    pid_t child = fork();
    if (child == 0)
        return;
    CHECK_EQ(waitpid(child, &status, 0), child);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void say_handled(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, "handled\n", 8) != 8)
        _exit(1);
}

static void fail(size_t bytes)
{
    void *volatile p = malloc(bytes);
    printf("%s\n", p == NULL && errno == ENOMEM ? "ENOMEM" : "memory");
    fflush(stdout);
}

static long times_waited(void)
{
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* It may have waited for something else, such as a page of code. */
static void count_waits(int n)
{
    int waits = 0;
    for (int i = 0; i < n; i++) {
        long before = times_waited();
        void *volatile p = malloc((size_t)100 << 40);
        CHECK(!p && errno == ENOMEM);
        waits += times_waited() != before;
    }
    printf("waited in %s\n", 2 * waits < n ? "few" : "most");
    fflush(stdout);
}

/* Not a page can be had afterwards. */
static void exhaust(void)
{
    JESPAN("leak", "tenant", "t7");
    for (char *volatile p; (p = malloc(64)) != NULL;)
        *p = 1;
}

/* A thread that has just begun has the program's name until it gives itself another. */
static bool some_have_no_name(void)
{
    return system("test $(cat /proc/$PPID/task/*/comm | grep -c '^dump_on_program$') != 1") == 0;
}

static void print_threads(void)
{
    for (int i = 0; i < 60000 && some_have_no_name(); i++)
        sleep_ms(10);
    CHECK_EQ(system("cat /proc/$PPID/task/*/comm"), 0);
}

static void act(char **argv)
{
    if (strcmp(argv[0], "signal") == 0)
        raise(atoi(argv[1]));
    else if (strcmp(argv[0], "handler") == 0)
        signal(atoi(argv[1]), say_handled);
    else if (strcmp(argv[0], "grow") == 0)
        grow(strtoul(argv[1], NULL, 10));
    else if (strcmp(argv[0], "fail") == 0)
        fail(strtoul(argv[1], NULL, 10));
    else if (strcmp(argv[0], "align") == 0)
        puts(aligned_alloc(64, strtoul(argv[1], NULL, 10)) || errno != ENOMEM ? "aligned" : "ENOMEM");
    else if (strcmp(argv[0], "waits") == 0)
        count_waits(atoi(argv[1]));
    else if (strcmp(argv[0], "space") == 0)
        bound_space(strtoul(argv[1], NULL, 10));
    else if (strcmp(argv[0], "sleep") == 0)
        sleep_ms(atol(argv[1]));
    else
        exit(2);
}

int main(int argc, char **argv)
{
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "fork") == 0) {
            go_on_in_child();
            printf("pid %d\n", (int)getpid());
            fflush(stdout);
        } else if (strcmp(argv[i], "defaults") == 0) {
            printf("defaults %d\n", defaults);
        } else if (strcmp(argv[i], "threads") == 0) {
            print_threads();
        } else if (strcmp(argv[i], "exhaust") == 0) {
            exhaust();
        } else if (strcmp(argv[i], "refuse") == 0) {
            JESPAN("small");
            fail(2000000);
        } else if (strcmp(argv[i], "line") == 0) {
            for (int c; (c = getchar()) != '\n' && c != EOF;) {
            }
        } else if (strcmp(argv[i], "drop") == 0) {
            drop();
        } else if (strcmp(argv[i], "await") == 0 && i + 2 < argc) {
            await(argv[i + 1], strtoull(argv[i + 2], NULL, 10));
            i += 2;
        } else if (strcmp(argv[i], "files") == 0 && i + 2 < argc) {
            await_files(argv[i + 1], strtoull(argv[i + 2], NULL, 10));
            i += 2;
        } else if (i + 1 < argc) {
            act(argv + i++);
        }
    }
    return check_result();
}
