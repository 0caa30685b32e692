/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own reporters: registration, and a thread for each that makes rounds.
 *
 * Only a registration's thread uses its session. Everything else is under the mutex, which is never held during a
 * callback or a snapshot. fork does not wait for the mutex: the child gets a new one, and no registrations.
 */
#include "report/reporters.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/forked.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/background.h"
#include "report/module.h"
#include "report/reporter_session.h"
#include "span/span.h"

struct registration {
    struct reporter_session session;
    uint64_t interval_ns, started_ns; /* constant while it runs */
    /* Under mutex: */
    uint64_t busy_since;  /* start of the present round. 0: between rounds */
    uint64_t serial;      /* the value of the handle. 0: this entry is free */
    uint64_t asked, done; /* number of rounds */
    bool stopping;
    pthread_cond_t wake;
};

static struct registration registrations[JESPAN_MAX_REPORTERS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a round is done, or a registration is free */
static _Atomic uint64_t last_serial; /* written under mutex. 0: there was no registration yet */
static bool at_end; /* the process ends: no new registrations */

static const struct jespan_reporter *configured[JESPAN_MAX_REPORTERS]; /* constant after boot */
static THREAD_LOCAL const struct registration *serving;                /* by this thread */

#define REGISTRATIONS_END (registrations + JESPAN_MAX_REPORTERS)

/* ---- On the thread of a registration ---- */

/* How many rounds were due until then. */
static uint64_t ticks(const struct registration *r, uint64_t at_ns)
{
    return r->interval_ns ? (at_ns - r->started_ns) / r->interval_ns : 0;
}

static uint64_t ticks_now(const struct registration *r)
{
    return ticks(r, clock_ns(CLOCK_MONOTONIC));
}

/* Serves all requests that came before the round begins. */
static void make_round(struct registration *r)
{
    pthread_mutex_lock(&mutex);
    uint64_t asked = r->asked;
    r->busy_since = clock_ns(CLOCK_MONOTONIC);
    pthread_mutex_unlock(&mutex);
    reporter_session_round(&r->session);
    pthread_mutex_lock(&mutex);
    reporter_session_count_misses(ticks_now(r) - ticks(r, r->busy_since));
    r->busy_since = 0;
    r->done = asked;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* False: the registration ends. */
static bool wait_for_round(struct registration *r)
{
    uint64_t due = r->interval_ns ? r->started_ns + (ticks_now(r) + 1) * r->interval_ns : UINT64_MAX;
    pthread_mutex_lock(&mutex);
    while (!r->stopping && r->asked == r->done && background_wait(&r->wake, &mutex, due))
        ;
    bool go_on = !r->stopping;
    pthread_mutex_unlock(&mutex);
    return go_on;
}

static void release(struct registration *r)
{
    reporter_session_close(&r->session);
    pthread_mutex_lock(&mutex);
    r->serial = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void *serve(void *registration)
{
    struct registration *r = registration;
    char name[sizeof r->session.name + 8];
    snprintf(name, sizeof name, "jespan:%s", r->session.name);
    background_begin(name);
    serving = r;
    if (reporter_session_init(&r->session)) {
        r->started_ns = clock_ns(CLOCK_MONOTONIC);
        while (wait_for_round(r))
            make_round(r);
        make_round(r);
        reporter_session_shutdown(&r->session);
    }
    release(r);
    return NULL;
}

/* ---- Registering ---- */

/* Under mutex. Returns 0 or a negative errno. */
static int claim(struct registration **claimed, const struct jespan_reporter *reporter, uint64_t interval_ms)
{
    struct registration *r = registrations;
    while (r < REGISTRATIONS_END && r->serial)
        r++;
    if (at_end || r == REGISTRATIONS_END)
        return at_end ? -ESHUTDOWN : -ENOSPC;
    uint64_t serial = load_relaxed(&last_serial) + 1;
    store_relaxed(&last_serial, serial); /* before the entry: a child forked in between must clear it */
    atomic_thread_fence(memory_order_release);
    *r = (struct registration){.serial = serial, .wake = PTHREAD_COND_INITIALIZER};
    reporter_session_set(&r->session, reporter);
    r->interval_ns = (interval_ms < UINT32_MAX ? interval_ms : UINT32_MAX) * 1000000u;
    *claimed = r;
    return 0;
}

/* Once it is claimed, a registration may be asked to stop, even before its thread runs. */
static int add(const struct jespan_reporter *reporter, uint64_t interval_ms, uint64_t *serial)
{
    struct registration *r = NULL;
    if (!track_thread()) /* boots jespan if this is the first use */
        return -ENOMEM;
    pthread_mutex_lock(&mutex);
    int error = claim(&r, reporter, interval_ms);
    *serial = error ? 0 : r->serial;
    pthread_mutex_unlock(&mutex);
    if (error)
        return error;
    error = reporter_session_open(&r->session);
    if (!error)
        error = background_start(serve, r);
    if (error)
        release(r);
    return error;
}

EXPORT jespan_registration_t *jespan_register_reporter(const struct jespan_reporter *reporter, uint64_t interval_ms)
{
    uint64_t serial = 0;
    int error = reporter && reporter_session_knows(reporter) ? add(reporter, interval_ms, &serial) : -EINVAL;
    if (!error)
        return (jespan_registration_t *)(uintptr_t)serial;
    errno = -error;
    return NULL;
}

/* ---- Asking and waiting, under mutex ---- */

static void ask_to_stop(struct registration *r)
{
    r->stopping = true;
    pthread_cond_signal(&r->wake);
}

/* Waits until the registration is free or has made that number of rounds. UINT64_MAX rounds: until it is free. */
static int wait_for(const struct registration *r, uint64_t serial, uint64_t rounds, uint64_t until_ns)
{
    bool in_time = true;
    while (r->serial == serial && r->done < rounds && in_time)
        in_time = background_wait(&changed, &mutex, until_ns);
    return r->serial == serial && r->done < rounds ? ETIMEDOUT : 0;
}

static int unregister(uint64_t serial)
{
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++)
        if (serial && r->serial == serial) {
            ask_to_stop(r);
            return wait_for(r, serial, UINT64_MAX, background_deadline(conf.shutdown_timeout_ms));
        }
    return EINVAL;
}

static int flush(uint64_t timeout_ms)
{
    struct {
        uint64_t serial, rounds;
    } wanted[JESPAN_MAX_REPORTERS];
    uint64_t until_ns = background_deadline(timeout_ms);
    int i = 0, error = 0;
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++) {
        wanted[i].serial = r->serial;
        wanted[i++].rounds = ++r->asked;
        pthread_cond_signal(&r->wake);
    }
    i = 0;
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++) {
        if (wanted[i].serial && wait_for(r, wanted[i].serial, wanted[i].rounds, until_ns))
            error = ETIMEDOUT;
        i++;
    }
    return error;
}

