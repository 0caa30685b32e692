/* SPDX-License-Identifier: BSD-2-Clause */
/* Services: their table, start and end. */
#include "report/services.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/forked.h"
#include "base/stop_sockets.h"
#include "conf/conf.h"
#include "malloc/family.h"
#include "malloc/track.h"
#include "report/background.h"
#include "report/module.h"
#include "report/reporter_session.h"
#include "report/unfollowed.h"
#include "span/span.h"

WRITTEN_AT_FORK struct push_stats services_pyroscope, services_otlp;
WRITTEN_AT_FORK struct http_stats services_http;

#define PYROSCOPE_FIGURE(name) FIGURE_ROW(figure_pyroscope_##name, "spans.stats.pyroscope." #name, services_pyroscope.name, FIGURE_NUMBER);
#define OTLP_FIGURE(name) FIGURE_ROW(figure_otlp_##name, "spans.stats.otlp." #name, services_otlp.name, FIGURE_NUMBER);
#define HTTP_FIGURE(name) FIGURE_ROW(figure_http_##name, "spans.stats.http." #name, services_http.name, FIGURE_NUMBER);
PUSH_STATS(PYROSCOPE_FIGURE)
PUSH_STATS(OTLP_FIGURE)
HTTP_STATS(HTTP_FIGURE)
FIGURE_ROW(figure_last_error, "spans.stats.pyroscope.last_error", services_pyroscope.last_error, FIGURE_TEXT);
FIGURE_ROW(figure_otlp_last_error, "spans.stats.otlp.last_error", services_otlp.last_error, FIGURE_TEXT);

static void (*at_end_before_others)(void);

struct running {
    struct service_host host; /* first: the service gets a pointer to it */
    struct worker worker;
    const char *name, *switched_on_by[4]; /* the values of the keys that switch it on. Empty: off */
    const struct service *service;     /* NULL: switched off, or not found */
    _Atomic uint64_t stop_by_ns;
    struct stop_sockets stop; /* written under the worker's mutex; the worker's thread reads it without */
    bool given_up, is_ready; /* is_ready: the thread has yet to start */
};

static struct running services[] = {
    {.name = "pyroscope", .switched_on_by = {conf.pyroscope_url}},
    {.name = "otlp", .switched_on_by = {conf.otlp_url}},
    {.name = "http", .switched_on_by = {conf.http_listen}},
    {.name = "events", .switched_on_by = {conf.events_file, conf.trace_file, conf.flame_file, conf.flame_svg_file}},
};

#define SERVICES_END (services + sizeof services / sizeof services[0])

static struct running *running_of(const struct service_host *host)
{
    return (struct running *)(uintptr_t)host; /* the first member */
}

static uint64_t stop_by_ns(const struct service_host *host)
{
    return load_acquire(&running_of(host)->stop_by_ns);
}

/* ---- Descriptors ---- */

static bool has_descriptors(const struct service_host *host)
{
    return stop_sockets_is_whole(&running_of(host)->stop);
}

static int renew(const struct service_host *host)
{
    struct running *s = running_of(host);
    pthread_mutex_lock(&s->worker.mutex);
    int error = stop_sockets_open(&s->stop);
    s->host.stop_fd = error ? -1 : s->stop.fds[0];
    if (!error && load_acquire(&s->stop_by_ns))
        stop_sockets_signal(&s->stop);
    pthread_mutex_unlock(&s->worker.mutex);
    return error;
}

static void signal_stop(struct running *s)
{
    pthread_mutex_lock(&s->worker.mutex);
    stop_sockets_signal(&s->stop);
    pthread_mutex_unlock(&s->worker.mutex);
}

/* ---- Fork waits for guarded calls ---- */

#define GUARD_MAX_MS 200 /* fork goes on then: a library that blocks must not stop the program */

static WRITTEN_AT_FORK pthread_mutex_t guarded = PTHREAD_MUTEX_INITIALIZER;
static struct stdio_holes guarded_holes; /* under `guarded`: libraries open files, too */
static THREAD_LOCAL bool fork_has_guard; /* several threads may fork at once */

static void guard(bool begin)
{
    if (begin) {
        pthread_mutex_lock(&guarded);
        stdio_holes_fill_alone(&guarded_holes);
    } else {
        stdio_holes_empty(&guarded_holes);
        pthread_mutex_unlock(&guarded);
    }
}

static bool wait_for_guard(void)
{
    uint64_t until_ns = background_deadline(GUARD_MAX_MS);
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    return pthread_mutex_clocklock(&guarded, CLOCK_MONOTONIC, &until) == 0;
}

void services_before_fork(void)
{
    fork_has_guard = services_are_configured() && wait_for_guard();
}

void services_after_fork_in_parent(void)
{
    if (fork_has_guard)
        pthread_mutex_unlock(&guarded);
}

/* ---- Start and end ---- */

static void run(struct worker *w)
{
    struct running *s = (struct running *)((char *)w - offsetof(struct running, worker));
    int error = s->service->run(&s->host);
    if (error && error != -ECANCELED)
        WARN(s->name, ": ", errno_text(-error), "; it is left out");
}

