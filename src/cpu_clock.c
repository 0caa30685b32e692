/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's CPU time: the readings, and the trial of restartable sequences. */
#include "cpu_clock.h"

#include <errno.h>
#include <linux/rseq.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From glibc 2.35 on; absent before. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Where nothing can be watched: `never` differs from what is expected, `always` does not. */
static volatile uint64_t never, always;
#define STANDING_NEVER 1

#define TRIES 64

static enum cpu_clock_kind kind;
static _Atomic int verdict; /* on restartable sequences: 0 not tried, 1 they can be relied on, −1 they cannot */

/* A section of one instruction, never executed. Before the abort address the kernel wants the signature that glibc
 * registered (RSEQ_SIG). */
#if defined(__x86_64__)
#define SECTION ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\njespan_rseq_abort: ud2\njespan_rseq_start: nop\n"
#elif defined(__aarch64__)
#define SECTION ".inst 0xd428bc00\njespan_rseq_abort: brk 0\njespan_rseq_start: nop\n"
#else /* the signature is not known: own_rseq_cs() finds nothing */
#define SECTION "jespan_rseq_abort:\njespan_rseq_start:\n"
#define SECTION_IS_EMPTY 1
#endif
#ifndef SECTION_IS_EMPTY
#define SECTION_IS_EMPTY 0
#endif
__asm__(".pushsection .text\n" SECTION ".popsection\n");
extern const char jespan_rseq_start[], jespan_rseq_abort[];
static const struct rseq_cs section = {.start_ip = (uintptr_t)jespan_rseq_start, .post_commit_offset = 1,
                                       .abort_ip = (uintptr_t)jespan_rseq_abort};

/* The calling thread's rseq_cs; NULL where glibc has not registered it. */
static volatile uint64_t *own_rseq_cs(void)
{
    if (SECTION_IS_EMPTY || !&__rseq_size || !&__rseq_offset || !__rseq_size)
        return NULL;
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return (int32_t)area->cpu_id < 0 ? NULL : (volatile uint64_t *)&area->rseq_cs;
}

/* A thread that sleeps leaves its processor. A kernel that does not clear the pointer then, or an emulator that knows
 * nothing of it, is found out here. */
static bool try_out(volatile uint64_t *rseq_cs)
{
    const struct timespec shortest = {0, 1};
    *rseq_cs = (uintptr_t)&section;
    compiler_barrier();
    syscall(SYS_nanosleep, &shortest, NULL); /* libc's is a cancellation point */
    bool cleared = *rseq_cs != (uintptr_t)&section;
    *rseq_cs = 0;
    return cleared;
}

COLD void cpu_clock_boot(enum cpu_clock_kind wanted)
{
    kind = wanted;
}

enum cpu_clock_kind cpu_clock_in_use(void)
{
    if (kind != CPU_CLOCK_AUTO && kind != CPU_CLOCK_RSEQ)
        return kind;
    int says = load_relaxed(&verdict);
    return says > 0 ? CPU_CLOCK_RSEQ : says < 0 ? CPU_CLOCK_THREAD : CPU_CLOCK_AUTO;
}

static void watch_rseq(struct cpu_clock *c)
{
    volatile uint64_t *rseq_cs = own_rseq_cs();
    if (!load_relaxed(&verdict))
        store_relaxed(&verdict, rseq_cs && try_out(rseq_cs) ? 1 : -1);
    if (!rseq_cs || load_relaxed(&verdict) < 0)
        return;
    c->standing = (uintptr_t)&section;
    c->watched = rseq_cs;
}

/* The thread's clock comes first: for it the kernel brings the thread's account up to date, which for getrusage(2) may be
 * as old as the last tick. */
static uint64_t read_ns(uint64_t *system_ns)
{
    struct rusage usage;
    uint64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (kind == CPU_CLOCK_RUSAGE && !getrusage(RUSAGE_THREAD, &usage))
        *system_ns = (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
    return ns;
}

static void note(struct cpu_clock *c, uint64_t ticks, uint64_t ns)
{
    uint32_t sequence = load_relaxed(&c->sequence) | 1; /* as fork(2) may have left it behind */
    store_relaxed(&c->sequence, sequence);
    atomic_thread_fence(memory_order_release);
    store_relaxed(&c->ticks, ticks);
    store_relaxed(&c->ns, ns);
    store_release(&c->sequence, sequence + 1);
}

/* The pointer is set before the clocks are read: if the thread leaves its processor from there on, that will be seen. */
COLD uint64_t cpu_clock_read(struct cpu_clock *c, uint64_t *system)
{
    *system = 0;
    if (kind == CPU_CLOCK_NONE)
        return clock_ticks();
    int saved = errno;
    if (c->watched == &never && (kind == CPU_CLOCK_AUTO || kind == CPU_CLOCK_RSEQ))
        watch_rseq(c);
    if (c->watched != &never)
        *c->watched = c->standing;
    compiler_barrier();
    uint64_t system_ns = c->system_ns, ns = read_ns(&system_ns), before = load_relaxed(&c->ns);
    uint64_t now = clock_ticks();
    uint64_t ticks = load_relaxed(&c->ticks) + (ns > before ? clock_ns_to_ticks(ns - before, clock_scale()) : 0);
    c->offset = ticks - now;
    *system = system_ns > c->system_ns ? clock_ns_to_ticks(system_ns - c->system_ns, clock_scale()) : 0;
    c->system_ns = system_ns;
    note(c, ticks, ns);
    errno = saved;
    return now;
}

COLD void cpu_clock_start(struct cpu_clock *c)
{
    c->watched = kind == CPU_CLOCK_NONE ? &always : &never;
    c->standing = kind == CPU_CLOCK_NONE ? 0 : STANDING_NEVER;
    if (kind == CPU_CLOCK_NONE)
        return;
    int saved = errno;
    store_relaxed(&c->thread_id, (int)syscall(SYS_gettid));
    c->system_ns = 0;
    uint64_t ns = read_ns(&c->system_ns), now = clock_ticks();
    note(c, load_relaxed(&c->ticks), ns);
    c->offset = load_relaxed(&c->ticks) - now;
    errno = saved;
}

/* The kernel's number for another thread's CPU clock: linux/posix-timers_types.h, MAKE_THREAD_CPUCLOCK. */
static clockid_t clock_of_thread(int thread_id)
{
    enum { PER_THREAD = 4, SCHEDULED = 2 };
    return (clockid_t)(~(unsigned)thread_id << 3 | PER_THREAD | SCHEDULED);
}

/* False while the owner writes it, which it does in three stores. */
static bool last_reading(struct cpu_clock *c, uint64_t *ticks, uint64_t *ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t sequence = load_acquire(&c->sequence);
        *ticks = load_relaxed(&c->ticks);
        *ns = load_relaxed(&c->ns);
        atomic_thread_fence(memory_order_acquire);
        if (!(sequence & 1) && load_relaxed(&c->sequence) == sequence)
            return true;
    }
    return false;
}

uint64_t cpu_clock_of(struct cpu_clock *c)
{
    struct timespec t;
    uint64_t ticks, ns;
    if (kind == CPU_CLOCK_NONE || !last_reading(c, &ticks, &ns))
        return load_relaxed(&c->ticks);
    if (clock_gettime(clock_of_thread(load_relaxed(&c->thread_id)), &t))
        return load_relaxed(&c->ticks); /* it has ended, maybe just now */
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return ticks + (now > ns ? clock_ns_to_ticks(now - ns, clock_scale()) : 0);
}
