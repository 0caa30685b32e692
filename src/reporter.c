/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that dumps: wakes for each dump, and once more at the end. */
#include "reporter.h"

#include <stdbool.h>

#include "background.h"
#include "conf.h"
#include "die.h"
#include "dump.h"

static struct worker worker;

static uint64_t next_due(void)
{
    return conf.dump_interval_s ? background_deadline(conf.dump_interval_s * 1000) : UINT64_MAX;
}

static void run(struct worker *w)
{
    while (worker_sleep(w, next_due()))
        dump_next();
    if (conf.dump_at_exit)
        dump_next();
}

void reporter_start(void)
{
    if (!conf.dump_dir[0] || (!conf.dump_interval_s && !conf.dump_at_exit))
        return;
    int error = worker_start(&worker, "jespan", run);
    if (error)
        WARN("the reporter thread cannot start: ", errno_text(-error), "; no dumps are written");
}

void reporter_ask_to_stop(void)
{
    worker_ask_to_stop(&worker);
}

void reporter_wait(uint64_t until_ns)
{
    if (!worker_wait(&worker, until_ns))
        WARN("the last heap dump took longer than shutdown_timeout_ms and is given up");
}

void reporter_after_fork(void)
{
    if (worker_after_fork(&worker) && conf.follow_fork)
        reporter_start();
}