static struct snapshot *take_snapshot(struct snapshot *old)
{
    unfollowed_say();
    return reporter_session_snapshot(old);
}

/* One service reads events, on one thread. A forked child begins anew. */
static WRITTEN_AT_FORK struct event_reader *reader;

static int read_events(const struct service_host *host, struct event_sink *sink)
{
    (void)host;
    if (!reader)
        reader = event_reader_make();
    return reader ? snapshot_read_events(reader, sink) : -ENOMEM;
}

static int make_host(struct running *s, struct snapshot *base)
{
    int error = stop_sockets_open(&s->stop);
    s->host = (struct service_host){
        .conf = &conf, .pid = getpid(), .program = program_invocation_short_name, .pyroscope = &services_pyroscope,
        .otlp = &services_otlp, .http = &services_http,
        .snapshot = take_snapshot,
        .free_snapshot = snapshot_free, .events = read_events, .base = base, .mallctl = FAMILY(mallctl), .say = warn_parts,
        .stop_fd = s->stop.fds[0], .has_descriptors = has_descriptors, .renew = renew, .stop_by_ns = stop_by_ns,
        .guard = guard, .end_before_others = at_end_before_others};
    store_relaxed(&s->stop_by_ns, 0);
    return error;
}

static void note_failure(struct running *s, int error)
{
    if (!error)
        return;
    s->is_ready = false;
    snapshot_free(s->host.base);
    WARN(s->name, " cannot start: ", errno_text(-error));
}

static void make_ready(struct running *s, struct snapshot *base)
{
    s->given_up = false;
    s->is_ready = true;
    int error = make_host(s, base);
    if (!error && !base && s->service->prepare)
        error = s->service->prepare(&s->host);
    note_failure(s, error);
}

static const struct service *find(const char *name)
{
    const struct service *service = module_find_service(name);
    if (service && service->abi != SERVICE_ABI) {
        WARN("service ", name, ": its module is of another version of jespan; see module_dir");
        return NULL;
    }
    return service;
}

static bool is_wanted(const struct running *s)
{
    bool any = false;
    for (size_t i = 0; i < sizeof s->switched_on_by / sizeof *s->switched_on_by && s->switched_on_by[i]; i++)
        any |= s->switched_on_by[i][0] != '\0';
    return any;
}

bool services_are_configured(void)
{
    bool any = false;
    for (struct running *s = services; s < SERVICES_END; s++)
        any |= is_wanted(s);
    return any;
}

/* Memory of loading counts for "(jespan)". */
void services_boot(void (*end_before_others)(void))
{
    at_end_before_others = end_before_others;
    struct thread *t = services_are_configured() ? track_thread() : NULL;
    bool inside = t && span_enter_self(t) == 0;
    for (struct running *s = services; s < SERVICES_END; s++) {
        s->service = is_wanted(s) ? find(s->name) : NULL;
        if (s->service)
            make_ready(s, NULL);
    }
    if (inside)
        span_leave_self(t);
}

bool services_want_threads(void)
{
    bool any = false;
    for (struct running *s = services; s < SERVICES_END; s++)
        any |= s->is_ready;
    return any;
}

void services_start_threads(void)
{
    for (struct running *s = services; s < SERVICES_END; s++) {
        if (!s->is_ready)
            continue;
        note_failure(s, worker_start(&s->worker, s->name, run));
        s->is_ready = false;
    }
}

static void ask_to_stop(struct running *s, uint64_t until_ns)
{
    uint64_t never = 0;
    if (s->worker.running && atomic_compare_exchange_strong(&s->stop_by_ns, &never, until_ns ? until_ns : 1)) {
        worker_ask_to_stop(&s->worker);
        signal_stop(s);
    }
}

void services_ask_to_stop(uint64_t until_ns)
{
    for (struct running *s = services; s < SERVICES_END; s++)
        ask_to_stop(s, until_ns);
}

void services_wait(uint64_t until_ns)
{
    for (struct running *s = services; s < SERVICES_END; s++)
        if (!s->given_up && !worker_wait(&s->worker, until_ns)) {
            s->given_up = true;
            WARN(s->name, " took longer than shutdown_timeout_ms and is given up");
            wait_for_guard(); /* never released: the service must not call libraries that are ending */
        }
}

/* The thread that held the guard does not exist in the child, so the child gets a new guard. The figures of the
 * services start from 0. */
COLD void services_after_fork_in_child(void)
{
    FORKED_CLEAR(guarded);
    FORKED_CLEAR(services_pyroscope);
    FORKED_CLEAR(services_otlp);
    FORKED_CLEAR(services_http);
    if (reader)
        event_reader_free(reader);
    reader = NULL;
    for (struct running *s = services; s < SERVICES_END; s++) {
        if (!worker_after_fork(&s->worker) && !s->is_ready)
            continue;
        stop_sockets_close(&s->stop);
        s->is_ready = false;
        if (conf.follow_fork)
            make_ready(s, snapshot_take());
    }
}
