/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's CPU time: the readings, and the trial of restartable sequences. */
#include "base/cpu_clock.h"
#include "base/figures.h"

#include <errno.h>
#include <linux/rseq.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc has these from 2.35 on. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Watched words where there is no rseq area: `never` always differs from `standing`, `always` never does. */
static volatile uint64_t never, always;
#define TRIES 64

_Atomic uint64_t cpu_clock_lost;
FIGURE_ROW(figure_lost, "spans.stats.cpu_clocks_lost", cpu_clock_lost, FIGURE_NUMBER);

enum cpu_clock_kind cpu_clock_wanted;
bool cpu_clock_always_asks;
static _Atomic int verdict; /* on restartable sequences: 0: not tried, 1: reliable, −1: not reliable */

/* A section of one instruction, which is never executed. The kernel requires the signature that glibc registered
 * (RSEQ_SIG) before the abort address. */
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

/* The calling thread's rseq_cs, or NULL where glibc has not registered it. The weak symbols are NULL before glibc
 * 2.35. */
static volatile uint64_t *own_rseq_cs(void)
{
    if (SECTION_IS_EMPTY || !&__rseq_size || !&__rseq_offset || !__rseq_size)
        return NULL;
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return (int32_t)area->cpu_id < 0 ? NULL : (volatile uint64_t *)&area->rseq_cs;
}

/* A thread that sleeps leaves its processor. So this finds kernels that do not clear the pointer, and emulators that do
 * not know it. A short sleep may be over before the thread has left, so a longer one follows. */
static bool try_out(volatile uint64_t *rseq_cs)
{
    bool cleared = false;
    for (long ns = 1; ns <= 1000000 && !cleared; ns *= 1000) {
        const struct timespec t = {0, ns};
        *rseq_cs = (uintptr_t)&section;
        compiler_barrier();
        syscall(SYS_nanosleep, &t, NULL); /* libc's is a cancellation point */
        cleared = *rseq_cs != (uintptr_t)&section;
    }
    *rseq_cs = 0;
    return cleared;
}

COLD void cpu_clock_boot(enum cpu_clock_kind wanted)
{
    cpu_clock_wanted = wanted;
}

enum cpu_clock_kind cpu_clock_in_use(void)
{
    if (cpu_clock_wanted != CPU_CLOCK_AUTO && cpu_clock_wanted != CPU_CLOCK_RSEQ)
        return cpu_clock_wanted;
    int says = load_relaxed(&verdict);
    return says > 0 ? CPU_CLOCK_RSEQ : says < 0 ? CPU_CLOCK_THREAD : CPU_CLOCK_AUTO;
}

/* `never` is 0, and what stands is not, as long as a clock always asks. */
static void watch(struct cpu_clock *c, volatile uint64_t *word)
{
    c->watched = word;
    c->asked = cpu_clock_always_asks ? &never : word;
}

static void watch_rseq(struct cpu_clock *c)
{
    volatile uint64_t *rseq_cs = own_rseq_cs();
    if (!load_relaxed(&verdict))
        store_relaxed(&verdict, rseq_cs && try_out(rseq_cs) ? 1 : -1);
    if (!rseq_cs || load_relaxed(&verdict) < 0)
        return;
    watch(c, rseq_cs);
}

/* Looks whether the area was unregistered, which the kernel notes in it. Time counted as CPU time since then stays
 * counted. */
static bool still_watches(struct cpu_clock *c)
{
    if (likely(own_rseq_cs() == c->watched))
        return true;
    watch(c, &never);
    store_relaxed(&c->standing, CPU_CLOCK_NEVER);
    atomic_fetch_add_explicit(&cpu_clock_lost, 1, memory_order_relaxed);
    return false;
}

/* The thread's clock is read first: this call makes the kernel update the account that getrusage(2) reads, which may
 * otherwise be as old as the last tick. */
