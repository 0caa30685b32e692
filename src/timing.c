/* SPDX-License-Identifier: BSD-2-Clause */
/* Time by context: beginning and end, and what is off the hot path. */
#include "timing.h"

#include "conf.h"

bool timing_is_on;

COLD void timing_boot(void)
{
    clock_boot();
    timing_is_on = conf.track_time != TRACK_TIME_OFF;
    cpu_clock_boot(conf.track_time == TRACK_TIME_CPU ? (enum cpu_clock_kind)conf.cpu_clock : CPU_CLOCK_NONE);
}

COLD void timing_begin(struct thread *t, struct counters *to)
{
    if (!timing_is_on)
        return;
    cpu_clock_start(&t->cpu);
    uint64_t now = clock_ticks(), cpu = cpu_clock_ticks(&t->cpu, now);
    t->timed = to;
    own_add(&to->busy, -(now + TIME_INSIDE));
    own_add(&counters_more(to)->cpu, -(cpu + TIME_INSIDE));
}

static void end(struct thread *t, uint64_t now, uint64_t cpu)
{
    struct counters *from = t->timed;
    t->timed = NULL;
    own_add(&from->busy, now + TIME_INSIDE);
    own_add(&counters_more(from)->cpu, cpu + TIME_INSIDE);
}

COLD void timing_end(struct thread *t)
{
    if (!t->timed)
        return;
    uint64_t now = timing_read_clocks(t);
    end(t, now, cpu_clock_ticks(&t->cpu, now));
}

/* Its CPU time went on since the last reading, but nobody can tell how far. */
COLD void timing_abandon(struct thread *t)
{
    if (t->timed)
        end(t, clock_ticks(), load_relaxed(&t->cpu.ticks));
}

COLD void timing_after_fork(struct thread *t)
{
    if (t->timed)
        cpu_clock_start(&t->cpu);
}

COLD uint64_t timing_read_clocks(struct thread *t)
{
    uint64_t system, now = cpu_clock_read(&t->cpu, &system);
    if (system)
        own_add(&counters_more(t->timed)->cpu_system, system);
    return now;
}
