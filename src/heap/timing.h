/* SPDX-License-Identifier: BSD-2-Clause */
/* Time by context: at any moment a thread's time passes for one context.
 *
 * A time is one word, which a reader can read at any moment, also while time passes. When a context's time begins, the
 * clock and TIME_INSIDE are subtracted from the word. When it ends, both are added again. So while no time passes, the
 * word is the time that has passed. While time passes, the word is lower by the begin and TIME_INSIDE. A reader sees
 * that and adds the time since the begin. A span's time from open to close may begin several times before it ends, so a
 * count beside the word tells how often. All arithmetic is modulo 2^64. Times are far below 2^60.
 */
#ifndef JESPAN_TIMING_H
#define JESPAN_TIMING_H

#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "heap/counters.h"
#include "heap/thread.h"

#define TIME_INSIDE ((uint64_t)1 << 62)
#define TIME_OPEN ((uint64_t)1 << 61)

extern INTERNAL bool timing_is_on; /* constant after timing_boot() */
extern INTERNAL bool timing_is_raw; /* the same, and the clock is the processor's counter */

/* Whether each switch of time is recorded as an event. If so, timing_switch() always calls timing_read_clocks(), which
 * it otherwise does only where the CPU clock must be read. So recording costs no instruction where it is off. */
extern bool timing_is_recorded;

/* To be called once. Reads the configuration. */
void timing_boot(void);

/* The thread's time begins to pass for `to`. From then on it passes for some context, until timing_end(). */
void timing_begin(struct thread *t, struct counters *to);
void timing_end(struct thread *t);

/* In a forked child. timing_abandon() ends the times in the counters of a thread that does not exist there.
 * timing_after_fork() gives the thread that does its new clock. */
void timing_abandon(const struct thread *t, struct counters *c);
void timing_after_fork(struct thread *t);

/* Reads the thread's CPU clock if that is due, since the thread may have left its processor, and records the event at
 * `now`, or at the time of the reading. Returns that time. The entries are those after the event. */
uint64_t timing_read_clocks(struct thread *t, uint64_t now);

/* Defined in span/events.c, above this folder: time passes for the context of the innermost entry from `now` on; time ends
 * for the thread. */
void timing_record(struct thread *t, uint64_t now);
void timing_record_end(struct thread *t, uint64_t now);

/* The time in ticks; 0 where times are not tracked. */
HOT_INLINE uint64_t timing_now(void)
{
    return likely(timing_is_raw) ? clock_raw() : timing_is_on ? clock_ticks() : 0;
}

/* Time passes for `to` from `now` on, at which the CPU clock stands. */
HOT_INLINE void timing_pass(struct thread *t, struct counters *to, uint64_t now)
{
    struct counters *from = t->timed;
    uint64_t cpu = cpu_clock_ticks(&t->cpu, now) + TIME_INSIDE;
    own_add(&from->busy, now + TIME_INSIDE);
    own_add(counters_cpu(from), cpu);
    own_add(&to->busy, -(now + TIME_INSIDE));
    own_add(counters_cpu(to), -cpu);
    t->timed = to;
}

/* Time passes for `to` from now on: `now` is of timing_now(). Returns the time in ticks, or 0 where times are not tracked.
 *
 * Many processors read their counter only when all instructions before it are done, and begin those after it when it is read.
 * So the fast paths read the clock in the middle of what they do: then what follows the reading of an enter and what
 * precedes that of the next exit, neither of which waits for the other, run at the same time. */
HOT_INLINE uint64_t timing_switch_at(struct thread *t, struct counters *to, uint64_t now)
{
    if (unlikely(!now))
        return 0;
    if (unlikely(!cpu_clock_stands(&t->cpu)))
        now = timing_read_clocks(t, now);
    timing_pass(t, to, now);
    return now;
}

HOT_INLINE uint64_t timing_switch(struct thread *t, struct counters *to)
{
    return timing_switch_at(t, to, timing_now());
}

/* A JESPAN() block of this context begins, or ends, at `now` on this thread. Its counters_more are in use. */
HOT_INLINE void timing_open_block(struct counters *c, uint64_t now)
{
    struct counters_more *more = counters_more(c);
    own_add(&more->opens, ((uint64_t)1 << OPENS_SHIFT) + 1);
    own_add(&more->wall, -(now + TIME_OPEN));
}

HOT_INLINE void timing_close_block(struct counters *c, uint64_t now)
{
    struct counters_more *more = counters_more(c);
    own_add(&more->opens, -(uint64_t)1);
    own_add(&more->wall, now + TIME_OPEN);
}

/* The block goes on, and its time passes for another context's counters. */
HOT_INLINE void timing_move_block(struct counters *from, struct counters *to, uint64_t now)
{
    timing_close_block(from, now);
    struct counters_more *more = counters_use_more(to);
    own_add(&more->opens, 1);
    own_add(&more->wall, -(now + TIME_OPEN));
}

/* Whether no time passes in this word. Most are like that. */
HOT_INLINE bool timing_is_over(uint64_t word)
{
    return word < TIME_OPEN / 2;
}

/* The time of a word at the moment `now`. It is raised to 0, since clocks of two processors may differ by some
 * ticks. */
HOT_INLINE uint64_t timing_resolve(uint64_t word, uint64_t now)
{
    if (likely(timing_is_over(word)))
        return word;
    /* The number of ends minus the number of begins: −1 while time passes. */
    int64_t ended = (int64_t)(word + TIME_INSIDE / 2) >> 62;
    word -= (uint64_t)ended * (TIME_INSIDE + now);
    return (int64_t)word < 0 ? 0 : word;
}

/* The same for a word with `n` begins that have not ended. The count was not read at the same moment, so it may differ
 * by a few. */
HOT_INLINE uint64_t timing_resolve_open(uint64_t word, uint64_t n, uint64_t now)
{
    if (likely(!n && timing_is_over(word)))
        return word;
    word += n * (TIME_OPEN + now);
    int64_t ended = (int64_t)(word + TIME_OPEN / 2) >> 61;
    word -= (uint64_t)ended * (TIME_OPEN + now);
    return (int64_t)word < 0 ? 0 : word;
}

#endif
