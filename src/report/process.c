/* SPDX-License-Identifier: BSD-2-Clause */
/* Start, fork and end of the process: one table of everything that has threads or state of its own here.
 *
 * malloc/boot.c starts what allocation needs, at the first allocation. The table starts the rest from a constructor,
 * when libc works, and threads later (late_start.h). All rows share one time limit at the end of the process: shutdown_timeout_ms.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/background.h"
#include "report/alert_watch.h"
#include "report/dump.h"
#include "report/dump_timer.h"
#include "report/dump_watch.h"
#include "report/goodbye.h"
#include "report/late_start.h"
#include "report/limit_events.h"
#include "report/process_context.h"
#include "report/reporters.h"
#include "report/services.h"
#include "report/stacks_signal.h"
#include "report/unfollowed.h"
#include "snapshot/snapshot.h"
#include "span/span.h"

/* ---- The end of the process ---- */

static uint64_t waited_ms; /* for the dump before static destructors */

/* The program's own destructors run between that dump and the rest. Their time does not count. */
static uint64_t end_by_ns(void)
{
    static uint64_t ns;
    if (!ns)
        ns = background_deadline(conf.shutdown_timeout_ms > waited_ms ? conf.shutdown_timeout_ms - waited_ms : 0);
    return ns;
}

/* ---- The dump before static destructors ---- */

/* exit() first runs the destructors of thread_local objects of its own thread. The handlers of atexit() and the
 * destructors of static objects follow, however late they were registered. pthread_exit() on the main thread runs
 * none. */
int __cxa_thread_atexit_impl(void (*run)(void *), void *object, void *in_library);

static void dump_before_destructors(void *unused)
{
    (void)unused;
    uint64_t begun = clock_ns(CLOCK_MONOTONIC);
    uint64_t until_ns = background_deadline(conf.shutdown_timeout_ms);
    dump_timer_dump_before_destructors(until_ns);
    (conf.dump_at_exit == DUMP_AT_EXIT_BOTH ? goodbye_say_first : goodbye_say)(until_ns);
    waited_ms = (clock_ns(CLOCK_MONOTONIC) - begun) / 1000000u;
}

/* glibc ends the program if it has no memory to register. The thread keeps what it frees for its next allocation. */
enum { registration_bytes = 4 * sizeof(void *) };

/* Only the main thread registers: other threads may end without exit(). */
static void register_before_destructors(void)
{
    static char in_library;
    static THREAD_LOCAL bool is_registered;
    bool is_before = conf.dump_at_exit == DUMP_AT_EXIT_TRUE || conf.dump_at_exit == DUMP_AT_EXIT_BOTH;
    bool is_wanted = is_before && (conf.dump_dir[0] || conf.sidecar[0]);
    if (!is_wanted || is_registered || gettid() != getpid())
        return;
    struct thread *t = track_thread();
    bool inside = t && span_enter_self(t) == 0; /* registering allocates */
    void *probe = calloc(1, registration_bytes);
    free(probe);
    if (probe)
        is_registered = __cxa_thread_atexit_impl(dump_before_destructors, NULL, &in_library) == 0;
    if (inside)
        span_leave_self(t);
}

static COLD void register_before_destructors_in_child(void)
{
    if (conf.follow_fork)
        register_before_destructors();
}

/* ---- Services, which may have to end earlier ---- */

static void ask_services_to_stop(void)
{
    services_ask_to_stop(end_by_ns());
}

static void stop_services(void)
{
    late_start_now();
    ask_services_to_stop();
    services_wait(end_by_ns());
}

/* exit() runs the last registered handler first. */
static void stop_services_before_others(void)
{
    atexit(stop_services);
}

static void boot_services(void)
{
    services_boot(stop_services_before_others);
}

/* ---- The table ---- */

