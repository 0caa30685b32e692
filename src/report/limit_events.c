/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that watches limits and tells the program.
 *
 * A thread that is refused, or finds a soft limit crossed, wakes it by limits_tell(). Frees and moves wake nobody, so
 * with soft limits it also looks at intervals. There is no queue of events: an event is a limit whose state differs
 * from what was told last. */
#include "report/limit_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/forked.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/number.h"
#include "conf/conf.h"
#include "policy/limits.h"
#include "report/background.h"
#include "span/context_path.h"

#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u
#define ROUND_MS 10           /* the shortest time between two rounds */
#define HARD_NS NS_PER_S      /* the shortest time between two events of a hard limit */
#define PATH_BYTES 256

/* Held while a callback runs. fork does not wait for this mutex or start_mutex: the child gets new ones. */
static pthread_mutex_t callback_mutex = PTHREAD_MUTEX_INITIALIZER;
static jespan_limit_callback_t *_Atomic callback; /* written under callback_mutex, like callback_user */
static void *callback_user;
static THREAD_LOCAL bool telling; /* this thread is in a callback */

static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct worker worker; /* start_mutex */
static bool started;                 /* start_mutex */
static WRITTEN_AT_FORK bool at_end; /* start_mutex */

/* Only the worker uses this. */
static bool is_last;  /* this is the last round */
static bool has_more; /* some refusals wait, because the last event of their limit was less than HARD_NS ago */

/* ---- Telling ---- */

static bool lines_are_wanted(uint32_t kind)
{
    return kind != JESPAN_LIMIT_HARD || conf.on_limit == ON_LIMIT_EVENT || conf.on_limit == ON_LIMIT_DUMP;
}

static void say(const struct jespan_limit_event *event)
{
    static const char *const texts[] = {"soft limit of ", "soft limit of ", "limit of "};
    static const char *const what[] = {" crossed: ", " no longer crossed: ", " reached: "};
    char number[3][NUMBER_BYTES];
    bool hard = event->kind == JESPAN_LIMIT_HARD;
    WARN(texts[event->kind], event->path, what[event->kind], number_text(number[0], event->inuse_bytes, 10), " of ",
         number_text(number[1], event->limit_bytes, 10), " bytes in use", hard ? ", refusals: " : "",
         hard ? number_text(number[2], event->refusals, 10) : "");
}

static void tell(const struct jespan_limit_event *event)
{
    pthread_mutex_lock(&callback_mutex);
    jespan_limit_callback_t *fn = load_relaxed(&callback);
    telling = true;
    if (fn)
        fn(event, callback_user);
    else if (lines_are_wanted(event->kind))
        say(event);
    telling = false;
    pthread_mutex_unlock(&callback_mutex);
}

/* ---- Looking ---- */

/* Whether a soft limit was crossed, or is no longer crossed. A crossing ends an eighth below the limit, so a figure
 * that goes up and down around the limit makes one event. */
static bool has_soft_event(struct limit *l, struct jespan_limit_event *event)
{
    uint64_t soft = load_relaxed(&l->soft);
    bool over = load_relaxed(&l->over_soft);
    if (!soft || (over ? event->inuse_bytes >= soft - soft / 8 : event->inuse_bytes <= soft))
        return false;
    store_relaxed(&l->over_soft, !over);
    event->kind = over ? JESPAN_LIMIT_SOFT_CLEARED : JESPAN_LIMIT_SOFT;
    event->limit_bytes = soft;
    return true;
}

static bool has_hard_event(struct limit *l, struct jespan_limit_event *event)
{
    uint64_t refusals = load_relaxed(&l->refusals), now = clock_ns(CLOCK_MONOTONIC);
    uint64_t told = load_relaxed(&l->told_refusals), hard = load_relaxed(&l->hard);
    if (!hard) /* the limit was removed meanwhile */
        store_relaxed(&l->told_refusals, refusals);
    if (!hard || refusals == told)
        return false;
    bool is_too_soon = !is_last && l->told_ns && now - l->told_ns < HARD_NS;
    has_more |= is_too_soon;
    if (is_too_soon)
        return false;
    event->kind = JESPAN_LIMIT_HARD;
    event->limit_bytes = hard;
    event->refusals = refusals - told;
    store_relaxed(&l->told_refusals, refusals);
    l->told_ns = now;
    return true;
}

