/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that writes dumps for events. */
#include "report/dump_watch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "jemalloc-hooks/extents.h"
#include "report/background.h"
#include "report/dump.h"
#include "report/event_watch.h"
#include "report/goodbye.h"
#include "report/signals.h"
#include "snapshot/top_holders.h"

static struct worker worker;
static uint32_t wanted; /* DUMP_BIT() of each configured reason */
static bool is_left;    /* the sidecar watches */
static _Atomic bool stopping;
static struct event_watch watch; /* only the thread uses it */

/* ---- A dump ---- */

/* Comes before the dump, because the process may be killed during the dump. */
static void say_who(const char *why)
{
    char text[TOP_HOLDERS_TEXT_BYTES];
    top_holders_describe(text);
    WARN(why, "; ", text);
}

static void dump(void *unused, enum dump_reason reason, const char *why)
{
    (void)unused;
    meta_emergency_begin();
    if (why)
        say_who(why);
    dump_at_once(reason);
    meta_emergency_end();
}

static void done(void *unused, enum dump_reason reason, uint64_t quiet_until_ns)
{
    (void)unused;
    dump_on_done(reason, quiet_until_ns);
}

static uint64_t mapped_bytes(void *unused)
{
    (void)unused;
    return load_relaxed(&extents_heap.mapped_bytes);
}

static const struct event_watch_calls calls = {dump, done, mapped_bytes};

/* ---- The thread ---- */

/* Touches everything that a dump needs once: memory, the stack of this thread, and code. */
static void prepare(void)
{
    if (access(conf.dump_dir, W_OK | X_OK))
        WARN("dump_dir: '", conf.dump_dir, "' cannot be written to: ", errno_text(errno), "; dumps will fail");
    if (meta_set_aside(conf.dump_reserve_bytes))
        WARN("there is no memory to set aside (dump_reserve_bytes); dumps may fail when memory runs out");
    meta_emergency_begin();
    char text[TOP_HOLDERS_TEXT_BYTES];
    top_holders_describe(text);
    int error = dump_rehearse();
    if (!meta_emergency_end() || (error && error != -ENOPKG)) /* a missing exporter was reported already */
        WARN("dump_reserve_bytes is not enough for a dump now; set it higher");
}

static void run(struct worker *w)
{
    (void)w;
    prepare();
    event_watch_begin(&watch, &calls, NULL, wanted, 0);
    while (!load_relaxed(&stopping))
        watch.happened |= dump_on_wait(event_watch_look(&watch));
    watch.happened |= dump_on_wait(0); /* an event may be the reason why the program ends */
    event_watch_handle_last(&watch);
    dump_on_accept(0);
}

/* ---- Start and end ---- */

static void say_no_signal(void)
{
    if (!conf.dump_signal[0])
        WARN("dump_on:signal needs dump_signal, such as dump_signal:USR2, and is ignored");
    else
        WARN("dump_signal: '", conf.dump_signal, "' is not a signal that can request a dump, and is ignored");
}

static void handle(int number)
{
    (void)number;
    dump_on_event(DUMP_SIGNAL);
}

static struct own_signal own_signal = {.handle = handle};

static void install_signal(void)
{
    int error = signals_install(&own_signal, conf.dump_signal);
    if (!error)
        return;
    wanted &= ~DUMP_BIT(DUMP_SIGNAL);
    if (error == -EBUSY)
        WARN("dump_signal: '", conf.dump_signal, "' is ignored: the program has a handler for this signal");
    else
        say_no_signal();
}

bool dump_watch_wants_thread(void)
{
    return wanted && !is_left;
}

void dump_watch_boot(void)
{
    uint32_t reasons = event_watch_wanted(true);
    wanted = conf.sidecar[0] && !goodbye_is_served() ? 0 : reasons; /* a thread could break a sandbox */
    bool names_signal = reasons & DUMP_BIT(DUMP_SIGNAL);
    if (wanted && !conf.dump_dir[0]) {
        WARN("dump_on and on_limit:dump need dump_dir, and are ignored");
        wanted = 0;
    }
    if (wanted & DUMP_BIT(DUMP_SIGNAL))
        install_signal();
    else if (conf.dump_signal[0] && !signals_parse(conf.dump_signal))
        say_no_signal();
    else if (conf.dump_signal[0] && !names_signal && !conf_is_silent)
        WARN("dump_signal needs dump_on:signal, and is ignored");
    is_left = wanted && goodbye_leave_events(wanted);
    if (dump_watch_wants_thread())
        dump_on_accept(wanted & ~DUMP_BIT(DUMP_OOM)); /* an allocation that fails would wait for the thread */
}

/* Events that came before it are handled now. */
void dump_watch_start_thread(void)
{
    store_relaxed(&stopping, false);
    dump_on_accept_more(wanted);
    int error = worker_start(&worker, "jespan:oom", run);
    if (error) {
        dump_on_accept(0);
        WARN("the thread for dump_on cannot start: ", errno_text(-error), "; dump_on is ignored");
    }
}

void dump_watch_ask_to_stop(void)
{
    store_relaxed(&stopping, true);
    dump_on_wake();
}

void dump_watch_wait(uint64_t until_ns)
{
    if (!worker_wait(&worker, until_ns))
        WARN("the dump for an event took longer than shutdown_timeout_ms and is given up");
}

COLD void dump_watch_after_fork(void)
{
    if (!wanted)
        return;
    dump_on_accept(0);
    event_watch_end(&watch);
    worker_after_fork(&worker);
    wanted = 0;
    if (conf.follow_fork)
        dump_watch_boot();
    if (!(wanted & DUMP_BIT(DUMP_SIGNAL))) /* without the handler, the signal would end the process */
        signals_remove(&own_signal);
}
