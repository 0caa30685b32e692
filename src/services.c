/* SPDX-License-Identifier: BSD-2-Clause */
/* Services: their table, their start and their end. */
#include "services.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "background.h"
#include "compiler.h"
#include "conf.h"
#include "die.h"
#include "family.h"
#include "feed.h"
#include "module.h"
#include "span.h"
#include "track.h"

struct pyroscope_stats services_pyroscope;
struct http_stats services_http;

static void (*at_end_before_others)(void);

struct running {
    struct service_host host; /* first: what a service has of it */
    struct worker worker;     /* second */
    const char *name, *switched_on_by; /* the key of the configuration */
    const struct service *service;     /* NULL: not wanted, or not found */
    _Atomic uint64_t stop_by_ns;
    bool given_up;
};

static struct running services[] = {
    {.name = "pyroscope", .switched_on_by = conf.pyroscope_url},
    {.name = "http", .switched_on_by = conf.http_listen},
};

#define EACH(s) (struct running *s = services; s < services + sizeof services / sizeof services[0]; s++)

static uint64_t stop_by_ns(const struct service_host *host)
{
    return load_acquire(&((const struct running *)host)->stop_by_ns);
}

/* ---- Fork waits for guarded calls ---- */

#define GUARD_MAX_MS 200 /* a library that blocks all the same does not stop the program */

static pthread_mutex_t guarded = PTHREAD_MUTEX_INITIALIZER;
static bool fork_has_it; /* by the thread that forks */

static void guard(bool begin)
{
    if (begin)
        pthread_mutex_lock(&guarded);
    else
        pthread_mutex_unlock(&guarded);
}

void services_before_fork(void)
{
    uint64_t until_ns = background_deadline(GUARD_MAX_MS);
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    fork_has_it = services_are_configured() && pthread_mutex_clocklock(&guarded, CLOCK_MONOTONIC, &until) == 0;
}

void services_after_fork_in_parent(void)
{
    if (fork_has_it)
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

static int make_host(struct running *s, struct snapshot *base)
{
    int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->host = (struct service_host){
        .conf = &conf, .pyroscope = &services_pyroscope, .http = &services_http, .snapshot = feed_snapshot,
        .free_snapshot = snapshot_free, .base = base, .mallctl = FAMILY(mallctl), .say = warn_parts, .stop_fd = stop_fd,
        .stop_by_ns = stop_by_ns, .guard = guard, .end_before_others = at_end_before_others};
    store_relaxed(&s->stop_by_ns, 0);
    return stop_fd < 0 ? -errno : 0;
}

static void start(struct running *s, struct snapshot *base)
{
    s->given_up = false;
    int error = make_host(s, base);
    if (!error && !base && s->service->prepare)
        error = s->service->prepare(&s->host);
    if (!error)
        error = worker_start(&s->worker, s->name, run);
    if (error)
        WARN(s->name, " cannot start: ", errno_text(-error));
}

static const struct service *find(const char *name)
{
    const struct service *service = module_find_service(name);
    if (service && service->abi != SERVICE_ABI) {
        WARN("service ", name, ": it is of another version of jespan");
        return NULL;
    }
    return service;
}

bool services_are_configured(void)
{
    bool any = false;
    for EACH(s)
        any |= s->switched_on_by[0] != '\0';
    return any;
}

/* Loading is credited to "(jespan)". */
void services_boot(void (*end_before_others)(void))
{
    at_end_before_others = end_before_others;
    struct thread *t = services_are_configured() ? track_thread() : NULL;
    bool inside = t && span_enter_self(t) == 0;
    for EACH(s) {
        s->service = s->switched_on_by[0] ? find(s->name) : NULL;
        if (s->service)
            start(s, NULL);
    }
    if (inside)
        span_leave_self(t);
}

static void ask_to_stop(struct running *s, uint64_t until_ns)
{
    uint64_t never = 0;
    if (s->worker.running && atomic_compare_exchange_strong(&s->stop_by_ns, &never, until_ns ? until_ns : 1)) {
        worker_ask_to_stop(&s->worker);
        eventfd_write(s->host.stop_fd, 1);
    }
}

void services_stop(uint64_t until_ns)
{
    for EACH(s)
        ask_to_stop(s, until_ns);
    for EACH(s)
        if (!s->given_up && !worker_wait(&s->worker, until_ns)) {
            s->given_up = true;
            WARN(s->name, " took longer than shutdown_timeout_ms and is given up");
        }
}

/* The guard is the child's own then: the thread that had it is not there. Each service writes its figures itself, so
 * those of the parent's are set back. */
void services_after_fork_in_child(void)
{
    guarded = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(&services_pyroscope, 0, sizeof services_pyroscope);
    memset(&services_http, 0, sizeof services_http);
    for EACH(s) {
        if (!worker_after_fork(&s->worker))
            continue;
        close(s->host.stop_fd);
        if (conf.follow_fork)
            start(s, snapshot_take());
    }
}
