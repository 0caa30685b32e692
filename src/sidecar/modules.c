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
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/number.h"
#include "base/stop_sockets.h"
#include "conf/conf.h"
#include "report/module.h"
#include "report/service.h"
#include "sidecar/call_names.h"
#include "sidecar/names.h"
#include "sidecar/page.h"
#include "sidecar/stacks_ask.h"

#define STACK_BYTES ((size_t)256 * 1024)

static int bell = -1; /* an eventfd */

/* A service that runs. */
struct running {
    struct service_host host; /* first: the service gets a pointer to it */
    const struct service *service;
    struct readings *readings; /* NULL: the service chooses */
    char program[SERVICE_NAME_BYTES];
    struct stop_sockets stop;
    _Atomic uint64_t stop_by_ns;
    pthread_t thread;
    _Atomic bool is_over; /* the thread is about to end */
};

/* The services of one process. A member without a service does not run. */
enum { PYROSCOPE, OTLP, EVENTS, MODULES_OF_PROCESS };
struct modules {
    struct running running[MODULES_OF_PROCESS];
    struct modules *next; /* while it ends */
    struct sidecar_slot *slot;
    pid_t pid;
    uint64_t until_ns; /* 0: they run */
};

static struct modules *ending; /* all that were asked to end */
static struct running common;
static bool common_runs;

/* The readings that the calling thread's service shows. */
static _Thread_local struct readings *source;

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
    struct snapshot *s = source ? readings_next(source) : NULL;
    if (s)
        readings_give_back(old);
    return s;
}

static bool choose(pid_t pid)
{
    struct readings *r = readings_find(pid);
    if (r && source)
        readings_release(source);
    source = r ? r : source;
    return r;
}

static int read_events(const struct service_host *host, struct event_sink *sink)
{
    return readings_events(((const struct running *)host)->readings, sink);
}

/* Only the thread of HTTP asks. It changes which stacks are taken, and nothing else. */
static int ask(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    if (!new_value)
        return old ? names_answer(source, name, old, old_bytes) : EINVAL;
    if (!source || old || strcmp(name, "spans.stacks") != 0 || new_bytes != sizeof(const char *))
        return EINVAL;
    return -stacks_ask(readings_pid(source), *(const char *const *)new_value);
}

/* ---- Messages ---- */

/* A script may have thousands of processes, and what goes wrong is mostly the same for all of them. */
#define MOST_MESSAGES 10
#define MESSAGES_FOR_NS UINT64_C(600000000000)

static struct {
    pthread_mutex_t lock;
    uint64_t until_ns, n; /* in this time */
} messages = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void begin_messages(uint64_t now_ns)
{
    char number[NUMBER_BYTES];
    if (messages.n > MOST_MESSAGES)
        WARN("messages of services that were left out: ", number_text(number, messages.n - MOST_MESSAGES, 10));
    messages.until_ns = now_ns + MESSAGES_FOR_NS;
    messages.n = 0;
}

static void say(const char *const *parts)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&messages.lock);
    if (now_ns >= messages.until_ns)
        begin_messages(now_ns);
    if (++messages.n <= MOST_MESSAGES)
        warn_parts(parts);
    pthread_mutex_unlock(&messages.lock);
}
#define SAY(...) say((const char *const[]){__VA_ARGS__, NULL})

/* ---- Start and end ---- */

static void *run(void *running)
{
    struct running *s = running;
    pthread_setname_np(pthread_self(), s->service->name);
    source = s->readings;
    int error = s->service->run(&s->host);
    if (error && error != -ECANCELED)
        SAY(s->service->name, ": ", errno_text(-error), "; it is left out");
    if (source)
        readings_release(source);
    store_release(&s->is_over, true);
    eventfd_write(bell, 1);
    return NULL;
}

static int start_thread(struct running *s)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    store_relaxed(&s->is_over, false);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&s->thread, &attributes, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

/* Once for all processes. */
static int prepare(struct running *s)
{
    static const struct service *prepared;
    if (s->service == prepared || !s->service->prepare)
        return 0;
    int error = s->service->prepare(&s->host);
    if (!error)
        prepared = s->service;
    return error;
}

static const struct service *find(const char *name)
{
    const struct service *service = module_find_service(name);
    if (!service || service->abi == SERVICE_ABI)
        return service;
    SAY("service ", name, ": its module is of another version of jespan; see module_dir");
    return NULL;
}

/* The readings are held for the thread. */
static int start_holding(struct running *s)
{
    if (s->readings)
        readings_hold(s->readings);
    int error = start_thread(s);
    if (error && s->readings)
        readings_release(s->readings);
    return error;
}

/* Returns whether it runs. */
static bool start(struct running *s, struct readings *readings, pid_t pid, const char *name, struct snapshot *base)
{
    int no_stop = stop_sockets_open(&s->stop), error = no_stop;
    snprintf(s->program, sizeof s->program, "%s", name);
    s->readings = readings;
    s->host = (struct service_host){
        .conf = &conf, .pid = pid, .program = s->program, .pyroscope = &service_figures.pyroscope, .otlp = &service_figures.otlp,
        .http = &service_figures.http,
        .snapshot = next_snapshot, .free_snapshot = readings_give_back, .events = read_events, .base = base, .mallctl = ask,
        .say = say,
        .processes = readings_all, .choose = choose, .name_calls = call_names_find, .end_names = call_names_end,
        .stop_fd = s->stop.fds[0],
        .has_descriptors = has_descriptors, .renew = renew, .stop_by_ns = stop_by_ns, .guard = guard, .end_before_others = nothing};
    store_relaxed(&s->stop_by_ns, 0);
    if (!error)
        error = prepare(s);
    if (!error)
        error = start_holding(s);
    if (!error)
        return true;
    if (!no_stop)
        stop_sockets_close(&s->stop);
    SAY(s->service->name, " cannot start: ", errno_text(-error));
    readings_give_back(base);
    return false;
}

