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
 * Only the owner writes; others may read by cpu_clock_of().
 */
#ifndef JESPAN_CPU_CLOCK_H
#define JESPAN_CPU_CLOCK_H

#include "clock.h"

struct cpu_clock {
    volatile uint64_t *watched; /* holds `standing` while CPU time in ticks is clock_ticks() + offset */
    uint64_t standing;
    uint64_t offset;
    _Atomic int thread_id;
    /* The last reading; odd while it is being written. */
    _Atomic uint32_t sequence;
    _Atomic uint64_t ticks, ns;
    uint64_t system_ns; /* the part of it in the kernel, by getrusage(2) */
};

enum cpu_clock_kind { CPU_CLOCK_AUTO, CPU_CLOCK_RSEQ, CPU_CLOCK_THREAD, CPU_CLOCK_RUSAGE, CPU_CLOCK_NONE };

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
    return *c->watched == c->standing;
}

/* CPU time in ticks, from an arbitrary point on, at a time by clock_ticks(). */
HOT_INLINE uint64_t cpu_clock_ticks(const struct cpu_clock *c, uint64_t now)
{
    return now + c->offset;
}

/* Reads the CPU time from the kernel. Returns the time by clock_ticks() that it belongs to; *system gets the ticks in the
 * kernel since the last reading, 0 where the clock does not tell. */
uint64_t cpu_clock_read(struct cpu_clock *c, uint64_t *system);

/* The CPU time in ticks of any thread now; that of its last reading where the thread is gone. */
uint64_t cpu_clock_of(struct cpu_clock *c);

#endif
