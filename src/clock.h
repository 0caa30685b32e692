/* SPDX-License-Identifier: BSD-2-Clause */
/* The time, in nanoseconds. Signal-safe. */
#ifndef JESPAN_CLOCK_H
#define JESPAN_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

#endif
