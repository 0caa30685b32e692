/* SPDX-License-Identifier: BSD-2-Clause */
/* Reporters that are registered at run time. They are told everything while threads run, a slow one delays nobody,
 * errors are counted, and an unregistered one is not called any more. Exit, fork and modules are in
 * tests/integration. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/told.h"
#include "base/clock.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/reporter_session.h"
#include "report/reporters.h"
#include "snapshot/snapshot.h"
#include "span/span.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "max_contexts:64";

enum { THREADS = 3, PATIENCE_MS = 600000 };
static struct told told, other;

static int set_up(void **state)
{
    (void)state;
    memset(&told, 0, sizeof told);
    memset(&other, 0, sizeof other);
    conf.shutdown_timeout_ms = PATIENCE_MS;
    reporter_session_after_fork(); /* counts from 0 */
    return track_thread() && !reporters_count() ? 0 : -1;
}

static jespan_registration_t *start(struct told *t, uint64_t interval_ms)
{
    struct jespan_reporter r = told_reporter(t, "test");
    jespan_registration_t *handle = jespan_register_reporter(&r, interval_ms);
    memset(&r, 0xa5, sizeof r); /* it was copied */
    assert_non_null(handle);
    return handle;
}

static void end(jespan_registration_t *handle, const struct told *t)
{
    assert_int_equal(jespan_unregister_reporter(handle), 0);
    assert_int_equal(jespan_unregister_reporter(handle), EINVAL);
    assert_int_equal(t->shutdowns, 1);
    if (t->wrong)
        fail_msg("%s", t->wrong);
}

/* ---- All is told ---- */

static _Atomic bool stop;

static void *churn(void *argument)
{
    uintptr_t which = (uintptr_t)argument;
    void *held[7] = {0};
    for (unsigned n = 0; !stop; n++) {
        char text[24];
        snprintf(text, sizeof text, "%u.%u", (unsigned)which, n);
        JESPAN("request", "number", text);
        F(free)(held[n % 7]);
        held[n % 7] = F(malloc)(n % 2000);
        JESPAN("part");
        F(free)(F(malloc)(n % 100));
    }
    for (unsigned i = 0; i < 7; i++)
        F(free)(held[i]);
    return NULL;
}

