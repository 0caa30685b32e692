/* SPDX-License-Identifier: BSD-2-Clause */
/* For services.sh: waits until the service runs, and does what its argument says.
 *
 *   run     checks what the service found and made, and returns from main
 *   fork    has a child in which no service runs: all its figures are 0
 *   follow  has a child with a service of its own, which ends with it alone
 *   crowd   forks in two threads at once, one of them slowly; then no fork waits for anything
 *   none    waits for nothing
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

enum { PATIENCE_MS = 600000 };

static uint64_t figure(const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "spans.stats.pyroscope.%s", name);
    return ctl_u64(full);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* As its owner has made its figures. */
static void wait_for_service(void)
{
    for (int ms = 0; figure("pushes") == 0 && ms < PATIENCE_MS; ms++)
        sleep_ms(1);
    CHECK_EQ(figure("pushes"), 1);
    CHECK_EQ(figure("queue_length"), 1);
    CHECK_EQ(figure("pushed_bytes"), (uint64_t)getpid());
    CHECK_EQ(figure("rejected"), 0);
}

/* Memory held by contexts of jespan's own, and by all others. */
static void held(uint64_t *own, uint64_t *others)
{
    uint32_t ids[64];
    size_t bytes = sizeof ids;
    *own = *others = 0;
    ctl_refresh();
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        *(strcmp(ctl_span_text(ids[i], "kind"), "jespan") == 0 ? own : others) += ctl_span(ids[i], "inuse_bytes");
}

/* The memory of both threads of the service is credited to (jespan). */
static void check_credit(void)
{
    uint64_t own, others;
    held(&own, &others);
    CHECK(own >= 10000000);
    CHECK(others < 5000000);
}

static void in_child(int follow)
{
    if (follow) {
        wait_for_service();
        exit(check_result());
    }
    sleep_ms(20);
    CHECK_EQ(figure("pushes"), 0);
    CHECK_EQ(figure("queue_length"), 0);
    CHECK_EQ(figure("pushed_bytes"), 0);
    exit(check_result());
}

static void fork_and_wait(int follow)
{
    pid_t pid = fork();
    if (pid == 0)
        in_child(follow);
    CHECK_CHILD(pid);
    sleep_ms(50);
    CHECK_EQ(figure("queue_length"), 1); /* this process's service still runs */
}

/* ---- Forks in two threads ---- */

static __thread long before_fork_ms;

static void be_slow(void)
{
    sleep_ms(before_fork_ms);
}

/* Before any library has registered handlers, so that this one runs last of all before a fork. */
static void register_first(void)
{
    pthread_atfork(be_slow, NULL, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = register_first;

static long fork_ms(void)
{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    return (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
}

static void *fork_slowly(void *unused)
{
    before_fork_ms = 500;
    CHECK(fork_ms() >= 500);
    return unused;
}

static void check_crowd(void)
{
    pthread_t slow;
    long least = 1000;
    CHECK_EQ(pthread_create(&slow, NULL, fork_slowly, NULL), 0);
    sleep_ms(50);
    fork_ms();
    pthread_join(slow, NULL);
    for (int i = 0; i < 50 && least >= 100; i++) { /* a fork that waits does so each time; a busy machine does not */
        long ms = fork_ms();
        least = ms < least ? ms : least;
    }
    CHECK(least < 100);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "none") != 0)
        wait_for_service();
    if (strcmp(what, "run") == 0)
        check_credit();
    if (strcmp(what, "fork") == 0 || strcmp(what, "follow") == 0)
        fork_and_wait(what[2] == 'l');
    if (strcmp(what, "crowd") == 0)
        check_crowd();
    if (strcmp(what, "none") == 0)
        sleep_ms(50);
    return check_result();
}