/* NULL: nothing to do. Each column runs from the first row to the last. */
static const struct part {
    void (*boot)(void);
    bool (*wants_threads)(void);
    void (*start_threads)(void);       /* only if it wants any */
    void (*before_fork)(void);
    void (*after_fork_in_parent)(void);
    void (*after_fork_in_child)(void); /* no thread of ours runs there. With conf.follow_fork the row may want some */
    void (*ask_to_stop)(void);
    void (*wait)(uint64_t until_ns);   /* after all were asked */
} parts[] = {
    {.boot = background_boot},
    {.boot = last_thread_boot, .after_fork_in_child = last_thread_after_fork},
    {.after_fork_in_parent = unfollowed_note_fork, .after_fork_in_child = unfollowed_after_fork},
    {.boot = process_context_start, .after_fork_in_child = process_context_start},
    {.boot = goodbye_start, .after_fork_in_child = goodbye_after_fork},
    {.boot = dump_boot, .after_fork_in_child = dump_after_fork},
    {.boot = register_before_destructors, .after_fork_in_child = register_before_destructors_in_child},
    {dump_timer_boot, dump_timer_wants_thread, dump_timer_start_thread, NULL, NULL, dump_timer_after_fork,
     dump_timer_ask_to_stop, dump_timer_wait},
    {dump_watch_boot, dump_watch_wants_thread, dump_watch_start_thread, NULL, NULL, dump_watch_after_fork,
     dump_watch_ask_to_stop, dump_watch_wait},
    {.boot = stacks_signal_boot}, /* after dump_watch, which may have the same signal */
    {alert_watch_boot, alert_watch_wants_thread, alert_watch_start_thread, NULL, NULL, alert_watch_after_fork,
     alert_watch_ask_to_stop, alert_watch_wait},
    {reporters_boot, reporters_want_threads, reporters_start_threads, NULL, NULL, reporters_after_fork,
     reporters_ask_to_stop, reporters_wait},
    {NULL, limit_events_want_thread, limit_events_start_thread, NULL, NULL, limit_events_after_fork,
     limit_events_ask_to_stop, limit_events_wait},
    {boot_services, services_want_threads, services_start_threads, services_before_fork, services_after_fork_in_parent,
     services_after_fork_in_child, ask_services_to_stop, services_wait},
};
#define PARTS_END (parts + sizeof parts / sizeof *parts)

static bool any_wants_threads(void)
{
    bool any = false;
    for (const struct part *p = parts; p < PARTS_END; p++)
        any |= p->wants_threads && p->wants_threads();
    return any;
}

static void start_threads(void)
{
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->wants_threads && p->wants_threads())
            p->start_threads();
}

static COLD void before_fork(void)
{
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->before_fork)
            p->before_fork();
}

static COLD void after_fork_in_parent(void)
{
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->after_fork_in_parent)
            p->after_fork_in_parent();
}

/* Runs after the handler of malloc/boot.c, which registered first. */
static COLD void after_fork_in_child(void)
{
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->after_fork_in_child)
            p->after_fork_in_child();
    bool want = conf.follow_fork && any_wants_threads();
    if (!late_start_after_fork(want) && want)
        start_threads();
}

/* The last frees are checked too: one of them may be wrong. */
static void check_last_frees(void)
{
    struct thread *t = track_thread();
    if (t)
        track_flush_any(t);
    track_check_waiting();
}

static void at_exit(void)
{
    late_start_now();
    check_last_frees();
    uint64_t until_ns = end_by_ns();
    goodbye_say(until_ns);
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->ask_to_stop)
            p->ask_to_stop();
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->wait)
            p->wait(until_ns);
    state_file_remove();
}

static __attribute__((constructor)) void start(void)
{
    if (!track_thread())
        return; /* no memory: malloc has written a message */
    snapshot_start_clock();
    snapshot_publish_state();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
    for (const struct part *p = parts; p < PARTS_END; p++)
        if (p->boot)
            p->boot();
    if (any_wants_threads())
        late_start_await(start_threads);
}