static void churn_for(uint64_t ms)
{
    pthread_t threads[THREADS];
    stop = false;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    told_sleep_ms(ms);
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* To the byte. Only jespan's own threads ran meanwhile, which allocate nothing here. */
static void assert_all_was_told(const struct told *t)
{
    struct snapshot *s = snapshot_take();
    assert_int_equal(t->allocations.alloc_objects, s->all.alloc_objects);
    assert_int_equal(t->allocations.alloc_bytes, s->all.alloc_bytes);
    assert_int_equal(t->allocations.alloc_requested_bytes, s->all.alloc_requested_bytes);
    assert_int_equal(t->allocations.free_objects, s->all.free_objects);
    assert_int_equal(t->allocations.free_bytes, s->all.free_bytes);
    assert_int_equal(t->heap_objects, totals_inuse_objects(&s->all));
    assert_int_equal(t->heap_bytes, totals_inuse_bytes(&s->all));
    assert_int_equal(t->opened - t->closed, s->n_rows + 1);
    snapshot_free(s);
}

/* Whether enough was told: contexts came and went, over several rounds of each reporter. */
static bool much_was_told(void)
{
    return told.closed > 64 && told.spans[0].allocations.alloc_objects > 0 && told.rounds >= 3 && other.rounds >= 2;
}

static void test_all_is_told_while_threads_run(void **state)
{
    (void)state;
    jespan_registration_t *handle = start(&told, 1), *second = start(&other, 3);
    for (int i = 0; i < 20 && !much_was_told(); i++) { /* once, unless others have the processors */
        churn_for(500);
        assert_int_equal(jespan_flush_reporters(PATIENCE_MS), 0);
    }
    assert_true(much_was_told());
    assert_all_was_told(&told);
    assert_all_was_told(&other);
    end(handle, &told);
    end(second, &other);
}

/* Without an interval: what it has is what was there when it was asked, and at the end. */
static void test_rounds_on_request_only(void **state)
{
    (void)state;
    jespan_registration_t *handle = start(&told, 0);
    told_sleep_ms(20);
    assert_int_equal(told.rounds, 0);
    for (unsigned n = 1; n <= 5; n++) {
        void *p = F(malloc)(n * 1000);
        assert_int_equal(jespan_flush_reporters(PATIENCE_MS), 0);
        assert_int_equal(told.rounds, n);
        assert_all_was_told(&told);
        F(free)(p);
    }
    end(handle, &told);
    assert_int_equal(told.rounds, 6);
    assert_all_was_told(&told);
    assert_int_equal(reporter_session_misses(), 0);
}

/* ---- Who is slow, fails, or is stuck ---- */

static void await_rounds(struct told *t, uint64_t rounds)
{
    for (int ms = 0; t->rounds < rounds && ms < PATIENCE_MS; ms++)
        told_sleep_ms(1);
    assert_true(t->rounds >= rounds);
}

/* It does not come back before the program and the fast one have gone on for a while. */
static void test_a_slow_one_delays_nobody_and_its_misses_are_counted(void **state)
{
    (void)state;
    other.stuck = true;
    jespan_registration_t *slow = start(&other, 10), *fast = start(&told, 10);
    await_rounds(&other, 1);
    uint64_t began = clock_ns(CLOCK_MONOTONIC), rounds = told.rounds;
    alarm(PATIENCE_MS / 1000);
    for (unsigned n = 0; n < 10000 || told.rounds < rounds + 5; n++) {
        JESPAN("meanwhile");
        F(free)(F(malloc)(100));
    }
    alarm(0);
    uint64_t due = (clock_ns(CLOCK_MONOTONIC) - began) / 10000000;
    assert_int_equal(other.rounds, 1);
    other.stuck = false;
    end(fast, &told);
    end(slow, &other);
    assert_true(due > 2 && reporter_session_misses() >= due);
}

/* Returns the text that the action writes to stderr. */
static const char *said_by(void (*action)(void))
{
    static char text[2000];
    int saved = dup(STDERR_FILENO);
    FILE *to = tmpfile();
    assert_true(to && dup2(fileno(to), STDERR_FILENO) >= 0);
    action();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    return text;
}

static void wait_until_none(void)
{
    for (int ms = 0; reporters_count() && ms < PATIENCE_MS; ms++)
        told_sleep_ms(1);
    assert_int_equal(reporters_count(), 0);
}

static void start_failing(void)
{
    told.init_error = EACCES;
    start(&told, 1);
    wait_until_none();
}

static void test_a_failing_init_ends_it(void **state)
{
    (void)state;
    assert_string_equal(said_by(start_failing), "jespan: reporter test: init failed: Permission denied; it is left out\n");
    assert_int_equal(reporter_session_errors(), 1);
    assert_int_equal(told.inits, 1);
    assert_int_equal(told.rounds + told.opened + told.shutdowns, 0);
    assert_null(told.wrong);
}

static void fail_three_times_twice(void)
{
    jespan_registration_t *handle = start(&told, 0);
    for (int i = 0; i < 8; i++) {
        told.flush_error = i % 4 ? ENOSPC : 0;
        assert_int_equal(jespan_flush_reporters(PATIENCE_MS), 0);
        assert_all_was_told(&told);
    }
    told.flush_error = 0;
    end(handle, &told);
}

static void test_a_failing_flush_is_counted_and_said_once_in_a_row(void **state)
{
    const char *line = "jespan: reporter test: flush failed: No space left on device; further failures are only counted\n";
    char twice[400];
    (void)state;
    snprintf(twice, sizeof twice, "%s%s", line, line);
    assert_string_equal(said_by(fail_three_times_twice), twice);
    assert_int_equal(reporter_session_errors(), 6);
}

static void test_waiting_for_a_stuck_one_has_a_limit(void **state)
{
    (void)state;
    conf.shutdown_timeout_ms = 50;
    told.stuck = true;
    jespan_registration_t *handle = start(&told, 1), *second = start(&other, 0);
    await_rounds(&told, 1);
    assert_int_equal(jespan_flush_reporters(50), ETIMEDOUT);
    assert_int_equal(jespan_flush_reporters(0), ETIMEDOUT);
    await_rounds(&other, 1); /* it waits for nobody */
    assert_int_equal(jespan_unregister_reporter(handle), ETIMEDOUT);
    assert_int_equal(told.shutdowns, 0);
    assert_int_equal(reporters_count(), 2);
    told.stuck = false;
    conf.shutdown_timeout_ms = PATIENCE_MS;
    end(second, &other);
    wait_until_none();
    assert_int_equal(jespan_unregister_reporter(handle), EINVAL);
    assert_int_equal(told.shutdowns, 1);
}

/* ---- Registering ---- */

static void expect_refused(const struct jespan_reporter *r, int error)
{
    errno = 0;
    assert_null(jespan_register_reporter(r, 1));
    assert_int_equal(errno, error);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    struct jespan_reporter r = told_reporter(&told, "test");
    expect_refused(NULL, EINVAL);
    r.size = sizeof r + 8; /* of a later version */
    expect_refused(&r, EINVAL);
    r.size = sizeof r - 1;
    expect_refused(&r, EINVAL);
    r.size = 0;
    expect_refused(&r, EINVAL);
    r.size = sizeof r;
    r.name = NULL;
    expect_refused(&r, EINVAL);
    r.name = "";
    expect_refused(&r, EINVAL);
    assert_int_equal(jespan_unregister_reporter(NULL), EINVAL);
    assert_int_equal(jespan_unregister_reporter((void *)&told), EINVAL);
    assert_int_equal(jespan_flush_reporters(PATIENCE_MS), 0);
    assert_int_equal(reporters_count(), 0);
}

static void test_there_is_room_for_so_many(void **state)
{
    jespan_registration_t *handles[JESPAN_MAX_REPORTERS];
    const struct jespan_reporter r = {.size = sizeof r, .name = "a name that is longer than what is kept of it"};
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < JESPAN_MAX_REPORTERS; i++)
            assert_non_null(handles[i] = jespan_register_reporter(&r, 1));
        expect_refused(&r, ENOSPC);
        assert_int_equal(reporters_count(), JESPAN_MAX_REPORTERS);
        for (int i = 0; i < JESPAN_MAX_REPORTERS; i++)
            assert_int_equal(jespan_unregister_reporter(handles[i]), 0);
        assert_int_equal(reporters_count(), 0);
        assert_int_equal(jespan_unregister_reporter(handles[0]), EINVAL);
    }
}

