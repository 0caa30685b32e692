/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's CPU time, without a system call while the thread has not left its processor.
 *
 * glibc registers a restartable sequence (rseq(2)) for every thread. The thread's area has a pointer to a critical
 * section, rseq_cs. When the kernel has preempted, migrated or signalled the thread outside that section, it clears the
 * pointer. So we point it at a section that nobody ever executes. While the pointer stands, the thread has been on its
 * processor all the time, and its CPU time grew as much as the clock. Once the pointer is cleared, or points to a
 * sequence of the program, we read CPU time from the kernel and set the pointer again. The first use tries out whether
 * the kernel works like this. Where it does not, every reading is a system call.
 *
 * A program may unregister the area, to use its own. Then the kernel would never clear the pointer. So snapshots and
 * other rare events make each thread look at its area again: cpu_clock_doubt().
 *
 * Only the owner writes, except `standing`. Other threads read by cpu_clock_of().
 */
#ifndef JESPAN_CPU_CLOCK_H
#define JESPAN_CPU_CLOCK_H

#include "base/clock.h"

struct cpu_clock {
    volatile uint64_t *asked;   /* what cpu_clock_stands() asks: `watched`, or a word that never stands */
    volatile uint64_t *watched; /* holds `standing` while CPU time in ticks is clock_ticks() + offset */
    _Atomic uint64_t standing;
    uint64_t offset;
    _Atomic uint32_t sequence; /* of readings; readings[sequence % 2] is the last one, so no reader waits */
    struct cpu_reading {
        _Atomic int thread_id;
        _Atomic uint64_t ticks, ns;
    } readings[2];
    uint64_t system_ns; /* the part of `ns` spent in the kernel, by getrusage(2) */
};

/* The two parts of CPU time, in ticks. Both are 0 where the clock does not tell them apart. */
struct cpu_split {
    uint64_t user, system;
};

/* Values of `standing` that are no address. */
#define CPU_CLOCK_NEVER 1
#define CPU_CLOCK_DOUBTED 2

enum cpu_clock_kind { CPU_CLOCK_AUTO, CPU_CLOCK_RSEQ, CPU_CLOCK_THREAD, CPU_CLOCK_RUSAGE, CPU_CLOCK_NONE };

/* Makes the owner look, at its next enter or exit, whether the kernel still knows its area. Any thread may call it. */
static inline void cpu_clock_doubt(struct cpu_clock *c)
{
    if (load_relaxed(&c->standing) > CPU_CLOCK_DOUBTED)
        store_relaxed(&c->standing, CPU_CLOCK_DOUBTED);
}

/* Number of threads whose area was unregistered after they had begun to rely on it. */
extern _Atomic uint64_t cpu_clock_lost;

/* The kernel's number for the CPU clock of a thread, and the thread that such a number names: linux/posix-timers_types.h,
 * MAKE_THREAD_CPUCLOCK. */
static inline clockid_t cpu_clock_number(int thread_id)
{
    enum { PER_THREAD = 4, SCHEDULED = 2 };
    return (clockid_t)(~(unsigned)thread_id << 3 | PER_THREAD | SCHEDULED);
}

static inline int cpu_clock_thread(clockid_t clock)
{
    return (int)~(clock >> 3);
}

/* To be called once. With CPU_CLOCK_NONE no time is ever read, and cpu_clock_ticks() returns no useful value. */
void cpu_clock_boot(enum cpu_clock_kind kind);

extern enum cpu_clock_kind cpu_clock_wanted; /* constant after cpu_clock_boot() */

/* While this is true, cpu_clock_stands() is always false: every enter and exit takes its slow side, and asks
 * cpu_clock_really_stands() there. To be set before any thread starts its clock. */
extern bool cpu_clock_always_asks;

/* The kind in use. It is not CPU_CLOCK_AUTO once a thread has read its clock. */
enum cpu_clock_kind cpu_clock_in_use(void);

/* To be called on a thread that begins. */
void cpu_clock_start(struct cpu_clock *c);

/* To be called on the thread that a forked child has. `ticks` is its CPU time right before the fork. */
void cpu_clock_start_forked(struct cpu_clock *c, uint64_t ticks, int thread_id);

/* Returns false if cpu_clock_read() is due. Call it after reading the time that cpu_clock_ticks() will get. */
HOT_INLINE bool cpu_clock_stands(const struct cpu_clock *c)
{
    compiler_barrier();
    return *c->asked == load_relaxed(&c->standing);
}

/* The same, independent of cpu_clock_always_asks. */
static inline bool cpu_clock_really_stands(const struct cpu_clock *c)
{
    compiler_barrier();
    return cpu_clock_wanted == CPU_CLOCK_NONE || *c->watched == load_relaxed(&c->standing);
}

/* CPU time in ticks at the time `now` of clock_ticks(). It begins at an arbitrary value. */
HOT_INLINE uint64_t cpu_clock_ticks(const struct cpu_clock *c, uint64_t now)
{
    return now + c->offset;
}

/* Reads the CPU time from the kernel. Returns the time of clock_ticks() that it belongs to. *split gets the CPU time
 * since the last reading. */
uint64_t cpu_clock_read(struct cpu_clock *c, struct cpu_split *split);

/* The CPU time of the last reading. To be called by the owner, or for a thread that has ended. */
static inline uint64_t cpu_clock_last(const struct cpu_clock *c)
{
    return load_relaxed(&c->readings[load_relaxed(&c->sequence) % 2].ticks);
}

/* Sets the CPU time of the last reading, in a forked child. */
static inline void cpu_clock_set_last(struct cpu_clock *c, uint64_t ticks)
{
    store_relaxed(&c->readings[load_relaxed(&c->sequence) % 2].ticks, ticks);
}

/* The CPU time in ticks of any thread now. For a thread that has ended: that of its last reading. */
uint64_t cpu_clock_of(struct cpu_clock *c);

#endif
