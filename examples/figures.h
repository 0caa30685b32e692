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

/* What passed between two calls of jespan: read by the program within them, and around them. jespan's own figure lies
 * between the two, at whatever moment the thread loses its processor. */
struct bounds {
    uint64_t within_ns, around_ns;
};

/* What the program measured. */
struct measured {
    uint64_t count;          /* of requests or jobs */
    uint64_t kept_bytes;     /* malloc_usable_size() of what is kept */
    struct bounds wall;      /* from open to close */
    struct bounds busy, cpu; /* while one was worked on */
};

static inline uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both clocks of the calling thread. */
struct instant {
    uint64_t wall_ns, cpu_ns;
};

static inline struct instant instant_now(void)
{
    return (struct instant){now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

/* When jespan was called: `around` was read before that, and `within` after it. */
struct stopwatch {
    struct instant around, within;
};

/* Threads may add to the same figures at once. */
static inline void add_ns(uint64_t *to, uint64_t ns)
{
    __atomic_add_fetch(to, ns, __ATOMIC_RELAXED);
}

/* To be called before the thread leaves the context that it has entered. */
static inline void worked_within(const struct stopwatch *entered, struct measured *to)
{
    struct instant now = instant_now();
    add_ns(&to->busy.within_ns, now.wall_ns - entered->within.wall_ns);
    add_ns(&to->cpu.within_ns, now.cpu_ns - entered->within.cpu_ns);
}

/* To be called after it. */
static inline void worked_around(const struct stopwatch *entered, struct measured *to)
{
    struct instant now = instant_now();
    add_ns(&to->busy.around_ns, now.wall_ns - entered->around.wall_ns);
    add_ns(&to->cpu.around_ns, now.cpu_ns - entered->around.cpu_ns);
}

/* To be called before a span is closed, on any thread. */
static inline void open_within(const struct stopwatch *opened, struct measured *to)
{
    add_ns(&to->wall.within_ns, instant_now().wall_ns - opened->within.wall_ns);
}

/* To be called after it. */
static inline void open_around(const struct stopwatch *opened, struct measured *to)
{
    add_ns(&to->wall.around_ns, instant_now().wall_ns - opened->around.wall_ns);
    __atomic_add_fetch(&to->count, 1, __ATOMIC_RELAXED);
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
    printf("%-30s %-8s %6s %10s %10s %10s %10s %10s %10s\n", "CONTEXT", "BY", "COUNT", "ALLOCATED", "IN USE", "WALL ms",
           "BUSY ms", "IDLE ms", "CPU ms");
}

static inline double difference_ms(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? (double)(a_ns - b_ns) / 1e6 : 0;
}

static inline void print_program(const char *name, const char *by, const struct measured *m, uint64_t wall_ns,
                                 uint64_t busy_ns, double idle_ms, uint64_t cpu_ns)
{
    printf("%-30s %-8s %6" PRIu64 " %10s %10" PRIu64 " %10.3f %10.3f %10.3f %10.3f\n", name, by, m->count, "-", m->kept_bytes,
           (double)wall_ns / 1e6, (double)busy_ns / 1e6, idle_ms, (double)cpu_ns / 1e6);
}

/* Three lines: jespan's figures, and the program's own within and around jespan's calls. All are inclusive: those of
 * the spans below count too. */
static inline void print_figures_of(const char *name, jespan_context_t context, const struct measured *m)
{
    printf("%-30s %-8s %6.0f %10.0f %10.0f %10.3f %10.3f %10.3f %10.3f\n", name, "jespan", figure(context, "opens"),
           figure(context, "total.alloc_bytes"), figure(context, "total.inuse_bytes"), figure(context, "total.wall_ns") / 1e6,
           figure(context, "total.busy_ns") / 1e6, figure(context, "total.idle_ns") / 1e6,
           figure(context, "total.cpu_ns") / 1e6);
    print_program(name, "within", m, m->wall.within_ns, m->busy.within_ns,
                  difference_ms(m->wall.within_ns, m->busy.around_ns), m->cpu.within_ns);
    print_program(name, "around", m, m->wall.around_ns, m->busy.around_ns,
                  difference_ms(m->wall.around_ns, m->busy.within_ns), m->cpu.around_ns);
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