/* Come and go while threads run, from several threads, with others that flush. */
static void *come_and_go(void *argument)
{
    struct told *t = calloc(1, sizeof *t);
    for (int i = 0; i < 20; i++) {
        memset(t, 0, sizeof *t);
        jespan_registration_t *handle = start(t, (uintptr_t)argument);
        if (i % 2)
            jespan_flush_reporters(PATIENCE_MS);
        if (i % 3)
            told_sleep_ms(2);
        end(handle, t);
    }
    free(t);
    return NULL;
}

static void test_come_and_go_while_threads_run(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
    churn_for(200);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(reporters_count(), 0);
}

/* ---- In a callback ---- */

static jespan_registration_t *own;
static int answers[3];
static jespan_context_t context;

static void use_everything(struct told *t)
{
    uint64_t value = 0, size = sizeof value;
    if (t->rounds)
        return;
    context = jespan_current();
    JESPAN("in a callback", "round", "first");
    F(free)(F(malloc)(100));
    answers[0] = F(mallctl)("spans.all.inuse_bytes", &value, &size, NULL, 0);
    answers[1] = jespan_flush_reporters(PATIENCE_MS);
    answers[2] = jespan_unregister_reporter(own);
}

static void test_a_callback_may_do_anything_but_wait_for_itself(void **state)
{
    (void)state;
    told.in_flush = use_everything;
    own = start(&told, 0);
    assert_int_equal(jespan_flush_reporters(PATIENCE_MS), 0);
    assert_int_equal(context, CONTEXT_ID_SELF);
    assert_int_equal(answers[0], 0);
    assert_int_equal(answers[1], EDEADLK);
    assert_int_equal(answers[2], EDEADLK);
    end(own, &told);
    assert_all_was_told(&told);
}

#define REPORTER_TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REPORTER_TEST(test_all_is_told_while_threads_run),
        REPORTER_TEST(test_rounds_on_request_only),
        REPORTER_TEST(test_a_slow_one_delays_nobody_and_its_misses_are_counted),
        REPORTER_TEST(test_a_failing_init_ends_it),
        REPORTER_TEST(test_a_failing_flush_is_counted_and_said_once_in_a_row),
        REPORTER_TEST(test_waiting_for_a_stuck_one_has_a_limit),
        REPORTER_TEST(test_wrong_arguments),
        REPORTER_TEST(test_there_is_room_for_so_many),
        REPORTER_TEST(test_come_and_go_while_threads_run),
        REPORTER_TEST(test_a_callback_may_do_anything_but_wait_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
