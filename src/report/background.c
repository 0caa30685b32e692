/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own threads, and workers. */
#include "report/background.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/forked.h"
#include "base/futex.h"
#include "base/number.h"
#include "base/process_stat.h"
#include "conf/conf.h"
#include "heap/thread.h"
#include "malloc/track.h"
#include "report/dump_timer.h"
#include "span/span.h"

/* glibc takes the thread-local variables of all libraries out of the stack, so their size is added. */
static size_t stack_bytes = BACKGROUND_STACK_BYTES;

static int add_tls(struct dl_phdr_info *object, size_t unused, void *sum)
{
    (void)unused;
    for (unsigned i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
    return 0;
}

/* Libraries that are loaded later get what glibc has set aside for them, or memory elsewhere. This is not done when a thread is
 * created: the loader's lock may be held then, and locks of ours. */
void background_boot(void)
{
    size_t bytes = BACKGROUND_STACK_BYTES;
    dl_iterate_phdr(add_tls, &bytes);
    stack_bytes = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

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
    pthread_attr_setstacksize(&attributes, stack_bytes);
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

/* ---- The end of a process in which only jespan's threads are left ---- */

#define NS_PER_MS 1000000u
#define LONGEST_PAUSE_MS 1024 /* the end of a thread that never allocated wakes nobody, so the number is read again */
#define ONE_OWN ((uint64_t)1 << 32 | 1) /* one change, and one thread more */

/* The number of jespan's threads in the lower half, the number of changes in the upper half. */
static _Atomic uint64_t own;

static pthread_key_t key;
static bool has_key;
static char of_main, of_own; /* values of the key: the main thread, a thread of jespan */
static _Atomic bool main_has_ended, is_watching;
static sigset_t main_mask; /* before main_has_ended */

/* ---- The thread that waits ---- */

/* Returns the number of threads with the main thread, if the main thread has ended. Returns 0 if it has not ended or
 * the number (num_threads) is unknown. */
static uint32_t threads_without_main(void)
{
    struct process_stat stat;
    return process_stat_read(&stat, 0) && process_stat_state(&stat) == 'Z' ? (uint32_t)process_stat_number(&stat, 20) : 0;
}

/* A thread of jespan that is not counted yet, or no longer, counts as one of the program's threads. */
static bool only_own_are_left(void)
{
    uint64_t before = atomic_load(&own);
    uint32_t all = threads_without_main();
    return all && all - 1 == (uint32_t)before && atomic_load(&own) == before;
}

static void wait_for_others(void)
{
    uint64_t pause_ms = 1;
    while (!only_own_are_left()) {
        uint32_t ends = load_acquire(&thread_ends);
        futex_wait(&thread_ends, ends, background_deadline(pause_ms));
        pause_ms = load_acquire(&thread_ends) != ends ? 1 : pause_ms < LONGEST_PAUSE_MS ? 2 * pause_ms : pause_ms;
    }
}

/* exit() runs the program's handlers on this thread. So their memory counts for the program, and signals reach them as
 * they reached the main thread. */
static void *watch(void *unused)
{
    (void)unused;
    background_begin("jespan:end");
    wait_for_others();
    struct thread *t = track_thread();
    if (t)
        span_set_base(t, CONTEXT_ID_ROOT);
    dump_timer_dump_before_destructors(background_deadline(conf.shutdown_timeout_ms));
    pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
    exit(0);
}

static void start_watching(void)
{
    if (atomic_exchange(&is_watching, true))
        return;
    store_release(&thread_ends_awaited, true);
    int error = background_start(watch, NULL);
    if (error)
        WARN("the thread that ends the process after its main thread cannot start: ", errno_text(-error),
             "; the process must be ended by exit() or SIGKILL");
}

/* ---- Threads that begin and end ---- */

/* This function and last_thread_add_own() each write before they read, so at least one of them sees the write of the
 * other. */
static void end(void *whose)
{
    if (whose == &of_own) {
        atomic_fetch_add(&own, ONE_OWN - 2);
        return;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &main_mask);
    atomic_store(&main_has_ended, true);
    if ((uint32_t)atomic_load(&own))
        start_watching();
}

void last_thread_add_own(void)
{
    if (!has_key || pthread_setspecific(key, &of_own))
        return;
    atomic_fetch_add(&own, ONE_OWN);
    if (atomic_load(&main_has_ended))
        start_watching();
}

void last_thread_boot(void)
{
    has_key = pthread_key_create(&key, end) == 0;
    if (has_key && gettid() == getpid())
        pthread_setspecific(key, &of_main);
}

/* The thread that forked is the child's main thread. */
COLD void last_thread_after_fork(void)
{
    FORKED_CLEAR(own);
    FORKED_CLEAR(main_has_ended);
    FORKED_CLEAR(is_watching);
    FORKED_CLEAR(thread_ends_awaited);
    if (has_key)
        pthread_setspecific(key, &of_main);
}
