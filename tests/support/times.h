/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of independent clocks, to compare with jespan's.
 *
 * The thread that does the work reads the clocks twice before it and twice after it. So jespan's time must lie
 * between the inner and the outer difference, whenever the scheduler takes the processor away.
 */
#ifndef JESPAN_TESTS_TIMES_H
#define JESPAN_TESTS_TIMES_H

#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "check.h"

enum clock_names { WALL, CPU, USER, SYSTEM, CLOCKS };

struct instant {
    uint64_t ns[CLOCKS];
};

/* In the order of reading. */
struct bracket {
    struct instant outer_begin, inner_begin, inner_end, outer_end;
};

static inline uint64_t times_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t times_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static inline struct instant times_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct instant){{times_ns(CLOCK_MONOTONIC), times_ns(CLOCK_THREAD_CPUTIME_ID), times_of(usage.ru_utime),
                             times_of(usage.ru_stime)}};
}

static inline uint64_t times_inner(const struct bracket *b, int clock)
{
    return b->inner_end.ns[clock] - b->inner_begin.ns[clock];
}

static inline uint64_t times_outer(const struct bracket *b, int clock)
{
    return b->outer_end.ns[clock] - b->outer_begin.ns[clock];
}

/* 5 µs are allowed besides `per_mille`, because getrusage(2) counts in microseconds. */
static inline bool times_between(uint64_t figure, uint64_t least, uint64_t most, unsigned per_mille)
{
    return figure + 5000 + least / 1000 * per_mille >= least && figure <= most + 5000 + most / 1000 * per_mille;
}

/* The length of a tick was measured over some milliseconds, to some millionths. */
#define TIMES_TICK_PER_MILLE 1

#define CHECK_BETWEEN(figure, least, most)                                                                             \
    do {                                                                                                               \
        uint64_t check_f = (figure), check_l = (least), check_m = (most);                                              \
        if (!times_between(check_f, check_l, check_m, TIMES_TICK_PER_MILLE))                                           \
            check_fail("%s:%d: failed: %s is %llu, not from %llu to %llu", __FILE__, __LINE__, #figure,                \
                       (unsigned long long)check_f, (unsigned long long)check_l, (unsigned long long)check_m);         \
    } while (0)

/* By the thread's CPU time: the work is the same, however much of the processor it gets. */
static inline void times_spin(uint64_t cpu_ns)
{
    uint64_t end = times_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
    while (times_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (volatile int i = 0; i < 1000; i++)
            ;
}

static inline void times_sleep(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

#endif
