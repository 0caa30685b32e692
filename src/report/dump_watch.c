/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that writes dumps for events. */
#include "report/dump_watch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/memory_bounds.h"
#include "base/meta.h"
#include "base/number.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "jemalloc-hooks/extents.h"
#include "report/background.h"
#include "report/dump.h"
#include "report/dump_signal.h"
#include "snapshot/top_holders.h"

#define NS_PER_S 1000000000u
#define FIND_NS ((uint64_t)5 * NS_PER_S)
#define MACHINE_LEFT ((uint64_t)1 << 30) /* a large machine with more free memory than this is not near its end */
#define PEAK_LEAST_BYTES ((uint64_t)32 << 20)

static struct worker worker;
static uint32_t wanted; /* DUMP_BIT() of each configured reason */
static _Atomic bool stopping;

/* Only the thread uses the rest. */
static uint64_t free_again_ns[DUMP_N_EVENTS]; /* when the cooldown of that reason ends */
static uint64_t soon_again_ns;                 /* when the cooldown of a forecast or of memory pressure ends */
static struct bounds bounds = {.root = ""};
static struct pace paces[BOUNDS_MAX];
static struct pressure pressure = {.root = ""};
static uint64_t find_next_ns, pressure_next_ns, peak_bytes;
static bool is_pressed; /* a dump was written for memory pressure, and pressure is not below half the limit since */

/* ---- A dump ---- */

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Comes before the dump, because the process may be killed during the dump. */
static void say_who(const char *why)
{
    char text[TOP_HOLDERS_TEXT_BYTES];
    top_holders_describe(text);
    WARN(why, "; ", text);
}

static void act(enum dump_reason reason, const char *why)
{
    meta_emergency_begin();
    if (why)
        say_who(why);
    dump_at_once(reason);
    meta_emergency_end();
}

static void begin_cooldown(enum dump_reason reason)
{
    free_again_ns[reason] = now_ns() + conf.dump_on_interval_s * NS_PER_S;
    if (reason == DUMP_OOM)
        soon_again_ns = free_again_ns[DUMP_OOM];
    dump_on_done(reason, free_again_ns[reason]);
}

/* ---- How much memory is left ---- */

static uint64_t threshold_of(const struct bound *b)
{
    uint64_t threshold = b->bytes / 100 * conf.dump_oom_percent;
    uint64_t least = b->kind == BOUND_MACHINE && b->bytes > MACHINE_LEFT ? b->bytes - MACHINE_LEFT : 0;
    return threshold > least ? threshold : least;
}

static void say_and_dump(const struct bound *b)
{
    char used[NUMBER_BYTES], bytes[NUMBER_BYTES], why[160] = "oom: ";
    strcat(strcat(strcat(why, number_text(used, b->used, 10)), " of "), number_text(bytes, b->bytes, 10));
    strcat(strcat(why, " bytes are used of "), bound_name(b));
    act(DUMP_OOM, why);
}

/* A dump for PACE_SOON has its own cooldown: a second dump follows if the threshold is really reached. */
static void dump_for_level(const struct bound *b, enum pace_level level)
{
    say_and_dump(b);
    if (level == PACE_NOW)
        begin_cooldown(DUMP_OOM);
    else
        soon_again_ns = now_ns() + conf.dump_on_interval_s * NS_PER_S;
}

/* Whether memory is short even without counting file pages. */
static bool is_confirmed(struct bound *b, enum pace_level level, uint64_t threshold)
{
    return bounds_read(&bounds, b, 0) && b->used >= (level == PACE_NOW ? threshold : b->bytes / 2);
}

/* Returns when to look again, in nanoseconds. */
static uint64_t look_at_bound(struct bound *b, struct pace *p)
{
    uint64_t threshold = threshold_of(b);
    if (!bounds_read(&bounds, b, threshold))
        return UINT64_MAX;
    enum pace_level level = pace_look(p, b->used, b->bytes, threshold, now_ns());
    if (level > p->level && now_ns() >= (level == PACE_NOW ? free_again_ns[DUMP_OOM] : soon_again_ns) &&
        is_confirmed(b, level, threshold)) {
        dump_for_level(b, level);
        pace_acted(p, level, threshold);
    }
    return now_ns() + pace_next_ns(p, b->bytes, threshold);
}

static uint64_t look_at_pressure(void)
{
    if (!conf.dump_pressure_percent)
        return UINT64_MAX;
    if (now_ns() < pressure_next_ns)
        return pressure_next_ns;
    unsigned percent = pressure_read(&pressure, now_ns());
    pressure_next_ns = now_ns() + PRESSURE_WINDOW_NS;
    if (is_pressed && 2 * percent < conf.dump_pressure_percent)
        is_pressed = false;
    if (!is_pressed && percent >= conf.dump_pressure_percent && now_ns() >= soon_again_ns) {
        char number[NUMBER_BYTES], why[160] = "oom: ";
        strcat(strcat(why, pressure.of_cgroup ? "the memory cgroup" : "the machine"), " lost ");
        strcat(strcat(why, number_text(number, percent, 10)), " % of its time to waiting for memory");
        is_pressed = true;
        act(DUMP_OOM, why);
        soon_again_ns = now_ns() + conf.dump_on_interval_s * NS_PER_S;
    }
    return pressure_next_ns;
}

