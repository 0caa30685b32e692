/* SPDX-License-Identifier: BSD-2-Clause */
/* Each kind of CPU clock, compared with CLOCK_THREAD_CPUTIME_ID: also if the program uses restartable sequences
 * itself, read from another thread, and in a forked child. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/own_rseq.h"
#include "../../support/times.h"
#include "base/cpu_clock.h"

#define MS 1000000u
#define TRIES 20
#define PER_MILLE 10

static int boot(void **state)
{
    (void)state;
    clock_boot();
    return 0;
}

/* Reads the clock as timing.h does on each enter and exit. */
static uint64_t cpu_now(struct cpu_clock *c)
{
    struct cpu_split split;
    uint64_t now = clock_ticks();
    if (!cpu_clock_stands(c))
        now = cpu_clock_read(c, &split);
    return cpu_clock_ticks(c, now);
}

static uint64_t to_ns(uint64_t ticks)
{
    return clock_ticks_to_ns(ticks, clock_scale());
}

/* Interrupts and hypervisors take time that belongs to no thread. So one good try of several is enough. */
static bool is_right(struct cpu_clock *c, void (*work)(struct cpu_clock *))
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t outer = times_ns(CLOCK_THREAD_CPUTIME_ID), begin = cpu_now(c);
        uint64_t inner = times_ns(CLOCK_THREAD_CPUTIME_ID);
        work(c);
        uint64_t inner_end = times_ns(CLOCK_THREAD_CPUTIME_ID), end = cpu_now(c);
        uint64_t outer_end = times_ns(CLOCK_THREAD_CPUTIME_ID);
        if (times_between(to_ns(end - begin), inner_end - inner, outer_end - outer, PER_MILLE))
            return true;
    }
    return false;
}

static void spin(struct cpu_clock *c)
{
    (void)c;
    times_spin(10 * MS);
}

static void sleep_a_while(struct cpu_clock *c)
{
    (void)c;
    times_sleep(20 * MS);
}

/* The sum of many short readings. Each of them may miss a switch of threads. */
static void read_often(struct cpu_clock *c)
{
    for (int i = 0; i < 100; i++) {
        times_spin(MS / 20);
        cpu_now(c);
        times_sleep(MS / 20);
        cpu_now(c);
    }
}

static void use_rseq(struct cpu_clock *c)
{
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            own_rseq_set();
        else
            own_rseq_clear();
        times_sleep(MS / 2);
        if (i % 4 >= 2)
            cpu_now(c);
        times_spin(MS / 4);
    }
}

static void try_kind(enum cpu_clock_kind kind)
{
    struct cpu_clock c = {0};
    cpu_clock_boot(kind);
    cpu_clock_start(&c);
    assert_true(is_right(&c, spin));
    assert_true(is_right(&c, sleep_a_while));
    assert_true(is_right(&c, read_often));
    assert_true(is_right(&c, use_rseq));
}

static void by_rseq(void **state)
{
    (void)state;
    try_kind(CPU_CLOCK_RSEQ);
    assert_true(cpu_clock_in_use() == CPU_CLOCK_RSEQ || cpu_clock_in_use() == CPU_CLOCK_THREAD);
}

static void by_thread_clock(void **state)
{
    (void)state;
    try_kind(CPU_CLOCK_THREAD);
    assert_int_equal(cpu_clock_in_use(), CPU_CLOCK_THREAD);
}

static void by_auto(void **state)
{
    (void)state;
    try_kind(CPU_CLOCK_AUTO);
    assert_int_not_equal(cpu_clock_in_use(), CPU_CLOCK_AUTO);
}

static void without(void **state)
{
    struct cpu_clock c = {0};
    (void)state;
    cpu_clock_boot(CPU_CLOCK_NONE);
    cpu_clock_start(&c);
    assert_true(cpu_clock_stands(&c));
    assert_int_equal(cpu_clock_in_use(), CPU_CLOCK_NONE);
}

