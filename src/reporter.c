/* SPDX-License-Identifier: BSD-2-Clause */
/* The reporter: wakes for each dump, and once more at the end. */
#include "reporter.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "conf.h"
#include "die.h"
#include "dump.h"
#include "jespan/jespan.h"
#include "span.h"
#include "track.h"

#define STACK_BYTES ((size_t)256 * 1024)

static pthread_mutex_t mutex;
static pthread_cond_t wake, ended; /* on the monotonic clock */
static bool running, stopping;     /* mutex */

static struct timespec deadline(uint64_t after_ns)
{
    uint64_t at = clock_ns(CLOCK_MONOTONIC) + after_ns;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
}

/* Under mutex. Sleeps until the next dump is due or the end has come. */
static void wait_for_work(void)
{
    if (!conf.dump_interval_s) {
        pthread_cond_wait(&wake, &mutex);
        return;
    }
    struct timespec until = deadline(conf.dump_interval_s * 1000000000u);
    while (!stopping && pthread_cond_timedwait(&wake, &mutex, &until) != ETIMEDOUT)
        ;
}

static void *reporter_main(void *unused)
{
    (void)unused;
    struct thread *t = track_thread();
    if (t)
        span_set_base(t, CONTEXT_ID_SELF);
    pthread_mutex_lock(&mutex);
    while (!stopping) {
        wait_for_work();
        if (stopping)
            break;
        pthread_mutex_unlock(&mutex);
        dump_next();
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    if (conf.dump_at_exit)
        dump_next();
    pthread_mutex_lock(&mutex);
    running = false;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void make_primitives(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&wake, &attributes);
    pthread_cond_init(&ended, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* A new thread inherits its creator's signal mask: with all blocked from the start it never takes a signal of the
 * program's. */
static int create_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, reporter_main, NULL);
    if (!error)
        pthread_setname_np(thread, "jespan");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

void reporter_start(void)
{
    if (!conf.dump_dir[0] || (!conf.dump_interval_s && !conf.dump_at_exit))
        return;
    int saved = errno;
    make_primitives();
    stopping = false;
    running = true;
    jespan_context_t previous = jespan_attach(CONTEXT_ID_SELF); /* the thread's stack and the like are ours */
    int error = create_thread();
    if (previous != JESPAN_INVALID)
        jespan_attach(previous);
    if (error) {
        running = false;
        WARN("the reporter thread cannot start: ", errno_text(error), "; no dumps are written");
    }
    errno = saved;
}

void reporter_stop(void)
{
    if (!running)
        return;
    struct timespec until = deadline(conf.shutdown_timeout_ms * 1000000u);
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_cond_signal(&wake);
    while (running && pthread_cond_timedwait(&ended, &mutex, &until) != ETIMEDOUT)
        ;
    bool late = running;
    pthread_mutex_unlock(&mutex);
    if (late)
        WARN("the last heap dump took longer than shutdown_timeout_ms and is given up");
}

void reporter_after_fork(void)
{
    bool had_one = running;
    running = false;
    if (had_one && conf.follow_fork)
        reporter_start();
}
