/* SPDX-License-Identifier: BSD-2-Clause */
/* Time by context: all functions off the hot path. */
#include "heap/timing.h"

#include "conf/conf.h"

bool timing_is_on, timing_is_raw, timing_is_recorded;

COLD void timing_boot(void)
{
    clock_boot();
    timing_is_on = conf.track_time != TRACK_TIME_OFF;
    timing_is_raw = timing_is_on && clock_is_raw;
    cpu_clock_boot(conf.track_time == TRACK_TIME_CPU ? (enum cpu_clock_kind)conf.cpu_clock : CPU_CLOCK_NONE);
    timing_is_recorded = timing_is_on && (conf.events_file[0] || conf.trace_file[0]);
    cpu_clock_always_asks = timing_is_recorded;
}

COLD void timing_begin(struct thread *t, struct counters *to)
{
    if (!timing_is_on)
        return;
    cpu_clock_start(&t->cpu);
    uint64_t now = clock_ticks(), cpu = cpu_clock_ticks(&t->cpu, now);
    t->timed = to;
    t->began = now;
    own_add(&to->busy, -(now + TIME_INSIDE));
    own_add(counters_cpu(to), -(cpu + TIME_INSIDE));
}

static COLD uint64_t read_clocks(struct thread *t)
{
    struct cpu_split split;
    uint64_t now = cpu_clock_read(&t->cpu, &split);
    if (split.user | split.system) {
        struct counters_more *more = counters_use_more(t->timed);
        own_add(&more->cpu_user, split.user);
        own_add(&more->cpu_system, split.system);
    }
    return now;
}

COLD void timing_end(struct thread *t)
{
    if (!t->timed)
        return;
    uint64_t now = read_clocks(t);
    struct counters *from = t->timed;
    if (timing_is_recorded)
        timing_record_end(t, now);
    t->timed = NULL;
    own_add(&from->busy, now + TIME_INSIDE);
    own_add(counters_cpu(from), cpu_clock_ticks(&t->cpu, now) + TIME_INSIDE);
}

/* Its CPU time grew since the last reading, but that time is unknown. */
COLD void timing_abandon(const struct thread *t, struct counters *c)
{
    struct counters_more *more = counters_used_more(c);
    uint64_t now = timing_now();
    store_relaxed(&c->busy, timing_resolve(load_relaxed(&c->busy), now));
    store_relaxed(counters_cpu(c), timing_resolve(load_relaxed(counters_cpu(c)), cpu_clock_last(&t->cpu)));
    if (!more)
        return;
    uint64_t n = load_relaxed(&more->opens) & (((uint64_t)1 << OPENS_SHIFT) - 1);
    store_relaxed(&more->wall, timing_resolve_open(load_relaxed(&more->wall), n, now));
    own_add(&more->opens, -n);
}

COLD void timing_after_fork(struct thread *t)
{
    if (!t->timed)
        return;
    cpu_clock_start_forked(&t->cpu, t->cpu_at_fork, t->thread_id);
}

NOINLINE uint64_t timing_read_clocks(struct thread *t, uint64_t now)
{
    if (!timing_is_recorded)
        return read_clocks(t);
    if (unlikely(!cpu_clock_really_stands(&t->cpu)))
        now = read_clocks(t);
    timing_record(t, now);
    return now;
}