/* A pointer that the program has set is not taken for ours, and neither is a cleared one. */
static void pointer_of_others_does_not_stand(void **state)
{
    struct cpu_clock c = {0};
    struct cpu_split split;
    (void)state;
    cpu_clock_boot(CPU_CLOCK_RSEQ);
    cpu_clock_start(&c);
    assert_false(cpu_clock_stands(&c));
    cpu_clock_read(&c, &split);
    if (cpu_clock_in_use() != CPU_CLOCK_RSEQ)
        skip();
    own_rseq_set();
    assert_false(cpu_clock_stands(&c));
    cpu_clock_read(&c, &split);
    own_rseq_clear();
    assert_false(cpu_clock_stands(&c));
    cpu_clock_read(&c, &split);
    for (int i = 0; i < TRIES && cpu_clock_stands(&c); i++)
        times_sleep(MS); /* may be over before the thread has left its processor */
    assert_false(cpu_clock_stands(&c));
}

/* Otherwise the pointer saves nothing. The thread may lose its processor between two readings, so there are several
 * tries. */
static void pointer_stands_while_nothing_happens(void **state)
{
    struct cpu_clock c = {0};
    struct cpu_split split;
    uint64_t stood = 0;
    (void)state;
    cpu_clock_boot(CPU_CLOCK_RSEQ);
    cpu_clock_start(&c);
    for (int i = 0; i < 1000; i++) {
        cpu_clock_read(&c, &split);
        stood += cpu_clock_stands(&c);
    }
    assert_true(cpu_clock_in_use() == CPU_CLOCK_RSEQ ? stood > 500 : stood == 0);
}

/* ---- From another thread ---- */

static struct cpu_clock shared;
static _Atomic int phase;

static void await(int wanted)
{
    while (phase != wanted)
        times_sleep(MS / 10);
}

static void *be_watched(void *clock)
{
    cpu_clock_start(&shared);
    cpu_now(&shared);
    *(clockid_t *)clock = 0;
    pthread_getcpuclockid(pthread_self(), clock);
    phase = 1;
    while (phase == 1)
        ;
    await(3); /* asleep */
    return NULL;
}

static uint64_t watch_ns(void)
{
    return to_ns(cpu_clock_of(&shared));
}

static bool watched_is_right(clockid_t clock, uint64_t ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t outer = times_ns(clock), begin = watch_ns(), inner = times_ns(clock);
        times_sleep(ns);
        uint64_t inner_end = times_ns(clock), end = watch_ns(), outer_end = times_ns(clock);
        if (times_between(end - begin, inner_end - inner, outer_end - outer, PER_MILLE))
            return true;
    }
    return false;
}

static void of_another_thread(void **state)
{
    pthread_t thread;
    clockid_t clock;
    (void)state;
    phase = 0;
    cpu_clock_boot(CPU_CLOCK_AUTO);
    assert_int_equal(pthread_create(&thread, NULL, be_watched, &clock), 0);
    await(1);
    assert_true(watched_is_right(clock, 10 * MS));
    phase = 2;
    assert_true(watched_is_right(clock, 10 * MS));
    phase = 3;
    pthread_join(thread, NULL);
    /* The thread has ended. The kernel removes it a moment later. */
    uint64_t last = cpu_clock_last(&shared);
    while (cpu_clock_of(&shared) != last)
        times_sleep(MS);
}

/* ---- Fork ---- */

/* Runs in a child, whose CPU time begins at 0. The time in the block goes on from its value. */
static int child(struct cpu_clock *c)
{
    uint64_t before = cpu_clock_last(c);
    cpu_clock_start(c);
    uint64_t begin = cpu_now(c);
    if (begin < before || to_ns(begin - before) > 1000 * (uint64_t)MS)
        return 1;
    return is_right(c, spin) && is_right(c, sleep_a_while) ? 0 : 2;
}

static void goes_on_in_a_child(void **state)
{
    struct cpu_clock c = {0};
    int status;
    (void)state;
    cpu_clock_boot(CPU_CLOCK_AUTO);
    cpu_clock_start(&c);
    times_spin(20 * MS);
    cpu_now(&c);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(&c));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rseq), cmocka_unit_test(by_thread_clock), cmocka_unit_test(by_auto),
        cmocka_unit_test(without),
        cmocka_unit_test(pointer_of_others_does_not_stand), cmocka_unit_test(pointer_stands_while_nothing_happens),
        cmocka_unit_test(of_another_thread), cmocka_unit_test(goes_on_in_a_child),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