/* Under LOCK_TREE, so that the context is not recycled. */
static bool has_event(uint32_t index, bool (*has)(struct limit *, struct jespan_limit_event *),
                      struct jespan_limit_event *event, char path[PATH_BYTES])
{
    struct limit *l = limit_at(index);
    *event = (struct jespan_limit_event){.context = load_relaxed(&l->context)};
    if (!event->context)
        return false;
    event->inuse_bytes = limits_inuse(index);
    if (!has(l, event))
        return false;
    event->path = context_path(event->context, path, PATH_BYTES);
    return true;
}

static void look(uint32_t index, bool (*has)(struct limit *, struct jespan_limit_event *))
{
    struct jespan_limit_event event;
    char path[PATH_BYTES];
    lock(LOCK_TREE);
    bool found = has_event(index, has, &event, path);
    unlock(LOCK_TREE);
    if (found)
        tell(&event);
}

static void make_round(void)
{
    has_more = false;
    for (uint32_t index = 1; index < limits_end_index(); index++) {
        struct limit *l = limit_at(index);
        if (load_relaxed(&l->soft))
            look(index, has_soft_event);
        if (load_relaxed(&l->refusals) != load_relaxed(&l->told_refusals))
            look(index, has_hard_event);
    }
}

/* ---- The thread ---- */

static void wait_for_signal(void)
{
    bool looks = load_relaxed(&limits_have_soft) || has_more;
    uint64_t after_ns = lesser(conf.limit_interval_ms * NS_PER_MS, has_more ? HARD_NS : UINT64_MAX);
    if (!load_acquire(&limits_signal))
        futex_wait(&limits_signal, 0, looks ? clock_ns(CLOCK_MONOTONIC) + after_ns : UINT64_MAX);
    store_release(&limits_signal, 0);
    atomic_thread_fence(memory_order_seq_cst);
}

static void run(struct worker *w)
{
    is_last = false;
    do {
        make_round();
        if (worker_sleep(w, background_deadline(ROUND_MS)))
            wait_for_signal();
    } while (worker_sleep(w, 0));
    is_last = true;
    make_round();
}

static bool is_wanted(void)
{
    bool has_limits = limits_are_configured || limits_stats().limits;
    return has_limits && (load_relaxed(&callback) || load_relaxed(&limits_have_soft) ||
                          conf.on_limit == ON_LIMIT_EVENT || conf.on_limit == ON_LIMIT_DUMP);
}

int limit_events_start(void)
{
    int error = 0;
    if (!is_wanted())
        return 0;
    pthread_mutex_lock(&start_mutex);
    if (!started && !at_end) {
        error = worker_start(&worker, "jespan:limits", run);
        started = !error;
    }
    pthread_mutex_unlock(&start_mutex);
    limits_tell(); /* the limits may have changed */
    return error;
}

int limit_events_set_callback(jespan_limit_callback_t *fn, void *user)
{
    if (telling)
        return -EDEADLK;
    pthread_mutex_lock(&callback_mutex);
    jespan_limit_callback_t *before = load_relaxed(&callback);
    void *user_before = callback_user;
    store_relaxed(&callback, fn);
    callback_user = user;
    int error = limit_events_start();
    if (error) {
        store_relaxed(&callback, before);
        callback_user = user_before;
    }
    pthread_mutex_unlock(&callback_mutex);
    return error;
}

/* ---- Start and end of the process ---- */

/* In a setuid program, the thread starts only for limits that the program sets itself. */
bool limit_events_want_thread(void)
{
    return is_wanted() && !getauxval(AT_SECURE);
}

void limit_events_start_thread(void)
{
    int error = limit_events_start();
    if (error)
        WARN("the thread that watches limits cannot start: ", errno_text(-error), "; nobody is told of them");
}

void limit_events_ask_to_stop(void)
{
    pthread_mutex_lock(&start_mutex);
    at_end = true;
    worker_ask_to_stop(&worker);
    pthread_mutex_unlock(&start_mutex);
    limits_tell();
}

void limit_events_wait(uint64_t until_ns)
{
    if (!worker_wait(&worker, until_ns))
        WARN("the last event of a limit took longer than shutdown_timeout_ms and is given up");
}

COLD void limit_events_after_fork(void)
{
    FORKED_CLEAR(callback_mutex);
    FORKED_CLEAR(start_mutex);
    FORKED_CLEAR(telling);
    FORKED_CLEAR(started);
    FORKED_CLEAR(limits_signal);
    worker_after_fork(&worker);
    at_end = !conf.follow_fork;
}
