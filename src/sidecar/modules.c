/* SPDX-License-Identifier: BSD-2-Clause */
/* The services in the sidecar.
 *
 * The sidecar does not fork and does not close descriptors that it does not know. So the parts of the host that are for
 * such programs do nothing here. */
#include "sidecar/modules.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/stop_sockets.h"
#include "conf/conf.h"
#include "report/module.h"
#include "report/service.h"

#define STACK_BYTES ((size_t)256 * 1024)

static struct pyroscope_stats pyroscope_stats;
static struct http_stats http_stats;
static struct readings *source; /* constant while a service runs */

static struct running {
    struct service_host host; /* first: the service gets a pointer to it */
    const char *name, *switched_on_by;
    const struct service *service;
    struct stop_sockets stop;
    _Atomic uint64_t stop_by_ns;
    pthread_t thread;
    bool is_prepared, is_running, is_given_up;
} services[] = {
    {.name = "pyroscope", .switched_on_by = conf.pyroscope_url},
    {.name = "http", .switched_on_by = conf.http_listen},
};

#define SERVICES_END (services + sizeof services / sizeof *services)

/* ---- The host ---- */

static uint64_t stop_by_ns(const struct service_host *host)
{
    return load_acquire(&((const struct running *)host)->stop_by_ns);
}

static bool has_descriptors(const struct service_host *host)
{
    (void)host;
    return true;
}

static int renew(const struct service_host *host)
{
    (void)host;
    return 0;
}

static void guard(bool begin)
{
    (void)begin;
}

static void nothing(void)
{
}

static struct snapshot *next_snapshot(struct snapshot *old)
{
    return readings_next(source, old);
}

static void free_snapshot(struct snapshot *s)
{
    readings_give_back(source, s);
}

/* Figures of the services, by their names below spans.stats. */
static const struct {
    const char *name;
    _Atomic uint64_t *value;
} stats[] = {
#define PYROSCOPE_ROW(name) {"spans.stats.pyroscope." #name, &pyroscope_stats.name},
#define HTTP_ROW(name) {"spans.stats.http." #name, &http_stats.name},
    PYROSCOPE_STATS(PYROSCOPE_ROW) HTTP_STATS(HTTP_ROW)};

static int ask(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    (void)new_bytes;
    for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
        if (strcmp(stats[i].name, name) == 0) {
            if (new_value || !old || *old_bytes != sizeof(uint64_t))
                return EINVAL;
            *(uint64_t *)old = load_relaxed(stats[i].value);
            return 0;
        }
    return ENOENT;
}

/* ---- Start and end ---- */

static void *run(void *running)
{
    struct running *s = running;
    pthread_setname_np(pthread_self(), s->name);
    int error = s->service->run(&s->host);
    if (error && error != -ECANCELED)
        WARN(s->name, ": ", errno_text(-error), "; it is left out");
    return NULL;
}

static int start_thread(struct running *s)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&s->thread, &attributes, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

static int prepare(struct running *s)
{
    if (s->is_prepared || !s->service->prepare)
        return 0;
    s->is_prepared = true;
    return s->service->prepare(&s->host);
}

static void start(struct running *s, pid_t pid, const char *name)
{
    int error = stop_sockets_open(&s->stop);
    s->host = (struct service_host){
        .conf = &conf, .pid = pid, .program = name, .pyroscope = &pyroscope_stats, .http = &http_stats,
        .snapshot = next_snapshot, .free_snapshot = free_snapshot, .mallctl = ask, .say = warn_parts,
        .stop_fd = s->stop.fds[0], .has_descriptors = has_descriptors, .renew = renew, .stop_by_ns = stop_by_ns,
        .guard = guard, .end_before_others = nothing};
    store_relaxed(&s->stop_by_ns, 0);
    if (!error)
        error = prepare(s);
    if (!error)
        error = start_thread(s);
    s->is_running = !error;
    if (error)
        WARN(s->name, " cannot start: ", errno_text(-error));
}

static const struct service *find(const char *name)
{
    const struct service *service = module_find_service(name);
    if (!service || service->abi == SERVICE_ABI)
        return service;
    WARN("service ", name, ": its module is of another version of jespan; see module_dir");
    return NULL;
}

void modules_start(struct readings *readings, pid_t pid, const char *name)
{
    source = readings;
    for (struct running *s = services; s < SERVICES_END; s++) {
        if (!s->switched_on_by[0] || s->is_given_up)
            continue;
        if (!s->service)
            s->service = find(s->name);
        if (s->service)
            start(s, pid, name);
    }
}

void modules_stop(uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    for (struct running *s = services; s < SERVICES_END; s++)
        if (s->is_running) {
            store_release(&s->stop_by_ns, until_ns ? until_ns : 1);
            stop_sockets_signal(&s->stop);
        }
    for (struct running *s = services; s < SERVICES_END; s++) {
        if (!s->is_running)
            continue;
        s->is_running = false;
        s->is_given_up = pthread_clockjoin_np(s->thread, NULL, CLOCK_MONOTONIC, &until) != 0;
        if (s->is_given_up)
            WARN(s->name, " took longer than shutdown_timeout_ms and is given up");
        else
            stop_sockets_close(&s->stop);
    }
}
