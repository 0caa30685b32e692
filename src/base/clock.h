/* SPDX-License-Identifier: BSD-2-Clause */
/* The time: in nanoseconds from the system, and in ticks of the processor's own counter, which needs no call.
 *
 * Ticks are those of the invariant time stamp counter (x86-64) or the generic timer (arm64). These run at one rate on
 * all processors, whatever the processors do. Where there is no such counter, or the kernel does not trust it, ticks
 * are nanoseconds of CLOCK_MONOTONIC. Both stay far below 2^60.
 */
#ifndef JESPAN_CLOCK_H
#define JESPAN_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/compiler.h"

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

extern INTERNAL bool clock_is_raw; /* constant after clock_boot() */

/* Converts ticks to nanoseconds. Readers of another process use it too. */
#define CLOCK_LONGEST_NS 1000000000u /* from then on the rate stays, so that the same ticks never become fewer ns */
struct clock_state {
    uint8_t is_raw; /* 0: no. Not a bool, since the books of another process may be damaged */
    uint64_t start_ticks, start_ns;    /* the same moment, when tracking began */
    _Atomic uint64_t scale;       /* ns per tick, times 2^32 */
    _Atomic uint64_t measured_ns; /* length of that measurement */
};
extern struct clock_state clock_state;

HOT_INLINE uint64_t clock_raw(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* Any thread, also in a signal handler. */
HOT_INLINE uint64_t clock_ticks(void)
{
    return likely(clock_is_raw) ? clock_raw() : clock_ns(CLOCK_MONOTONIC);
}

/* The same, but the processor reads the counter only when all earlier loads are done. */
HOT_INLINE uint64_t clock_ticks_after_loads(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
    return clock_ticks();
}

/* To be called once, before all other functions of this file. */
void clock_boot(void);

/* Nanoseconds per tick, times 2^32, as measured since the start. They are exact to some millionths after a few
 * milliseconds. In the first 200 µs of the process the function waits until these are over. */
uint64_t clock_scale(void);

static inline uint64_t clock_ticks_to_ns(uint64_t ticks, uint64_t scale)
{
    return (uint64_t)((unsigned __int128)ticks * scale >> 32);
}

/* How long before `now` a time was, both in ticks; at least 1 ns. */
static inline uint64_t clock_age_ns(uint64_t now, uint64_t then, uint64_t scale)
{
    return clock_ticks_to_ns(now > then ? now - then : 0, scale) + 1;
}

static inline uint64_t clock_ns_to_ticks(uint64_t ns, uint64_t scale)
{
    return (uint64_t)(((unsigned __int128)ns << 32) / scale);
}

#endif
