/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of jespan's own: they take none of the program's signals and are credited to "(jespan)". Waiting on the
 * monotonic clock, with a limit. And workers: a thread that is asked to stop, and waited for. */
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

/* ---- Workers ---- */

/* Only the worker's own thread and its owner use it. Zero is a worker that does not run. */
struct worker {
    const char *name;
    void (*run)(struct worker *w); /* on its thread; when it returns, the worker has ended */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    _Atomic bool running;
    bool stopping;          /* mutex */
    bool joinable;          /* the owner's, as is the next */
    pthread_t thread;
};

/* Returns 0 or a negative errno. */
int worker_start(struct worker *w, const char *name, void (*run)(struct worker *w));

/* On its thread: sleeps until that time. False when it is to stop, which it then knows at once. */
bool worker_sleep(struct worker *w, uint64_t until_ns);

void worker_ask_to_stop(struct worker *w);

/* Until its thread is gone, so that libraries which it used have ended what they kept for it. False when the time is up,
 * and it still runs. */
bool worker_wait(struct worker *w, uint64_t until_ns);

/* In a forked child, where it does not run. Returns whether it did in the parent. */
bool worker_after_fork(struct worker *w);

#endif
