/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for a word to change, and wakes waiting threads, within this process or in memory that it
 * shares. Leaves errno alone. Safe in signal handlers. */
#ifndef JESPAN_FUTEX_H
#define JESPAN_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Waits until another thread wakes it, a signal comes, or the time on CLOCK_MONOTONIC is reached; UINT64_MAX: no time.
 * Does not wait if the word is not `as_long_as`. Returns false when the time is reached. */
static inline bool futex_wait_as(int operation, _Atomic uint32_t *word, uint32_t as_long_as, uint64_t until_ns)
{
    int saved = errno;
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    bool late = syscall(SYS_futex, word, operation, as_long_as, until_ns == UINT64_MAX ? NULL : &until, NULL,
                        FUTEX_BITSET_MATCH_ANY) &&
                errno == ETIMEDOUT;
    errno = saved;
    return !late;
}

static inline bool futex_wait(_Atomic uint32_t *word, uint32_t as_long_as, uint64_t until_ns)
{
    return futex_wait_as(FUTEX_WAIT_BITSET_PRIVATE, word, as_long_as, until_ns);
}

/* The same for a word that processes share. */
static inline bool futex_wait_shared(_Atomic uint32_t *word, uint32_t as_long_as, uint64_t until_ns)
{
    return futex_wait_as(FUTEX_WAIT_BITSET, word, as_long_as, until_ns);
}

/* Whether the word is in mapped memory. True where the system cannot tell. */
static inline bool futex_is_mapped(const void *word)
{
    int saved = errno;
    const struct timespec past = {0};
    bool mapped = !syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, 0, &past, NULL, FUTEX_BITSET_MATCH_ANY) ||
                  errno != EFAULT;
    errno = saved;
    return mapped;
}

static inline void futex_wake_all(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

static inline void futex_wake_all_shared(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

#endif
