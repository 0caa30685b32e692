/* SPDX-License-Identifier: BSD-2-Clause */
/* What asks for a dump: events, peaks, and memory that is nearly used up. */
#include "report/event_watch.h"

#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/number.h"
#include "base/parse.h"
#include "conf/conf.h"

#define NS_PER_S 1000000000u
#define FIND_NS ((uint64_t)5 * NS_PER_S)
#define MACHINE_LEFT ((uint64_t)1 << 30) /* a large machine with more free memory than this is not near its end */
#define PEAK_LEAST_BYTES ((uint64_t)32 << 20)

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void begin_cooldown(struct event_watch *w, enum dump_reason reason)
{
    w->free_again_ns[reason] = now_ns() + conf.dump_on_interval_s * NS_PER_S;
    if (reason == DUMP_OOM)
        w->soon_again_ns = w->free_again_ns[DUMP_OOM];
    w->happened &= ~DUMP_BIT(reason);
    w->calls->done(w->arg, reason, w->free_again_ns[reason]);
}

/* ---- How much memory is left ---- */

static uint64_t threshold_of(const struct bound *b)
{
    uint64_t threshold = b->bytes / 100 * conf.dump_oom_percent;
    uint64_t least = b->kind == BOUND_MACHINE && b->bytes > MACHINE_LEFT ? b->bytes - MACHINE_LEFT : 0;
    return threshold > least ? threshold : least;
}

static void say_and_dump(struct event_watch *w, const struct bound *b)
{
    char used[NUMBER_BYTES], bytes[NUMBER_BYTES], why[160] = "oom: ";
    strcat(strcat(strcat(why, number_text(used, b->used, 10)), " of "), number_text(bytes, b->bytes, 10));
    strcat(strcat(why, " bytes are used of "), bound_name(b));
    w->calls->dump(w->arg, DUMP_OOM, why);
}

/* A dump for PACE_SOON has its own cooldown: a second dump follows if the threshold is really reached. */
static void dump_for_level(struct event_watch *w, const struct bound *b, enum pace_level level)
{
    say_and_dump(w, b);
    if (level == PACE_NOW)
        begin_cooldown(w, DUMP_OOM);
    else
        w->soon_again_ns = now_ns() + conf.dump_on_interval_s * NS_PER_S;
}

/* Whether memory is short even without counting file pages. */
static bool is_confirmed(struct event_watch *w, struct bound *b, enum pace_level level, uint64_t threshold)
{
    return bounds_read(&w->bounds, b, 0) && b->used >= (level == PACE_NOW ? threshold : b->bytes / 2);
}

/* Returns when to look again, in nanoseconds. */
static uint64_t look_at_bound(struct event_watch *w, struct bound *b, struct pace *p)
{
    uint64_t threshold = threshold_of(b);
    if (!bounds_read(&w->bounds, b, threshold))
        return UINT64_MAX;
    enum pace_level level = pace_look(p, b->used, b->bytes, threshold, now_ns());
    if (level > p->level && now_ns() >= (level == PACE_NOW ? w->free_again_ns[DUMP_OOM] : w->soon_again_ns) &&
        is_confirmed(w, b, level, threshold)) {
        dump_for_level(w, b, level);
        pace_acted(p, level, threshold);
    }
    return now_ns() + pace_next_ns(p, b->bytes, threshold);
}

static uint64_t look_at_pressure(struct event_watch *w)
{
    if (!conf.dump_pressure_percent)
        return UINT64_MAX;
    if (now_ns() < w->pressure_next_ns)
        return w->pressure_next_ns;
    unsigned percent = pressure_read(&w->pressure, now_ns());
    w->pressure_next_ns = now_ns() + PRESSURE_WINDOW_NS;
    if (w->is_pressed && 2 * percent < conf.dump_pressure_percent)
        w->is_pressed = false;
    if (!w->is_pressed && percent >= conf.dump_pressure_percent && now_ns() >= w->soon_again_ns) {
        char number[NUMBER_BYTES], why[160] = "oom: ";
        strcat(strcat(why, w->pressure.of_cgroup ? "the memory cgroup" : "the machine"), " lost ");
        strcat(strcat(why, number_text(number, percent, 10)), " % of its time to waiting for memory");
        w->is_pressed = true;
        w->calls->dump(w->arg, DUMP_OOM, why);
        w->soon_again_ns = now_ns() + conf.dump_on_interval_s * NS_PER_S;
    }
    return w->pressure_next_ns;
}

