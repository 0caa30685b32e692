/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that looks at this process for alerts.
 *
 * With a sidecar, the sidecar writes the line and the dump, and shows the rules in its page. The thread then runs once the
 * program has asked for a callback, and does nothing else. */
#include "report/alert_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/forked.h"
#include "conf/conf.h"
#include "report/alert_stacks.h"
#include "report/alerts.h"
#include "report/background.h"
#include "report/dump.h"
#include "report/goodbye.h"
#include "snapshot/row_path.h"
#include "span/stack_mode.h"

#define PATH_BYTES 160

static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER; /* fork does not wait for it, nor for callback_mutex */
static struct worker worker;            /* start_mutex */
static bool started, has_booted;        /* start_mutex */
static WRITTEN_AT_FORK bool at_end;     /* start_mutex */

/* Held while a callback runs. */
static pthread_mutex_t callback_mutex = PTHREAD_MUTEX_INITIALIZER;
static jespan_alert_callback_t *_Atomic callback; /* written under callback_mutex, like all below */
static void *callback_user;
static bool was_told[ALERTS_MOST];   /* the callback knows that the rule holds */
static THREAD_LOCAL bool is_telling; /* this thread is in a callback */

static struct alert_state states[ALERTS_MOST]; /* only the thread uses it */
static struct alert_figures own_figures[ALERTS_MOST];
static struct alert_stacks own_stacks;

static bool has_sidecar(void)
{
    return conf.sidecar[0];
}

/* ---- Looking ---- */

static void say(const struct snapshot *s, const struct alert_news *news)
{
    char path[PATH_BYTES], bytes[NUMBER_BYTES], most[NUMBER_BYTES];
    row_path(path, sizeof path, s, news->row);
    WARN("alert: ", news->rule, ": ", number_text(bytes, news->bytes, 10), " bytes; ", number_text(most, news->row_bytes, 10),
         " in use by ", path);
}

static void call(const struct snapshot *s, const struct alert_news *news)
{
    char path[PATH_BYTES] = "";
    if (news->row_bytes)
        row_path(path, sizeof path, s, news->row);
    const struct jespan_alert_event event = {
        .kind = news->holds ? JESPAN_ALERT_BEGAN : JESPAN_ALERT_ENDED, .rule = news->rule, .bound_bytes = news->bound_bytes,
        .bytes = news->bytes, .context = news->row_bytes ? s->rows[news->row].id : JESPAN_INVALID, .path = path,
        .context_bytes = news->row_bytes};
    is_telling = true;
    load_relaxed(&callback)(&event, callback_user);
    is_telling = false;
}

static void tell(const struct snapshot *s, const struct alert_news *news, unsigned i)
{
    pthread_mutex_lock(&callback_mutex);
    if (load_relaxed(&callback) && news->holds != was_told[i]) {
        was_told[i] = news->holds;
        call(s, news);
    }
    pthread_mutex_unlock(&callback_mutex);
}

static void set_stacks(const struct alert_news *news, unsigned n)
{
    char mode[STACK_MODE_BYTES];
    if (!alert_stacks_wants(&own_stacks, news, n, load_acquire(&stack_mode_text), mode))
        return;
    alert_stacks_note(&own_stacks, mode); /* first, for a fork in between; also where it fails, so that the line is written once */
    int error = stack_mode_set(mode);
    WARN("alert: stacks: ", mode, error ? ": " : "", error ? errno_text(-error) : "");
}

/* In a forked child, whose rules do not hold yet. What a user has set meanwhile stays. */
static COLD void reset_stacks(void)
{
    if (own_stacks.set[0] && strcmp(load_acquire(&stack_mode_text), own_stacks.set) == 0)
        stack_mode_set(conf.stacks);
    FORKED_CLEAR(own_stacks);
}

