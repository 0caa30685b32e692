/* SPDX-License-Identifier: BSD-2-Clause */
/* fork, vfork and exec from a threaded program under allocation load: every child works and ends.
 *
 * FORKS: number of forks (6,000). Each child frees what the parent allocated, allocates, uses spans and reads figures.
 * Some children start a thread, fork again, or exec. A child that hangs is killed by its alarm, which is a failure.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define LOADERS 4
#define AT_ONCE 4
#define INHERITED 100
#define CHILD_SECONDS 600

static _Atomic bool stop;
static void *inherited[INHERITED];
static jespan_span_t *request;
static jespan_context_t in_request;

static void one_load(unsigned n)
{
    void *p[50];
    JESPAN("load", "parity", n % 2 ? "odd" : "even");
    for (unsigned i = 0; i < 50; i++)
        p[i] = malloc(n * 7919u * (i + 1) % (i % 10 ? 2000 : 100000));
    for (unsigned i = 0; i < 50; i++)
        free(p[i]);
}

static void *load(void *argument)
{
    (void)argument;
    for (unsigned n = 0; !stop; n++)
        one_load(n);
    return NULL;
}

static void check_figures(void)
{
    ctl_refresh();
    uint64_t objects = ctl_u64("spans.all.inuse_objects"), bytes = ctl_u64("spans.all.inuse_bytes");
    if (objects > 1000000 || bytes > (uint64_t)1 << 34)
        check_fail("in a child: %llu objects, %llu bytes in use", (unsigned long long)objects, (unsigned long long)bytes);
}

static void use_spans(void)
{
    uint64_t before = ctl_span(in_request, "inuse_objects");
    CHECK_EQ(jespan_enter(request), 0);
    CHECK_EQ(jespan_current(), in_request);
    free(opaque_pointer(malloc(100)));
    void *p = malloc(1000);
    CHECK_EQ(jespan_exit(request), 0);
    CHECK_EQ(ctl_span(in_request, "inuse_objects"), before + 1);
    free(p);
    CHECK_EQ(ctl_span(in_request, "inuse_objects"), before);
}

static void free_inherited(void)
{
    uint64_t before = ctl_span(in_request, "inuse_objects");
    for (int i = 0; i < INHERITED; i++)
        free(inherited[i]);
    CHECK_EQ(ctl_span(in_request, "inuse_objects"), before - INHERITED);
}

static void *short_thread(void *argument)
{
    one_load(*(unsigned *)argument);
    return NULL;
}

static void start_thread(unsigned n)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, short_thread, &n), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void fork_again(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        one_load(3);
        _exit(check_result());
    }
    CHECK_CHILD(pid);
}

static int child(unsigned n)
{
    alarm(CHILD_SECONDS);
    for (unsigned i = 0; i < 3; i++)
        one_load(n + i);
    use_spans();
    free_inherited();
    if (n % 10 == 0)
        check_figures();
    if (n % 20 == 1)
        start_thread(n);
    if (n % 20 == 2)
        fork_again();
    if (n % 100 == 3)
        execl("/bin/true", "true", NULL);
    return check_result();
}

static void reap(unsigned n)
{
    int status = -1;
    if (waitpid(-1, &status, 0) < 0)
        check_fail("waitpid: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        check_fail("a child near number %u was ended by signal %d%s", n, WTERMSIG(status),
                   WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    else if (status)
        check_fail("a child near number %u ended with %d", n, WEXITSTATUS(status));
}

/* Half of the children leave through exit(), which runs what jespan does at the end. */
static void fork_many(unsigned count)
{
    unsigned running = 0;
    for (unsigned n = 0; n < count; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            int result = child(n);
            if (n % 2)
                exit(result);
            _exit(result);
        }
        if (pid < 0)
            check_fail("fork %u: %s", n, strerror(errno));
        else if (++running == AT_ONCE) {
            reap(n);
            running--;
        }
    }
    while (running-- > 0)
        reap(count);
}

static void vfork_and_exec(void)
{
    for (int i = 0; i < 100; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", NULL);
            _exit(127);
        }
        CHECK_CHILD(pid);
    }
}

static void spawn_many(void)
{
    char name[] = "true", *arguments[] = {name, NULL}, *environment[] = {NULL};
    for (int i = 0; i < 100; i++) {
        pid_t pid;
        CHECK_EQ(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment), 0);
        CHECK_CHILD(pid);
    }
}

static void setup(void)
{
    JESPAN_SITE(site, "request");
    request = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(request), 0);
    in_request = jespan_current();
    for (int i = 0; i < INHERITED; i++)
        inherited[i] = malloc((size_t)i * i);
    CHECK_EQ(jespan_exit(request), 0);
}

int main(void)
{
    pthread_t loaders[LOADERS];
    setup();
    for (int i = 0; i < LOADERS; i++)
        CHECK_EQ(pthread_create(&loaders[i], NULL, load, NULL), 0);
    fork_many((unsigned)check_rounds("FORKS", 6000));
    vfork_and_exec();
    spawn_many();
    stop = true;
    for (int i = 0; i < LOADERS; i++)
        pthread_join(loaders[i], NULL);
    ctl_check_identity("the parent, after all");
    CHECK_EQ(ctl_span(in_request, "inuse_objects"), INHERITED);
    return check_result();
}
