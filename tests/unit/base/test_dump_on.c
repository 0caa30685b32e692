/* SPDX-License-Identifier: BSD-2-Clause */
/* The events that dump_on names, signals by name, threads that wait for events, and emergency memory. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/dump_on.h"
#include "base/futex.h"
#include "base/meta.h"
#include "report/event_watch.h"
#include "report/signals.h"

static void test_reasons(void **state)
{
    (void)state;
    assert_int_equal(event_watch_read("", conf_warn_item, "dump_on"), 0);
    assert_int_equal(event_watch_read("oom", conf_warn_item, "dump_on"), DUMP_BIT(DUMP_OOM));
    assert_int_equal(event_watch_read("signal|peak||limit", conf_warn_item, "dump_on"),
                     DUMP_BIT(DUMP_SIGNAL) | DUMP_BIT(DUMP_PEAK) | DUMP_BIT(DUMP_LIMIT));
    assert_int_equal(event_watch_read("OOM|o|oomx", conf_warn_item, "dump_on"), 0);
}

static void test_signals(void **state)
{
    (void)state;
    assert_int_equal(signals_parse("USR2"), SIGUSR2);
    assert_int_equal(signals_parse("SIGUSR1"), SIGUSR1);
    assert_int_equal(signals_parse("12"), 12);
    assert_int_equal(signals_parse("RTMIN+3"), SIGRTMIN + 3);
    static const char *const bad[] = {"", "USR3", "usr2", "0", "-1", "65", "999999999999", "KILL", "9", "SEGV", "32", "33",
                                      "RTMIN-1", "RTMIN+99", "12x", "SIG", "CHLD"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(signals_parse(bad[i]), 0);
}

static void handle(int number)
{
    (void)number;
    dump_on_event(DUMP_SIGNAL);
}

static void other(int number)
{
    (void)number;
}

static void test_handlers_stay(void **state)
{
    struct own_signal own = {.handle = handle};
    struct sigaction now;
    (void)state;
    assert_int_equal(signals_install(&own, "USR2"), 0);
    dump_on_accept(DUMP_BIT(DUMP_SIGNAL));
    errno = 12345;
    raise(SIGUSR2);
    assert_int_equal(errno, 12345);
    assert_int_equal(dump_on_wait(UINT64_MAX), DUMP_BIT(DUMP_SIGNAL));
    signals_remove(&own);
    assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    signal(SIGUSR2, other);
    assert_int_equal(signals_install(&own, "USR2"), -EBUSY);
    signals_remove(&own);
    assert_true(signal(SIGUSR2, SIG_DFL) == other);
    assert_int_equal(signals_install(&own, "KILL"), -EINVAL);
}

static void test_events(void **state)
{
    (void)state;
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    dump_on_accept(DUMP_BIT(DUMP_LIMIT));
    dump_on_event(DUMP_PEAK); /* dump_on does not name this event */
    assert_int_equal(dump_on_wait(begin + 20000000), 0);
    assert_true(clock_ns(CLOCK_MONOTONIC) >= begin + 20000000);
    dump_on_event(DUMP_LIMIT);
    dump_on_event(DUMP_LIMIT);
    assert_int_equal(dump_on_wait(UINT64_MAX), DUMP_BIT(DUMP_LIMIT));
    dump_on_wake();
    assert_int_equal(dump_on_wait(UINT64_MAX), 0);
    dump_on_event(DUMP_LIMIT);
    dump_on_done(DUMP_LIMIT, 0);
    assert_int_equal(dump_on_wait(0), 0);
}

static void *serve(void *seen)
{
    *(uint32_t *)seen = dump_on_wait(UINT64_MAX);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    dump_on_done(DUMP_OOM, 0);
    return NULL;
}

static uint64_t failure_ns(void)
{
    pthread_t thread;
    uint32_t seen = 0;
    assert_int_equal(pthread_create(&thread, NULL, serve, &seen), 0);
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    dump_on_failure(100, false);
    uint64_t waited = clock_ns(CLOCK_MONOTONIC) - begin;
    pthread_join(thread, NULL);
    assert_int_equal(seen, DUMP_BIT(DUMP_OOM));
    return waited;
}

/* A failed allocation waits for its dump, for a second at most. On a busy machine one of several tries is served
 * sooner. The next failure is the same event. */
static void test_failures(void **state)
{
    uint64_t waited = UINT64_MAX;
    (void)state;
    dump_on_failure(100, false); /* off */
    dump_on_accept(DUMP_BIT(DUMP_OOM));
    dump_on_failure(PTRDIFF_MAX, false); /* a mistake */
    assert_int_equal(dump_on_wait(0), 0);
    for (int i = 0; i < 20 && waited >= 900000000; i++) {
        waited = failure_ns();
        assert_true(waited >= 50000000);
    }
    assert_true(waited < 900000000);
    dump_on_done(DUMP_OOM, clock_ns(CLOCK_MONOTONIC) + 600 * (uint64_t)1000000000);
    dump_on_failure(100, false);
    assert_int_equal(dump_on_wait(0), 0);
    dump_on_accept(DUMP_BIT(DUMP_OOM));
    dump_on_failure(100, true); /* this call does not wait */
    assert_int_equal(dump_on_wait(0), DUMP_BIT(DUMP_OOM));
    dump_on_accept(0);
}

/* ---- A watcher in another process ---- */