static uint64_t look_how_near(struct event_watch *w)
{
    if (now_ns() >= w->find_next_ns) {
        if (bounds_find(&w->bounds))
            memset(w->paces, 0, sizeof w->paces);
        pressure_find(&w->pressure, w->bounds.cgroup2);
        w->find_next_ns = now_ns() + FIND_NS;
    }
    uint64_t next = lesser(w->find_next_ns, look_at_pressure(w));
    for (unsigned i = 0; i < w->bounds.n; i++)
        next = lesser(next, look_at_bound(w, &w->bounds.bound[i], &w->paces[i]));
    return next;
}

/* ---- Peaks and events ---- */

static uint64_t look_at_peak(struct event_watch *w)
{
    uint64_t bytes = w->calls->mapped_bytes(w->arg);
    if (bytes < w->peak_bytes + w->peak_bytes / 100 * conf.dump_peak_percent)
        return now_ns() + PACE_SLOW_NS;
    if (now_ns() < w->free_again_ns[DUMP_PEAK])
        return w->free_again_ns[DUMP_PEAK];
    w->peak_bytes = bytes;
    w->calls->dump(w->arg, DUMP_PEAK, NULL);
    begin_cooldown(w, DUMP_PEAK);
    return now_ns() + PACE_SLOW_NS;
}

uint64_t event_watch_handle(struct event_watch *w)
{
    static const char *const why[DUMP_N_EVENTS] = {
        [DUMP_OOM] = "oom: an allocation failed for want of memory",
        [DUMP_LIMIT] = "limit: an allocation was refused by its limit"};
    uint64_t next = UINT64_MAX;
    for (enum dump_reason reason = 0; reason < DUMP_N_EVENTS; reason++) {
        if (!(w->happened & DUMP_BIT(reason)))
            continue;
        if (now_ns() < w->free_again_ns[reason]) {
            next = lesser(next, w->free_again_ns[reason]);
            continue;
        }
        w->calls->dump(w->arg, reason, why[reason]);
        begin_cooldown(w, reason);
    }
    return next;
}

void event_watch_handle_last(struct event_watch *w)
{
    memset(w->free_again_ns, 0, sizeof w->free_again_ns);
    event_watch_handle(w);
}

/* ---- All ---- */

void event_watch_begin(struct event_watch *w, const struct event_watch_calls *calls, void *arg, uint32_t wanted, pid_t pid)
{
    *w = (struct event_watch){.calls = calls, .arg = arg, .wanted = wanted, .bounds = {.root = "", .pid = pid},
                              .pressure.root = "", .peak_bytes = PEAK_LEAST_BYTES};
}

uint64_t event_watch_look(struct event_watch *w)
{
    uint64_t until = event_watch_handle(w);
    if (w->wanted & DUMP_BIT(DUMP_OOM))
        until = lesser(until, look_how_near(w));
    if (w->wanted & DUMP_BIT(DUMP_PEAK))
        until = lesser(until, look_at_peak(w));
    return until;
}

void event_watch_end(struct event_watch *w)
{
    bounds_close(&w->bounds);
    pressure_close(&w->pressure);
}

/* ---- The configuration ---- */

uint32_t event_watch_read(const char *list, conf_wrong_item *wrong, const char *key)
{
    char words[CONF_STRING_BYTES], *rest = strcpy(words, list);
    uint32_t reasons = 0;
    for (const char *word; (word = list_take(&rest));) {
        enum dump_reason reason = 0;
        while (reason < DUMP_N_EVENTS && strcmp(word, dump_reason_names[reason]) != 0)
            reason++;
        if (reason < DUMP_N_EVENTS)
            reasons |= DUMP_BIT(reason);
        else if (wrong)
            wrong(key, word, "is none of oom|limit|peak|signal");
    }
    return reasons;
}

uint32_t event_watch_wanted(bool says)
{
    uint32_t asked_for = event_watch_read(conf.dump_on, says ? conf_warn_item : NULL, "dump_on");
    return asked_for | (conf.on_limit == ON_LIMIT_DUMP ? DUMP_BIT(DUMP_LIMIT) : 0);
}
