/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that looks at this process for alerts. With a sidecar, the sidecar does it. */
#include "report/alert_watch.h"

#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "report/alerts.h"
#include "report/background.h"
#include "report/dump.h"
#include "span/context_path.h"

#define PATH_BYTES 160

static struct worker worker;
static struct alert_state states[ALERTS_MOST]; /* only the thread uses it */

static void tell(void *arg, const struct alert_news *news)
{
    const struct snapshot *s = arg;
    char path[PATH_BYTES], bytes[NUMBER_BYTES], most[NUMBER_BYTES];
    lock(LOCK_TREE);
    const char *holder = context_path(s->rows[news->row].id, path, sizeof path);
    unlock(LOCK_TREE);
    WARN("alert: ", news->rule, ": ", number_text(bytes, news->bytes, 10), " bytes; ", number_text(most, news->row_bytes, 10),
         " in use by ", holder);
}

static void run(struct worker *w)
{
    struct snapshot *s = NULL;
    while (worker_sleep(w, background_deadline(conf.reading_interval_ms))) {
        struct snapshot *next = snapshot_retake(s);
        s = next ? next : s;
        if (next && alerts_look(states, s, clock_ns(CLOCK_MONOTONIC), tell, s) && conf.dump_dir[0])
            dump_next(DUMP_ALERT);
    }
    snapshot_free(s);
}

void alert_watch_start(void)
{
    if (conf.dump_peak && conf.dump_dir[0] && !conf.sidecar[0])
        WARN("dump_peak needs a sidecar, as jespan run starts one, and is ignored");
    if (!conf.alert[0] || !alerts_parse())
        return;
    int error = worker_start(&worker, "jespan:alert", run);
    if (error)
        WARN("the thread for alert cannot start: ", errno_text(-error), "; alert is ignored");
}

void alert_watch_ask_to_stop(void)
{
    worker_ask_to_stop(&worker);
}

void alert_watch_wait(uint64_t until_ns)
{
    if (!worker_wait(&worker, until_ns))
        WARN("the dump for an alert took longer than shutdown_timeout_ms and is given up");
}

COLD void alert_watch_after_fork(void)
{
    if (!conf.alert[0])
        return;
    memset(states, 0, sizeof states);
    if (worker_after_fork(&worker) && conf.follow_fork)
        alert_watch_start();
}