#define OOM DUMP_BIT(DUMP_OOM)
static _Atomic uint32_t outside_events, outside_rings, outside_alive, outside_owner;

static void leave_to_watcher(void)
{
    store_relaxed(&outside_events, 0);
    store_relaxed(&outside_rings, 0);
    store_relaxed(&outside_alive, 7);
    store_relaxed(&outside_owner, 12);
    dump_on_leave_to((struct dump_on_outside){&outside_events, &outside_rings, &outside_alive, &outside_owner, 12},
                     OOM | DUMP_BIT(DUMP_LIMIT));
}

static void test_outside(void **state)
{
    (void)state;
    leave_to_watcher();
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS);
    assert_false(dump_on_has_left());
    dump_on_event(DUMP_PEAK); /* dump_on does not name this event */
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS);
    dump_on_event(DUMP_LIMIT);
    dump_on_event(DUMP_LIMIT); /* one ring is enough */
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS | DUMP_BIT(DUMP_LIMIT));
    assert_int_equal(outside_rings, 1);
    assert_int_equal(dump_on_wait(0), 0);
    assert_true(dump_on_has_left());
    store_relaxed(&outside_events, DUMP_ON_ACCEPTS | DUMP_ON_BUSY);
    assert_true(dump_on_has_left());
    dump_on_accept(0);
    assert_false(dump_on_has_left());
    dump_on_event(DUMP_LIMIT);
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS | DUMP_ON_BUSY);
}

/* They must not wait: nobody would wake them, and the next allocation that fails would not be reported either. */
static void test_outside_without_wait(void **state)
{
    (void)state;
    leave_to_watcher();
    store_relaxed(&outside_alive, 7 | FUTEX_OWNER_DIED);
    dump_on_failure(100, false);
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS);
    store_relaxed(&outside_alive, 7);
    store_relaxed(&outside_owner, 13);
    dump_on_failure(100, false);
    dump_on_event(DUMP_LIMIT);
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS);
    store_relaxed(&outside_owner, 12);
    store_relaxed(&outside_events, DUMP_ON_ACCEPTS | DUMP_ON_QUIET);
    dump_on_failure(100, false);
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS | DUMP_ON_QUIET);
    store_relaxed(&outside_events, DUMP_ON_ACCEPTS);
    dump_on_failure(PTRDIFF_MAX, false); /* a mistake */
    assert_int_equal(outside_rings, 0);
    dump_on_failure(100, true); /* this call does not wait */
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS | OOM);
    assert_int_equal(outside_rings, 1);
    dump_on_accept(0);
}

static void *serve_outside(void *unused)
{
    while (!(load_acquire(&outside_events) & OOM))
        futex_wait_shared(&outside_rings, 0, UINT64_MAX);
    store_release(&outside_events, DUMP_ON_ACCEPTS);
    futex_wake_all_shared(&outside_events);
    return unused;
}

/* A thread that got no answer in a second does not wait again soon: in ten seconds, which may pass on a busy machine. */
static void test_outside_answers(void **state)
{
    pthread_t thread;
    int reported = 0;
    (void)state;
    leave_to_watcher();
    assert_int_equal(pthread_create(&thread, NULL, serve_outside, NULL), 0);
    dump_on_failure(100, false);
    pthread_join(thread, NULL);
    assert_int_equal(outside_rings, 1);
    leave_to_watcher();
    dump_on_failure(100, false);
    assert_int_equal(outside_events, DUMP_ON_ACCEPTS | OOM);
    assert_int_equal(outside_rings, 1);
    for (int i = 0; i < 20; i++) {
        store_relaxed(&outside_events, DUMP_ON_ACCEPTS);
        dump_on_failure(100, false);
        reported += load_relaxed(&outside_events) != DUMP_ON_ACCEPTS;
    }
    assert_in_range(reported, 0, 10);
    dump_on_accept(0);
}

static void test_set_aside(void **state)
{
    enum { BYTES = 65536 };
    (void)state;
    char *before = meta_emergency_alloc(100);
    assert_int_equal(meta_set_aside(BYTES), 0);
    uint64_t mapped = meta_map_bytes();
    for (int round = 0; round < 3; round++) {
        meta_emergency_begin();
        char *a = meta_emergency_alloc(1000), *b = meta_emergency_alloc(3);
        assert_true(a && b && (uintptr_t)b % 64 == 0);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(a[i], 0);
        memset(a, 1, 1000);
        meta_return(b, 3);
        assert_ptr_equal(meta_emergency_alloc(5), b); /* the last piece is free again */
        assert_int_equal(meta_map_bytes(), mapped);
        char *rest = meta_emergency_alloc(BYTES - 1088);
        assert_int_equal(meta_map_bytes(), mapped);
        memset(rest, 1, BYTES - 1088);
        char *more = meta_emergency_alloc(1); /* from the system */
        assert_true(meta_map_bytes() > mapped);
        meta_return(more, 1);
        assert_int_equal(meta_map_bytes(), mapped);
        assert_false(meta_emergency_end());
    }
    meta_emergency_begin();
    assert_true(meta_emergency_end());
    meta_return(before, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons), cmocka_unit_test(test_signals),  cmocka_unit_test(test_handlers_stay),
        cmocka_unit_test(test_events),  cmocka_unit_test(test_failures), cmocka_unit_test(test_set_aside),
        cmocka_unit_test(test_outside), cmocka_unit_test(test_outside_without_wait), cmocka_unit_test(test_outside_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
