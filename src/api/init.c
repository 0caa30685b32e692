/* SPDX-License-Identifier: BSD-2-Clause */
/* Start and end of the process. What allocation itself needs was booted by the first allocation (boot.c); the rest
 * waits until libc is up, which is when constructors run. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/background.h"
#include "report/dump.h"
#include "report/dump_timer.h"
#include "report/dump_watch.h"
#include "report/last_thread.h"
#include "report/limit_events.h"
#include "report/reporters.h"
#include "report/services.h"
#include "report/unfollowed.h"
#include "snapshot/snapshot.h"
#include "span/span.h"

/* ---- Before static destructors ---- */

/* exit() runs the destructors of its own thread's thread_local objects before all that atexit() and static objects have
 * registered, however late. The end of the main thread by pthread_exit() does not run them. */
int __cxa_thread_atexit_impl(void (*run)(void *), void *object, void *in_library);

static THREAD_LOCAL bool is_registered;
static uint64_t waited_ms; /* for this dump */

static void before_destructors(void *unused)
{
    (void)unused;
    uint64_t begun = clock_ns(CLOCK_MONOTONIC);
    dump_timer_dump_before_destructors(background_deadline(conf.shutdown_timeout_ms));
    waited_ms = (clock_ns(CLOCK_MONOTONIC) - begun) / 1000000u;
}

/* Of the main thread alone: others may end without exit(). */
static void register_before_destructors(void)
{
    static char in_library;
    bool is_wanted = conf.dump_dir[0] && (conf.dump_at_exit == DUMP_AT_EXIT_TRUE || conf.dump_at_exit == DUMP_AT_EXIT_BOTH);
    if (!is_wanted || is_registered || gettid() != getpid())
        return;
    struct thread *t = track_thread();
    bool inside = t && span_enter_self(t) == 0; /* it allocates */
    is_registered = __cxa_thread_atexit_impl(before_destructors, NULL, &in_library) == 0;
    if (inside)
        span_leave_self(t);
}

/* ---- Start and end ---- */

static void after_fork_in_parent(void)
{
    unfollowed_note_fork();
    services_after_fork_in_parent();
}

/* After that of boot.c, in the order of registration. */
static void after_fork_in_child(void)
{
    unfollowed_after_fork();
    last_thread_after_fork();
    dump_after_fork();
    if (conf.follow_fork)
        register_before_destructors();
    dump_timer_after_fork();
    dump_watch_after_fork();
    reporters_after_fork();
    limit_events_after_fork();
    services_after_fork_in_child();
}

/* The end of the process has one limit, whoever waits; what the program's own destructors take does not count. */
static uint64_t end_by_ns(void)
{
    static uint64_t ns;
    if (!ns)
        ns = background_deadline(conf.shutdown_timeout_ms > waited_ms ? conf.shutdown_timeout_ms - waited_ms : 0);
    return ns;
}

static void stop_services(void)
{
    services_stop(end_by_ns());
}

/* What was given to atexit() later runs earlier. */
static void end_services_before_others(void)
{
    atexit(stop_services);
}

/* A wrong free among the last few would otherwise go unseen. */
static void at_exit(void)
{
    struct thread *t = track_thread();
    if (t)
        track_flush_any(t);
    track_check_waiting();
    uint64_t until_ns = end_by_ns();
    dump_timer_ask_to_stop();
    dump_watch_ask_to_stop();
    reporters_ask_to_stop();
    limit_events_ask_to_stop();
    dump_timer_wait(until_ns);
    dump_watch_wait(until_ns);
    services_stop(until_ns);
    reporters_wait(until_ns);
    limit_events_wait(until_ns);
}

static __attribute__((constructor)) void start(void)
{
    if (!track_thread())
        return; /* no memory: malloc says so */
    snapshot_start_clock();
    last_thread_boot();
    pthread_atfork(services_before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
    if (conf.dump_dir[0])
        dump_prepare();
    register_before_destructors();
    dump_timer_start();
    dump_watch_start();
    reporters_boot();
    limit_events_boot();
    services_boot(end_services_before_others);
}
