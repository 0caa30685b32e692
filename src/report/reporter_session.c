/* SPDX-License-Identifier: BSD-2-Clause */
/* One registered reporter, and the figures that it was told. */
#include "report/reporter_session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/forked.h"
#include "conf/conf.h"

static _Atomic uint64_t misses, errors;
FIGURE_ROW(figure_errors, "spans.stats.reporter_errors", errors, FIGURE_NUMBER);
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* snapshots */

bool reporter_session_knows(const struct jespan_reporter *reporter)
{
    const size_t first_version = offsetof(struct jespan_reporter, shutdown) + sizeof reporter->shutdown;
    return reporter->size >= first_version && reporter->size <= sizeof *reporter && reporter->name && reporter->name[0];
}

void reporter_session_set(struct reporter_session *session, const struct jespan_reporter *reporter)
{
    memcpy(&session->reporter, reporter, reporter->size);
    snprintf(session->name, sizeof session->name, "%s", reporter->name);
}

int reporter_session_open(struct reporter_session *session)
{
    struct reporter_told *r = reporter_told_make((uint32_t)conf.max_contexts);
    store_relaxed(&session->told, r);
    return r ? 0 : -ENOMEM;
}

void reporter_session_close(struct reporter_session *session)
{
    reporter_told_free(atomic_exchange(&session->told, NULL));
    snapshot_free(atomic_exchange(&session->snapshot, NULL));
}

bool reporter_session_init(struct reporter_session *session)
{
    int error = session->reporter.init ? session->reporter.init(session->reporter.user) : 0;
    if (!error)
        return true;
    atomic_fetch_add_explicit(&errors, 1, memory_order_relaxed);
    WARN("reporter ", session->name, ": init failed: ", errno_text(error), "; it is left out");
    return false;
}

static void note(struct reporter_session *session, const char *what, int error)
{
    if (error)
        atomic_fetch_add_explicit(&errors, 1, memory_order_relaxed);
    if (error && !session->failing)
        WARN("reporter ", session->name, ": ", what, ": ", errno_text(error), "; further failures are only counted");
    session->failing = error != 0;
}

/* Snapshots take processor time from the program. So reporters and services take one at a time, each followed by a pause
 * as long as the snapshot took. */
struct snapshot *reporter_session_snapshot(struct snapshot *old)
{
    pthread_mutex_lock(&one_at_a_time);
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    struct snapshot *s = snapshot_retake(old);
    uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
    nanosleep(&(struct timespec){(time_t)(took_ns / 1000000000u), (long)(took_ns % 1000000000u)}, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return s;
}

static const struct snapshot *take(struct reporter_session *session)
{
    struct snapshot *old = atomic_exchange(&session->snapshot, NULL), *s = reporter_session_snapshot(old);
    store_relaxed(&session->snapshot, s ? s : old);
    return s;
}

void reporter_session_round(struct reporter_session *session)
{
    const struct snapshot *s = take(session);
    if (!s) {
        reporter_session_count_misses(1);
        return;
    }
    int labels = reporter_tell(load_relaxed(&session->told), s, &session->reporter);
    int flushed = session->reporter.flush ? session->reporter.flush(session->reporter.user) : 0;
    note(session, flushed ? "flush failed" : "labels are left out", flushed ? flushed : labels);
}

void reporter_session_shutdown(struct reporter_session *session)
{
    if (session->reporter.shutdown)
        session->reporter.shutdown(session->reporter.user);
}

void reporter_session_count_misses(uint64_t n)
{
    atomic_fetch_add_explicit(&misses, n, memory_order_relaxed);
}

uint64_t reporter_session_misses(void)
{
    return load_relaxed(&misses);
}

uint64_t reporter_session_errors(void)
{
    return load_relaxed(&errors);
}

COLD void reporter_session_after_fork(void)
{
    FORKED_CLEAR(one_at_a_time);
    FORKED_CLEAR(misses);
    FORKED_CLEAR(errors);
}
