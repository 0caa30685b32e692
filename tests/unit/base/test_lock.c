/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks of allocations: they wait for another thread, but neither for their own nor for ever. */
#include "base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define SECOND_NS 1000000000u

static _Atomic pid_t begun;
static bool got;
static uint64_t waited_ns;

static void try_it(void)
{
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    got = lock_if_possible(LOCK_TREE);
    if (got)
        unlock(LOCK_TREE);
    waited_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
}

static void *run(void *unused)
{
    atomic_store(&begun, gettid());
    try_it();
    return unused;
}

static void on_signal(int signal)
{
    (void)signal;
    try_it();
}

static bool sleeps(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int read = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return read == 1 && state == 'S';
}

static void a_thread_waits_for_another_one(void **state)
{
    pthread_t thread;
    (void)state;
    atomic_store(&begun, 0);
    lock(LOCK_TREE);
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    while (!atomic_load(&begun) || !sleeps(atomic_load(&begun)))
        sched_yield();
    unlock(LOCK_TREE);
    pthread_join(thread, NULL);
    assert_true(got || waited_ns >= SECOND_NS); /* a machine may take a second from the look to the unlock */
}

static void it_does_not_wait_for_ever(void **state)
{
    pthread_t thread;
    (void)state;
    lock(LOCK_TREE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
        pthread_join(thread, NULL);
        assert_false(got);
    }
    unlock(LOCK_TREE);
    try_it();
    assert_true(got);
}

static void a_handler_does_not_wait_for_its_own_thread(void **state)
{
    (void)state;
    signal(SIGUSR1, on_signal);
    lock(LOCK_TREE);
    raise(SIGUSR1);
    assert_false(got);
    unlock(LOCK_TREE);
    raise(SIGUSR1);
    assert_true(got);
    lock(LOCK_THREADS);
    raise(SIGUSR1);
    assert_true(got);
    unlock(LOCK_THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_waits_for_another_one),
        cmocka_unit_test(it_does_not_wait_for_ever),
        cmocka_unit_test(a_handler_does_not_wait_for_its_own_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
