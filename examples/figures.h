/* SPDX-License-Identifier: BSD-2-Clause */
/* For the examples' checks: jespan's figures of a context, beside what the program itself measured of the same work. */
#ifndef EXAMPLES_FIGURES_H
#define EXAMPLES_FIGURES_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <jespan/jespan.h>
#include <jespan/mallctl.h>

/* What the program measured. */
struct measured {
    uint64_t count;          /* of requests or jobs */
    uint64_t kept_bytes;     /* malloc_usable_size() of what is kept */
    uint64_t wall_ns;        /* from open to close */
    uint64_t busy_ns, cpu_ns; /* while one was worked on */
};

static inline uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Wall time is read right beside jespan's own reading, since the system call that reads CPU time is where a thread is
 * likeliest to lose its processor for a while: around what jespan measures, or within. */
struct stopwatch {
    uint64_t wall_ns, cpu_ns;
};

static inline struct stopwatch stopwatch_start_around(void)
{
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    return (struct stopwatch){now_ns(CLOCK_MONOTONIC), cpu_ns};
}

static inline struct stopwatch stopwatch_start_within(void)
{
    uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);
    return (struct stopwatch){wall_ns, now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

/* Add what has passed. On the thread that started it; other threads may add to the same figures. */
static inline void stopwatch_add(struct measured *to, uint64_t busy_ns, uint64_t cpu_ns)
{
    __atomic_add_fetch(&to->busy_ns, busy_ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&to->cpu_ns, cpu_ns, __ATOMIC_RELAXED);
}

static inline void stopwatch_stop_around(struct stopwatch from, struct measured *to)
{
    uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);
    stopwatch_add(to, wall_ns - from.wall_ns, now_ns(CLOCK_THREAD_CPUTIME_ID) - from.cpu_ns);
}

static inline void stopwatch_stop_within(struct stopwatch from, struct measured *to)
{
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    stopwatch_add(to, now_ns(CLOCK_MONOTONIC) - from.wall_ns, cpu_ns - from.cpu_ns);
}

/* spans.<context>.LEAF; -1 where it cannot be read. */
static inline double figure(jespan_context_t context, const char *leaf)
{
    char name[64];
    uint64_t value = 0;
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "spans.%u.%s", (unsigned)context, leaf);
    return mallctl(name, &value, &bytes, NULL, 0) ? -1 : (double)value;
}

static inline void print_head(void)
{
    printf("%-40s %-8s %6s %10s %10s %9s %9s %9s %9s\n", "CONTEXT", "BY", "COUNT", "ALLOCATED", "IN USE", "WALL ms",
           "BUSY ms", "IDLE ms", "CPU ms");
}

/* Two lines, with all figures inclusive: those of the spans below count too. */
static inline void print_both(const char *name, jespan_context_t context, const struct measured *m)
{
    printf("%-40s %-8s %6.0f %10.0f %10.0f %9.2f %9.2f %9.2f %9.2f\n", name, "jespan", figure(context, "opens"),
           figure(context, "total.alloc_bytes"), figure(context, "total.inuse_bytes"), figure(context, "total.wall_ns") / 1e6,
           figure(context, "total.busy_ns") / 1e6, figure(context, "total.idle_ns") / 1e6,
           figure(context, "total.cpu_ns") / 1e6);
    double idle_ns = m->wall_ns > m->busy_ns ? (double)(m->wall_ns - m->busy_ns) : 0;
    printf("%-40s %-8s %6" PRIu64 " %10s %10" PRIu64 " %9.2f %9.2f %9.2f %9.2f\n", name, "program", m->count, "-",
           m->kept_bytes, (double)m->wall_ns / 1e6, (double)m->busy_ns / 1e6, idle_ns / 1e6, (double)m->cpu_ns / 1e6);
}

/* Work for a processor that the compiler cannot leave out. */
static inline void digest(const char *text, size_t bytes, unsigned rounds)
{
    uint32_t hash = 2166136261u;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < bytes; i++)
            hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    __asm__ volatile("" : : "r"(hash));
}

#endif
