/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that writes dumps at intervals, or only one at the end of the process. */
#include "report/dump_timer.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/forked.h"
#include "conf/conf.h"
#include "report/background.h"
#include "report/dump.h"
#include "report/unfollowed.h"

#define NS_PER_MS 1000000u

static struct worker worker;
static WRITTEN_AT_FORK uint64_t began_ns; /* when this process began; 0: it writes no dumps of this kind */
/* Only the thread that ends the process uses these: */
static bool before_is_done; /* the dump before static destructors */
static bool has_given_up;   /* the last dump took too long. Its thread still uses `worker` */

static uint64_t next_due(void)
{
    return conf.dump_interval_s ? background_deadline(conf.dump_interval_s * 1000) : UINT64_MAX;
}

/* Scripts start hundreds of short-lived processes. They write no dump. */
static bool has_lived(void)
{
    return (clock_ns(CLOCK_MONOTONIC) - began_ns) / NS_PER_MS >= conf.dump_at_exit_min_ms ||
           conf.dump_at_exit_pid == (uint64_t)getpid();
}

static bool wants_last(void)
{
    return conf.dump_at_exit && has_lived();
}

static void run_last(struct worker *w)
{
    (void)w;
    if (wants_last())
        dump_next(DUMP_N_REASONS);
}

static void run(struct worker *w)
{
    while (worker_sleep(w, next_due())) {
        unfollowed_say();
        dump_next(DUMP_N_REASONS);
    }
    run_last(w);
}

static void start(void (*what)(struct worker *w))
{
    int error = worker_start(&worker, "jespan", what);
    if (error)
        WARN("the thread that writes dumps cannot start: ", errno_text(-error), "; no dumps are written");
}

void dump_timer_boot(void)
{
    if (conf.dump_dir[0] && !conf.sidecar[0] && (conf.dump_interval_s || conf.dump_at_exit))
        began_ns = clock_ns(CLOCK_MONOTONIC);
}

/* Some system calls fail in a process that has more than one thread, as unshare(CLONE_NEWUSER). So a thread for the dump at
 * exit does not exist before that. */
bool dump_timer_wants_thread(void)
{
    return began_ns && conf.dump_interval_s && !before_is_done; /* at exit, threads may start for others */
}

void dump_timer_start_thread(void)
{
    start(run);
}

static void begin_last(void)
{
    if (worker.running)
        worker_ask_to_stop(&worker);
    else if (wants_last())
        start(run_last);
}

void dump_timer_dump_before_destructors(uint64_t until_ns)
{
    if (!began_ns || (conf.dump_at_exit != DUMP_AT_EXIT_TRUE && conf.dump_at_exit != DUMP_AT_EXIT_BOTH))
        return;
    begin_last();
    dump_timer_wait(until_ns);
    before_is_done = true;
}

void dump_timer_ask_to_stop(void)
{
    bool is_done = before_is_done && (conf.dump_at_exit != DUMP_AT_EXIT_BOTH || has_given_up);
    if (began_ns && !is_done)
        begin_last();
}

void dump_timer_wait(uint64_t until_ns)
{
    if (has_given_up || worker_wait(&worker, until_ns))
        return;
    has_given_up = true;
    WARN("the last heap dump took longer than shutdown_timeout_ms and is given up");
}

COLD void dump_timer_after_fork(void)
{
    if (!began_ns)
        return;
    before_is_done = has_given_up = false;
    began_ns = 0;
    worker_after_fork(&worker);
    if (conf.follow_fork)
        dump_timer_boot();
}
