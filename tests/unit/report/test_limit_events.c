/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of limits: when the callback is called, and with which figures. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "policy/limits.h"
#include "report/limit_events.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,limit_interval_ms:10";

static struct thread *self;
static uint32_t context;

/* ---- What was told ---- */

enum { TOLD_MAX = 64 };
static struct jespan_limit_event told[TOLD_MAX];
static char told_path[TOLD_MAX][64];
static uint64_t told_ms[TOLD_MAX];
static int n_told, unset_error;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(const struct jespan_limit_event *event, void *user)
{
    assert_ptr_equal(user, &context);
    pthread_mutex_lock(&mutex);
    if (n_told < TOLD_MAX) {
        told[n_told] = *event;
        told_ms[n_told] = clock_ns(CLOCK_MONOTONIC) / 1000000;
        strncpy(told_path[n_told], event->path, sizeof told_path[0] - 1);
        n_told++;
    }
    unset_error = jespan_set_limit_callback(NULL, NULL);
    pthread_mutex_unlock(&mutex);
}

static int count_told(void)
{
    pthread_mutex_lock(&mutex);
    int n = n_told;
    pthread_mutex_unlock(&mutex);
    return n;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Within 10 s, and then no more for a while. */
static void expect_told(int n)
{
    for (int i = 0; count_told() < n && i < 1000; i++)
        sleep_ms(10);
    sleep_ms(60);
    assert_int_equal(count_told(), n);
}

/* ---- What happens ---- */

static void allocate(uint64_t bytes)
{
    uint32_t section = limits_begin(self);
    counters_add_alloc(counters_get(self, context), bytes, bytes);
    limits_charge_anyway(limits_of(context), 0, bytes);
    limits_end(self, section);
}

static void release(uint64_t bytes)
{
    track_count_frees(self, context, 1, bytes);
}

static bool ask(uint64_t bytes)
{
    enum limits_answer answer = limits_hold(self, context, bytes, false);
    if (answer == LIMITS_HELD)
        limits_drop(self);
    return answer != LIMITS_REFUSED;
}

static int boot(void **state)
{
    static const struct jespan_site site = {"site", "", "", 1};
    const struct jespan_label label = {"tenant", "a"};
    (void)state;
    self = track_thread();
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
    jespan_enter(span);
    context = jespan_current();
    jespan_exit(span);
    return jespan_set_limit_callback(note, &context);
}

static int nothing(void **state)
{
    (void)state;
    struct totals t = tree_totals(context);
    release(totals_inuse_bytes(&t));
    assert_int_equal(jespan_set_limit(context, 0, 0), 0);
    sleep_ms(50);
    n_told = 0;
    return 0;
}

/* ---- Tests ---- */

static void test_a_crossing_is_told_once(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit(context, 8000, 0), 0);
    allocate(8000);
    expect_told(0);
    allocate(1);
    expect_told(1);
    for (int i = 0; i < 5; i++) { /* up and down around it */
        release(1000);
        sleep_ms(20);
        allocate(1000);
        sleep_ms(20);
    }
    expect_told(1);
    release(1001); /* 7000, seven eighths */
    expect_told(1);
    release(1);
    expect_told(2);
    allocate(2000);
    expect_told(3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told[i].kind, i == 1 ? JESPAN_LIMIT_SOFT_CLEARED : JESPAN_LIMIT_SOFT);
        assert_int_equal(told[i].context, context);
        assert_int_equal(told[i].limit_bytes, 8000);
        assert_int_equal(told[i].inuse_bytes, i == 0 ? 8001 : i == 1 ? 6999 : 8999);
        assert_int_equal(told[i].refusals, 0);
        assert_string_equal(told_path[i], "site{tenant=a}");
    }
    assert_int_equal(unset_error, EDEADLK);
}

/* The first at once, what follows a second later, in one. */
static void test_refusals_are_told_together(void **state)
{
    uint64_t refusals = 1;
    (void)state;
    assert_int_equal(jespan_set_limit(context, 0, 1000), 0);
    allocate(1000);
    assert_false(ask(1));
    expect_told(1);
    for (int i = 0; i < 99; i++)
        assert_false(ask(1));
    for (int i = 1; refusals < 100; i++) {
        expect_told(i + 1);
        assert_true(told_ms[i] - told_ms[i - 1] >= 990);
        refusals += told[i].refusals;
    }
    assert_int_equal(refusals, 100);
    assert_int_equal(told[0].refusals, 1);
    for (int i = 0; i < count_told(); i++) {
        assert_int_equal(told[i].kind, JESPAN_LIMIT_HARD);
        assert_int_equal(told[i].limit_bytes, 1000);
        assert_int_equal(told[i].inuse_bytes, 1000);
    }
    int n = count_told();
    sleep_ms(1200);
    expect_told(n);
}

/* When the call that puts another in its place returns, the former is not running. */
static _Atomic bool slow_runs, slow_ended;

static void slow(const struct jespan_limit_event *event, void *user)
{
    (void)event;
    (void)user;
    slow_runs = true;
    sleep_ms(300);
    slow_ended = true;
}

static void test_the_former_callback_has_ended(void **state)
{
    (void)state;
    assert_int_equal(jespan_set_limit_callback(slow, NULL), 0);
    assert_int_equal(jespan_set_limit(context, 10, 0), 0);
    allocate(11);
    while (!slow_runs)
        sleep_ms(1);
    assert_int_equal(jespan_set_limit_callback(note, &context), 0);
    assert_true(slow_ended);
    expect_told(0);
    release(2);
    release(9);
    expect_told(1);
}

/* limit_interval_ms is for soft limits: what was refused is told a second after the last event, or when the process ends. Not with
 * ThreadSanitizer: the test writes the configuration, which is read meanwhile, and ends the thread, which nobody joins. */
#ifndef __SANITIZE_THREAD__
static void test_refusals_before_the_end_are_told(void **state)
{
    uint64_t refusals = 0;
    (void)state;
    conf.limit_interval_ms = 86400000;
    assert_int_equal(jespan_set_limit(context, 0, 1000), 0);
    allocate(1000);
    assert_false(ask(1));
    expect_told(1);
    assert_false(ask(1));
    expect_told(2);
    for (int i = 0; i < 3; i++)
        assert_false(ask(1));
    limit_events_ask_to_stop();
    limit_events_wait(UINT64_MAX / 2);
    for (int i = 0; i < count_told(); i++)
        refusals += told[i].refusals;
    assert_int_equal(refusals, 5);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_crossing_is_told_once, nothing),
        cmocka_unit_test_teardown(test_refusals_are_told_together, nothing),
        cmocka_unit_test_teardown(test_the_former_callback_has_ended, nothing),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_refusals_before_the_end_are_told),
#endif
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
