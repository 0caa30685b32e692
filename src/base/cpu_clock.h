/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's CPU time, without a system call where the kernel lets us see that the thread never left its processor.
 *
 * glibc registers a restartable sequence (rseq(2)) for every thread. Of a critical section that the thread is not in, the
 * kernel clears the pointer, rseq_cs, whenever it has preempted, migrated or signalled the thread. So we point it at a
 * section that nobody ever executes: as long as the pointer stands, the thread has been on its processor all the time,
 * and its CPU time went on by as much as the clock. Once it is cleared, or a sequence of the program's own is in its
 * place, CPU time is read from the kernel, and the pointer is set again. Whether all that is so is tried on first use;
 * else every reading is a system call.
 *
 * A program may take the area away from the kernel, to use one of its own. Then the pointer would stand for good. So snapshots, and
 * whatever else comes rarely, have the thread look at its area again: cpu_clock_doubt().
 *
 * Only the owner writes, but for `standing`; others may read by cpu_clock_of().
 */
#ifndef JESPAN_CPU_CLOCK_H
#define JESPAN_CPU_CLOCK_H

#include "base/clock.h"

struct cpu_clock {
    volatile uint64_t *watched; /* holds `standing` while CPU time in ticks is clock_ticks() + offset */
    _Atomic uint64_t standing;
    uint64_t offset;
    _Atomic uint32_t sequence; /* of readings; the last one is readings[sequence % 2], so that a reader never waits */
    struct cpu_reading {
        _Atomic int thread_id;
        _Atomic uint64_t ticks, ns;
    } readings[2];
    uint64_t system_ns; /* the part of it in the kernel, by getrusage(2) */
};

/* In place of what stands, which is an address. */
#define CPU_CLOCK_NEVER 1
#define CPU_CLOCK_DOUBTED 2

enum cpu_clock_kind { CPU_CLOCK_AUTO, CPU_CLOCK_RSEQ, CPU_CLOCK_THREAD, CPU_CLOCK_RUSAGE, CPU_CLOCK_NONE };

/* Any thread: at its next enter or exit the owner looks whether the kernel still knows of its area. */
static inline void cpu_clock_doubt(struct cpu_clock *c)
{
    if (load_relaxed(&c->standing) > CPU_CLOCK_DOUBTED)
        store_relaxed(&c->standing, CPU_CLOCK_DOUBTED);
}

/* Threads whose area was taken away after they had begun to rely on it. */
extern _Atomic uint64_t cpu_clock_lost;

/* Once. With CPU_CLOCK_NONE no time is ever read, and what cpu_clock_ticks() says means nothing. */
void cpu_clock_boot(enum cpu_clock_kind kind);

/* What is in use: never CPU_CLOCK_AUTO once a thread has read its clock. */
enum cpu_clock_kind cpu_clock_in_use(void);

/* On a thread that begins, and on the one that lives on in a forked child. */
void cpu_clock_start(struct cpu_clock *c);

/* False: cpu_clock_read() is due. After, not before, the clock is read that cpu_clock_ticks() gets. */
HOT_INLINE bool cpu_clock_stands(const struct cpu_clock *c)
{
    compiler_barrier();
    return *c->watched == load_relaxed(&c->standing);
}

/* CPU time in ticks, from an arbitrary point on, at a time by clock_ticks(). */
HOT_INLINE uint64_t cpu_clock_ticks(const struct cpu_clock *c, uint64_t now)
{
    return now + c->offset;
}

/* Reads the CPU time from the kernel. Returns the time by clock_ticks() that it belongs to; *system gets the ticks in the
 * kernel since the last reading, 0 where the clock does not tell. */
uint64_t cpu_clock_read(struct cpu_clock *c, uint64_t *system);

/* What the last reading said. Of the owner, or of a thread that is gone. */
static inline uint64_t cpu_clock_last(const struct cpu_clock *c)
{
    return load_relaxed(&c->readings[load_relaxed(&c->sequence) % 2].ticks);
}

/* In a forked child: what it says from now on. */
static inline void cpu_clock_set_last(struct cpu_clock *c, uint64_t ticks)
{
    store_relaxed(&c->readings[load_relaxed(&c->sequence) % 2].ticks, ticks);
}

/* The CPU time in ticks of any thread now; that of its last reading where the thread is gone. */
uint64_t cpu_clock_of(struct cpu_clock *c);

#endif
