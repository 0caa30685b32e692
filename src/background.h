/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of jespan's own: they take none of the program's signals and are credited to "(jespan)". And waiting on the
 * monotonic clock, with a limit. */
#ifndef JESPAN_BACKGROUND_H
#define JESPAN_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BACKGROUND_STACK_BYTES ((size_t)256 * 1024)

/* Starts a detached thread, whose first call must be background_begin(). errno is left alone. Returns 0 or a negative
 * errno. */
int background_start(void *(*run)(void *), void *argument);

/* The thread's name, cut to 15 bytes; from here on it is jespan's. */
void background_begin(const char *name);

/* That time from now on the monotonic clock, in nanoseconds; UINT64_MAX is never. */
uint64_t background_deadline(uint64_t after_ms);

/* Waits for `wake`, a condition with default attributes. False when the time is up. */
bool background_wait(pthread_cond_t *wake, pthread_mutex_t *mutex, uint64_t until_ns);

#endif
