/* SPDX-License-Identifier: BSD-2-Clause */
/* How a process ended: by the OOM killer only if the system killed something since the last looks but one. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sidecar/ending.c"

#define LOOK ENDING_LOOK_EVERY_NS

static struct ending_watch watch;

/* As the file of a cgroup. */
static void set_kills(const char *text)
{
    assert_int_equal(ftruncate(watch.kills_fd, 0), 0);
    assert_int_equal(pwrite(watch.kills_fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

static void begin(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ending_watch(&watch, pid, (int)syscall(SYS_pidfd_open, pid, 0));
    if (watch.kills_fd >= 0)
        close(watch.kills_fd);
    watch.kills_fd = memfd_create("events", 0);
    watch.kills = watch.later_kills = 7;
    set_kills("oom 9\noom_kill 7\n");
}

/* Whether it is told that the OOM killer ended it. The process stays a zombie until then. */
static bool killed(void)
{
    siginfo_t info;
    assert_int_equal(kill(watch.pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)watch.pid, &info, WEXITED | WNOWAIT), 0);
    struct ending e = ending_of(&watch);
    assert_true(e.is_known);
    assert_int_equal(e.signal, SIGKILL);
    waitpid(watch.pid, NULL, 0);
    close(watch.pidfd);
    ending_forget(&watch);
    return e.by_oom_killer;
}

static void test_nothing_else(void **state)
{
    (void)state;
    begin();
    ending_look(&watch, LOOK);
    assert_false(killed());
}

/* Another process in the cgroup, some time ago. */
static void test_another_before(void **state)
{
    (void)state;
    begin();
    set_kills("oom 9\noom_kill 8\n");
    for (uint64_t now = LOOK; now < 4 * LOOK; now += LOOK)
        ending_look(&watch, now);
    assert_false(killed());
}

/* Looks between the kill and the end do not hide it. */
static void test_by_the_system(void **state)
{
    (void)state;
    begin();
    ending_look(&watch, LOOK);
    ending_look(&watch, 2 * LOOK);
    set_kills("oom 9\noom_kill 8\n");
    for (uint64_t ms = 0; ms < 30000; ms += 10)
        ending_look(&watch, 3 * LOOK + ms * 1000000);
    assert_true(killed());
    begin();
    set_kills("oom 9\noom_kill 8\n");
    assert_true(killed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_else),
        cmocka_unit_test(test_another_before),
        cmocka_unit_test(test_by_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