static void ask_to_stop(struct running *s, uint64_t until_ns)
{
    store_release(&s->stop_by_ns, until_ns ? until_ns : 1);
    stop_sockets_signal(&s->stop);
}

int modules_open(void)
{
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return bell < 0 ? -errno : bell;
}

static bool wants_events(void)
{
    return conf.events_file[0] || conf.trace_file[0] || conf.flame_file[0] || conf.flame_svg_file[0];
}

bool modules_deliver_last(void)
{
    return conf.pyroscope_url[0] || conf.otlp_url[0] || wants_events();
}

static bool start_one(struct running *s, const char *service, struct readings *readings, const char *name, bool forked)
{
    struct snapshot *base = forked ? readings_base(readings) : NULL;
    s->service = !forked || base ? find(service) : NULL; /* without a base, it would report what the parent does */
    if (s->service && start(s, readings, readings_pid(readings), name, base))
        return true;
    if (!s->service)
        readings_give_back(base);
    s->service = NULL;
    return false;
}

struct modules *modules_start(struct readings *readings, const char *name, bool forked, bool pushes)
{
    struct modules *m = modules_deliver_last() ? calloc(1, sizeof *m) : NULL;
    if (!m)
        return NULL;
    if (pushes)
        modules_start_pushing(m, readings, name, forked);
    if (wants_events())
        start_one(&m->running[EVENTS], "events", readings, name, forked);
    return m;
}

void modules_start_pushing(struct modules *m, struct readings *readings, const char *name, bool forked)
{
    if (m && conf.pyroscope_url[0] && !m->running[PYROSCOPE].service)
        start_one(&m->running[PYROSCOPE], "pyroscope", readings, name, forked);
    if (m && conf.otlp_url[0] && !m->running[OTLP].service)
        start_one(&m->running[OTLP], "otlp", readings, name, forked);
}

static bool runs_any(const struct modules *m)
{
    bool any = false;
    for (int i = 0; i < MODULES_OF_PROCESS; i++)
        any |= m->running[i].service != NULL;
    return any;
}

void modules_stop(struct modules *m, uint64_t until_ns, struct sidecar_slot *slot, pid_t pid)
{
    if (!m || !runs_any(m)) {
        page_tell(slot, pid, SIDECAR_DELIVERED);
        free(m);
        return;
    }
    m->slot = slot;
    m->pid = pid;
    m->until_ns = until_ns;
    m->next = ending;
    ending = m;
    for (int i = 0; i < MODULES_OF_PROCESS; i++)
        if (m->running[i].service)
            ask_to_stop(&m->running[i], until_ns);
}

/* More than that would deliver at once where a script forks faster than the server answers. */
#define MOST_OUTLIVING 8

bool modules_may_outlive(const struct modules *m)
{
    size_t n = 0;
    for (const struct modules *other = ending; other; other = other->next)
        n++;
    return m && !m->running[EVENTS].service && n < MOST_OUTLIVING;
}

/* Whether the service has ended. */
static bool is_joined(struct running *s)
{
    if (s->service && load_acquire(&s->is_over)) {
        pthread_join(s->thread, NULL);
        stop_sockets_close(&s->stop);
        s->service = NULL;
    }
    return !s->service;
}

#define GIVEN_UP UINT64_MAX /* nobody waits for it any more, and it is freed if it ends */

static void give_up(struct modules *m)
{
    page_tell(m->slot, m->pid, SIDECAR_DELIVERED);
    for (int i = 0; i < MODULES_OF_PROCESS; i++)
        if (m->running[i].service)
            SAY(m->running[i].service->name, " took longer than shutdown_timeout_ms and is given up");
    m->until_ns = GIVEN_UP;
}

/* Whether all services have ended. */
static bool is_over(struct modules *m)
{
    bool have_ended = true;
    for (int i = 0; i < MODULES_OF_PROCESS; i++)
        have_ended &= is_joined(&m->running[i]);
    if (have_ended) {
        if (m->until_ns != GIVEN_UP)
            page_tell(m->slot, m->pid, SIDECAR_DELIVERED);
        free(m);
    } else if (clock_ns(CLOCK_MONOTONIC) >= m->until_ns) {
        give_up(m);
    }
    return have_ended;
}

void modules_collect(void)
{
    eventfd_t any;
    eventfd_read(bell, &any);
    for (struct modules **at = &ending; *at;) {
        struct modules *m = *at, *next = m->next;
        if (is_over(m))
            *at = next;
        else
            at = &m->next;
    }
}

uint64_t modules_next_ns(void)
{
    uint64_t first = UINT64_MAX;
    for (struct modules *m = ending; m; m = m->next)
        if (m->until_ns < first)
            first = m->until_ns;
    return first;
}

void modules_start_common(pid_t pid, const char *name)
{
    static bool has_tried;
    if (has_tried || !conf.http_listen[0])
        return;
    has_tried = true;
    common.service = find("http");
    common_runs = common.service && start(&common, NULL, pid, name, NULL);
}

void modules_stop_common(uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    if (common_runs) {
        ask_to_stop(&common, until_ns);
        if (pthread_clockjoin_np(common.thread, NULL, CLOCK_MONOTONIC, &until) != 0)
            SAY(common.service->name, " took longer than shutdown_timeout_ms and is given up");
    }
    pthread_mutex_lock(&messages.lock);
    begin_messages(until_ns);
    pthread_mutex_unlock(&messages.lock);
}