/* Cancellation is disabled: a thread that is cancelled while it waits would keep the mutex. */
static int under_mutex(int (*act)(uint64_t), uint64_t argument)
{
    int cancel;
    if (serving)
        return EDEADLK;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&mutex);
    int error = act(argument);
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(cancel, NULL);
    return error;
}

EXPORT int jespan_unregister_reporter(jespan_registration_t *registration)
{
    return under_mutex(unregister, (uintptr_t)registration);
}

EXPORT int jespan_flush_reporters(uint64_t timeout_ms)
{
    return under_mutex(flush, timeout_ms);
}

/* ---- Start and end of the process ---- */

/* A module that is named twice is loaded once. */
static void load(const char *name)
{
    const struct jespan_reporter *reporter = module_find_reporter(name);
    unsigned i = 0;
    while (i < JESPAN_MAX_REPORTERS && configured[i] && configured[i] != reporter)
        i++;
    if (reporter && !reporter_session_knows(reporter))
        WARN("reporter ", name, ": its module is of another version of jespan, or has no name; it is left out");
    else if (i < JESPAN_MAX_REPORTERS)
        configured[i] = reporter;
    else
        WARN("reporter ", name, ": there are 16 reporters already; it is left out");
}

static void load_configured(void)
{
    char names[CONF_STRING_BYTES], *rest = strcpy(names, conf.reporters);
    struct thread *t = track_thread();
    bool inside = t && span_enter_self(t) == 0;
    for (const char *name; (name = list_take(&rest));)
        load(name);
    if (inside)
        span_leave_self(t);
}

bool reporters_want_threads(void)
{
    return configured[0];
}

void reporters_start_threads(void)
{
    uint64_t serial;
    for (unsigned i = 0; i < JESPAN_MAX_REPORTERS && configured[i]; i++) {
        int error = add(configured[i], conf.reporter_interval_ms, &serial);
        if (error)
            WARN("reporter ", configured[i]->name, " cannot start: ", errno_text(-error));
    }
}

/* A thread that enters a span tries out its CPU clock. Without configured reporters, no span is entered. */
void reporters_boot(void)
{
    if (conf.reporters[0])
        load_configured();
}

void reporters_ask_to_stop(void)
{
    pthread_mutex_lock(&mutex);
    at_end = true;
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++)
        ask_to_stop(r);
    pthread_mutex_unlock(&mutex);
}

void reporters_wait(uint64_t until_ns)
{
    pthread_mutex_lock(&mutex);
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++)
        if (r->serial && r != serving && wait_for(r, r->serial, UINT64_MAX, until_ns))
            WARN("reporter ", r->session.name, " took longer than shutdown_timeout_ms and is given up");
    pthread_mutex_unlock(&mutex);
}

COLD void reporters_after_fork(void)
{
    for (struct registration *r = registrations; load_relaxed(&last_serial) && r < REGISTRATIONS_END; r++) {
        if (load_relaxed(&r->session.told) || load_relaxed(&r->session.snapshot))
            reporter_session_close(&r->session);
        FORKED_CLEAR(*r);
    }
    FORKED_CLEAR(mutex);
    FORKED_CLEAR(changed);
    FORKED_CLEAR(at_end);
    FORKED_CLEAR(serving);
    reporter_session_after_fork();
}

/* Misses of the present rounds are added here. reporter_session_misses() gets them when the rounds end. */
uint64_t reporters_misses(void)
{
    pthread_mutex_lock(&mutex);
    uint64_t n = reporter_session_misses();
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++)
        if (r->serial && r->busy_since)
            n += ticks_now(r) - ticks(r, r->busy_since);
    pthread_mutex_unlock(&mutex);
    return n;
}

uint64_t reporters_count(void)
{
    uint64_t n = 0;
    pthread_mutex_lock(&mutex);
    for (struct registration *r = registrations; r < REGISTRATIONS_END; r++)
        n += r->serial != 0;
    pthread_mutex_unlock(&mutex);
    return n;
}