static uint64_t look_how_near(void)
{
    if (now_ns() >= find_next_ns) {
        if (bounds_find(&bounds))
            memset(paces, 0, sizeof paces);
        pressure_find(&pressure, bounds.cgroup2);
        find_next_ns = now_ns() + FIND_NS;
    }
    uint64_t next = lesser(find_next_ns, look_at_pressure());
    for (unsigned i = 0; i < bounds.n; i++)
        next = lesser(next, look_at_bound(&bounds.bound[i], &paces[i]));
    return next;
}

/* ---- Peaks and events ---- */

static uint64_t look_at_peak(void)
{
    uint64_t bytes = load_relaxed(&extents_heap.mapped_bytes);
    if (bytes < peak_bytes + peak_bytes / 100 * conf.dump_peak_percent)
        return now_ns() + PACE_SLOW_NS;
    if (now_ns() < free_again_ns[DUMP_PEAK])
        return free_again_ns[DUMP_PEAK];
    peak_bytes = bytes;
    act(DUMP_PEAK, NULL);
    begin_cooldown(DUMP_PEAK);
    return now_ns() + PACE_SLOW_NS;
}

/* Handles events past their cooldown; keeps the rest. Returns when the next cooldown ends. */
static uint64_t handle_events(uint32_t *happened)
{
    static const char *const why[DUMP_N_EVENTS] = {
        [DUMP_OOM] = "oom: an allocation failed for want of memory",
        [DUMP_LIMIT] = "limit: an allocation was refused by its limit"};
    uint64_t next = UINT64_MAX;
    for (enum dump_reason reason = 0; reason < DUMP_N_EVENTS; reason++) {
        if (!(*happened & DUMP_BIT(reason)))
            continue;
        if (now_ns() < free_again_ns[reason]) {
            next = lesser(next, free_again_ns[reason]);
            continue;
        }
        act(reason, why[reason]);
        begin_cooldown(reason);
        *happened &= ~DUMP_BIT(reason);
    }
    return next;
}

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
    uint32_t happened = 0;
    prepare();
    peak_bytes = PEAK_LEAST_BYTES;
    while (!load_relaxed(&stopping)) {
        uint64_t until = handle_events(&happened);
        if (wanted & DUMP_BIT(DUMP_OOM))
            until = lesser(until, look_how_near());
        if (wanted & DUMP_BIT(DUMP_PEAK))
            until = lesser(until, look_at_peak());
        happened |= dump_on_wait(until);
    }
    happened |= dump_on_wait(0); /* an event may be the reason why the program ends */
    handle_events(&happened);
    dump_on_accept(0);
}

/* ---- Start and end ---- */

uint32_t dump_watch_parse(const char *text)
{
    char words[CONF_STRING_BYTES], *rest = strcpy(words, text);
    uint32_t reasons = 0;
    for (const char *word; (word = list_take(&rest));) {
        enum dump_reason reason = 0;
        while (reason < DUMP_N_EVENTS && strcmp(word, dump_reason_names[reason]) != 0)
            reason++;
        if (reason < DUMP_N_EVENTS)
            reasons |= DUMP_BIT(reason);
        else
            WARN("dump_on: '", word, "' is none of oom|limit|peak|signal and is ignored");
    }
    return reasons;
}

static void say_no_signal(void)
{
    WARN("dump_signal: '", conf.dump_signal, "' is not a signal that can request a dump, and is ignored");
}

static void install_signal(void)
{
    int error = dump_signal_install(conf.dump_signal);
    if (!error)
        return;
    wanted &= ~DUMP_BIT(DUMP_SIGNAL);
    if (error == -EBUSY)
        WARN("dump_signal: '", conf.dump_signal, "' is ignored: the program has a handler for this signal");
    else
        say_no_signal();
}

void dump_watch_start(void)
{
    wanted = dump_watch_parse(conf.dump_on);
    if (conf.on_limit == ON_LIMIT_DUMP)
        wanted |= DUMP_BIT(DUMP_LIMIT);
    bool names_signal = wanted & DUMP_BIT(DUMP_SIGNAL);
    if (wanted && !conf.dump_dir[0]) {
        WARN("dump_on and on_limit:dump need dump_dir, and are ignored");
        wanted = 0;
    }
    if (wanted & DUMP_BIT(DUMP_SIGNAL))
        install_signal();
    else if (conf.dump_signal[0] && !dump_signal_parse(conf.dump_signal))
        say_no_signal();
    else if (conf.dump_signal[0] && !names_signal && !conf_is_silent)
        WARN("dump_signal needs dump_on:signal, and is ignored");
    if (!wanted)
        return;
    store_relaxed(&stopping, false);
    dump_on_accept(wanted);
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
    if (!conf.dump_on[0])
        return;
    dump_on_accept(0);
    dump_signal_remove();
    memset(free_again_ns, 0, sizeof free_again_ns);
    memset(paces, 0, sizeof paces);
    bounds_close(&bounds);
    pressure_close(&pressure);
    find_next_ns = soon_again_ns = pressure_next_ns = 0;
    is_pressed = false;
    if (worker_after_fork(&worker) && conf.follow_fork)
        dump_watch_start();
}
