/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own threads, and workers. */
#include "report/background.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "malloc/track.h"
#include "report/last_thread.h"
#include "span/span.h"

/* A new thread inherits the signal mask of its creator. All signals are blocked while it is created, so it never takes
 * a signal of the program. */
static int create_thread(pthread_t *joinable, void *(*run)(void *), void *argument)
{
    pthread_t detached;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, joinable ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, BACKGROUND_STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(joinable ? joinable : &detached, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

static int start(pthread_t *joinable, void *(*run)(void *), void *argument)
{
    int saved = errno;
    struct thread *t = track_thread();
    bool inside = t && span_enter_self(t) == 0; /* the thread's stack counts as jespan's memory */
    int error = create_thread(joinable, run, argument);
    if (inside)
        span_leave_self(t);
    errno = saved;
    return error;
}

int background_start(void *(*run)(void *), void *argument)
{
    return start(NULL, run, argument);
}

void background_begin(const char *name)
{
    char cut[16];
    struct thread *t = track_thread();
    if (t)
        span_set_base(t, CONTEXT_ID_SELF);
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(pthread_self(), cut);
    last_thread_add_own();
}

uint64_t background_deadline(uint64_t after_ms)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    return after_ms > (UINT64_MAX - now) / 1000000u ? UINT64_MAX : now + after_ms * 1000000u;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

bool background_wait(pthread_cond_t *wake, pthread_mutex_t *mutex, uint64_t until_ns)
{
    const struct timespec until = timespec_of(until_ns);
    return pthread_cond_clockwait(wake, mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

/* ---- Workers ---- */

static void *worker_main(void *worker)
{
    struct worker *w = worker;
    background_begin(w->name);
    w->run(w);
    pthread_mutex_lock(&w->mutex);
    w->running = false;
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

int worker_start(struct worker *w, const char *name, void (*run)(struct worker *w))
{
    *w = (struct worker){.name = name, .run = run, .running = true, .mutex = PTHREAD_MUTEX_INITIALIZER,
                         .wake = PTHREAD_COND_INITIALIZER};
    int error = start(&w->thread, worker_main, w);
    w->joinable = !error;
    if (error)
        w->running = false;
    return error;
}

bool worker_sleep(struct worker *w, uint64_t until_ns)
{
    pthread_mutex_lock(&w->mutex);
    while (!w->stopping && background_wait(&w->wake, &w->mutex, until_ns))
        ;
    bool go_on = !w->stopping;
    pthread_mutex_unlock(&w->mutex);
    return go_on;
}

void worker_ask_to_stop(struct worker *w)
{
    if (!w->running)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

bool worker_wait(struct worker *w, uint64_t until_ns)
{
    const struct timespec until = timespec_of(until_ns);
    if (w->joinable)
        w->joinable = pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    return !w->joinable;
}

COLD bool worker_after_fork(struct worker *w)
{
    bool had_one = w->running;
    if (had_one || w->joinable)
        w->running = w->joinable = false;
    return had_one;
}