static uint64_t read_ns(uint64_t *system_ns)
{
    struct rusage usage;
    uint64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (cpu_clock_wanted == CPU_CLOCK_RUSAGE && !getrusage(RUSAGE_THREAD, &usage))
        *system_ns = (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
    return ns;
}

/* Overwrites the reading before the last one. A reader that still reads that one finds another sequence number
 * afterwards, and tries again. */
static void note(struct cpu_clock *c, uint64_t ticks, uint64_t ns, int thread_id)
{
    uint32_t sequence = load_relaxed(&c->sequence) + 1;
    struct cpu_reading *r = &c->readings[sequence % 2];
    atomic_thread_fence(memory_order_release);
    store_relaxed(&r->ticks, ticks);
    store_relaxed(&r->ns, ns);
    store_relaxed(&r->thread_id, thread_id);
    store_release(&c->sequence, sequence);
}

/* Splits the CPU time since the last reading: `ns`, which is `ticks`. The kernel finds the time spent in it in steps. If
 * a step is larger than `ns`, the rest of it counts at the next readings. So neither part ever goes back. */
static struct cpu_split split_time(struct cpu_clock *c, uint64_t system_ns, uint64_t ns, uint64_t ticks)
{
    uint64_t in_kernel = system_ns > c->system_ns ? system_ns - c->system_ns : 0;
    if (cpu_clock_wanted != CPU_CLOCK_RUSAGE)
        return (struct cpu_split){0};
    if (in_kernel > ns)
        in_kernel = ns;
    c->system_ns += in_kernel;
    uint64_t system = clock_ns_to_ticks(in_kernel, clock_scale());
    return (struct cpu_split){ticks - system, system};
}

/* Sets the pointer before it reads the clocks. So it is seen if the thread leaves its processor after that. */
COLD uint64_t cpu_clock_read(struct cpu_clock *c, struct cpu_split *split)
{
    *split = (struct cpu_split){0};
    if (cpu_clock_wanted == CPU_CLOCK_NONE)
        return clock_ticks();
    int saved = errno;
    bool lost = c->watched != &never && !still_watches(c);
    if (c->watched == &never && (cpu_clock_wanted == CPU_CLOCK_AUTO || cpu_clock_wanted == CPU_CLOCK_RSEQ))
        watch_rseq(c);
    if (c->watched != &never) {
        store_relaxed(&c->standing, (uintptr_t)&section);
        *c->watched = (uintptr_t)&section;
    }
    compiler_barrier();
    const struct cpu_reading *last = &c->readings[load_relaxed(&c->sequence) % 2];
    uint64_t system_ns = c->system_ns, ns = read_ns(&system_ns), before = load_relaxed(&last->ns);
    uint64_t now = clock_ticks(), since_ns = ns > before ? ns - before : 0, since = clock_ns_to_ticks(since_ns, clock_scale());
    uint64_t ticks = load_relaxed(&last->ticks) + since;
    if (unlikely(lost) && now + c->offset > ticks)
        ticks = now + c->offset;
    c->offset = ticks - now;
    *split = split_time(c, system_ns, since_ns, since);
    note(c, ticks, ns, load_relaxed(&last->thread_id));
    errno = saved;
    return now;
}

COLD void cpu_clock_start(struct cpu_clock *c)
{
    watch(c, cpu_clock_wanted == CPU_CLOCK_NONE ? &always : &never);
    bool stands = cpu_clock_wanted == CPU_CLOCK_NONE && !cpu_clock_always_asks;
    store_relaxed(&c->standing, stands ? 0 : CPU_CLOCK_NEVER);
    if (cpu_clock_wanted == CPU_CLOCK_NONE)
        return;
    int saved = errno;
    c->system_ns = 0;
    uint64_t ns = read_ns(&c->system_ns), now = clock_ticks(), ticks = cpu_clock_last(c);
    note(c, ticks, ns, (int)syscall(SYS_gettid));
    c->offset = ticks - now;
    errno = saved;
}

/* A forked child's CPU clock began at 0 when it was forked, so nothing is read: each page touched here is copied or mapped
 * in each child. */
COLD void cpu_clock_start_forked(struct cpu_clock *c, uint64_t ticks, int thread_id)
{
    if (cpu_clock_wanted == CPU_CLOCK_NONE)
        return;
    watch(c, &never);
    store_relaxed(&c->standing, CPU_CLOCK_NEVER);
    c->system_ns = 0;
    note(c, ticks, 0, thread_id);
    c->offset = ticks - clock_ticks();
}

/* Adds the kernel's clock to a reading that is still the last one after the clock was read, so both are of the same
 * thread. If there are new readings in all tries, the last one is as good as the clock. */
uint64_t cpu_clock_of(struct cpu_clock *c)
{
    if (cpu_clock_wanted == CPU_CLOCK_NONE)
        return cpu_clock_last(c);
    for (int i = 0; i < TRIES; i++) {
        struct timespec t;
        uint32_t sequence = load_acquire(&c->sequence);
        const struct cpu_reading *r = &c->readings[sequence % 2];
        uint64_t ticks = load_relaxed(&r->ticks), ns = load_relaxed(&r->ns);
        bool ended = clock_gettime(cpu_clock_number(load_relaxed(&r->thread_id)), &t) != 0; /* perhaps at this moment */
        atomic_thread_fence(memory_order_acquire);
        if (load_relaxed(&c->sequence) != sequence)
            continue;
        uint64_t now = ended ? ns : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
        return ticks + (now > ns ? clock_ns_to_ticks(now - ns, clock_scale()) : 0);
    }
    return cpu_clock_last(c);
}