/* The dump comes before the callback, which may free the memory. */
static void look(const struct snapshot *s)
{
    struct alert_news news[ALERTS_MOST];
    unsigned n = load_relaxed(&alerts_shown.n);
    unsigned n_new = alerts_look(states, own_figures, s, clock_ns(CLOCK_MONOTONIC), news);
    for (unsigned i = 0; i < n && !has_sidecar(); i++)
        if (news[i].is_new)
            say(s, &news[i]);
    if (n_new && conf.dump_dir[0] && !has_sidecar())
        dump_next_of(s, DUMP_ALERT);
    if (!has_sidecar())
        set_stacks(news, n);
    for (unsigned i = 0; i < n; i++)
        tell(s, &news[i], i);
}

static void run(struct worker *w)
{
    struct snapshot *s = NULL;
    while (worker_sleep(w, background_deadline(conf.reading_interval_ms))) {
        if (has_sidecar() && !load_relaxed(&callback))
            continue;
        struct snapshot *next = snapshot_retake(s);
        s = next ? next : s;
        if (next)
            look(s);
    }
    snapshot_free(s);
}

/* ---- Start and end ---- */

static int start(void)
{
    int error = 0;
    pthread_mutex_lock(&start_mutex);
    bool is_wanted = has_booted && load_relaxed(&alerts_shown.n) && (!has_sidecar() || load_relaxed(&callback));
    if (is_wanted && !started && !at_end) {
        error = worker_start(&worker, "jespan:alert", run);
        started = !error;
    }
    pthread_mutex_unlock(&start_mutex);
    return error;
}

static void show_figures(void)
{
    store_release(&alerts_shown.figures, has_sidecar() ? goodbye_alerts() : own_figures);
}

void alert_watch_boot(void)
{
    if (conf.dump_peak && conf.dump_dir[0] && !has_sidecar())
        WARN("dump_peak needs a sidecar, as jespan run starts one, and is ignored");
    if (!conf.alert[0])
        return;
    alerts_read(conf.alert, has_sidecar() ? NULL : conf_warn_item, "alert"); /* the sidecar names wrong rules */
    show_figures();
}

bool alert_watch_wants_thread(void)
{
    return load_relaxed(&alerts_shown.n);
}

/* A callback that comes earlier starts no thread. */
void alert_watch_start_thread(void)
{
    pthread_mutex_lock(&start_mutex);
    has_booted = true;
    pthread_mutex_unlock(&start_mutex);
    int error = start();
    if (error)
        WARN("the thread for alert cannot start: ", errno_text(-error), "; alert is ignored");
}

int alert_watch_set_callback(jespan_alert_callback_t *fn, void *user)
{
    if (is_telling)
        return -EDEADLK;
    pthread_mutex_lock(&callback_mutex);
    jespan_alert_callback_t *before = load_relaxed(&callback);
    store_relaxed(&callback, fn);
    int error = start();
    if (error) {
        store_relaxed(&callback, before);
    } else {
        callback_user = user;
        memset(was_told, 0, sizeof was_told);
    }
    pthread_mutex_unlock(&callback_mutex);
    return error;
}

void alert_watch_ask_to_stop(void)
{
    pthread_mutex_lock(&start_mutex);
    at_end = true;
    worker_ask_to_stop(&worker);
    pthread_mutex_unlock(&start_mutex);
}

void alert_watch_wait(uint64_t until_ns)
{
    if (!worker_wait(&worker, until_ns))
        WARN("the dump or the callback for an alert took longer than shutdown_timeout_ms and is given up");
}

COLD void alert_watch_after_fork(void)
{
    FORKED_CLEAR(callback_mutex);
    FORKED_CLEAR(start_mutex);
    FORKED_CLEAR(is_telling);
    FORKED_CLEAR(started);
    if (!load_relaxed(&alerts_shown.n))
        return;
    FORKED_CLEAR(was_told);
    FORKED_CLEAR(states);
    FORKED_CLEAR(own_figures);
    reset_stacks();
    store_relaxed(&alerts_shown.figures, NULL);
    worker_after_fork(&worker);
    at_end = !conf.follow_fork;
    if (conf.follow_fork)
        show_figures();
}
