/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for a word to change, and telling those who wait. Within this process; errno is left alone. Safe in signal handlers. */
#ifndef JESPAN_FUTEX_H
#define JESPAN_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Until somebody wakes, a signal comes, or the time is there: CLOCK_MONOTONIC, UINT64_MAX is never. Not at all where the word
 * is another by then. False: the time is there. */
static inline bool futex_wait(_Atomic uint32_t *word, uint32_t as_long_as, uint64_t until_ns)
{
    int saved = errno;
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    bool late = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, as_long_as, until_ns == UINT64_MAX ? NULL : &until,
                        NULL, FUTEX_BITSET_MATCH_ANY) &&
                errno == ETIMEDOUT;
    errno = saved;
    return !late;
}

/* Whether the word can be read at all: its memory may be unmapped. Where the system does not say, it can. */
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

#endif
