/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own threads. They block all signals, and their memory counts for "(jespan)". A worker is such a thread that
 * its owner can ask to stop and wait for. Times are on the monotonic clock. */
#ifndef JESPAN_BACKGROUND_H
#define JESPAN_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BACKGROUND_STACK_BYTES ((size_t)256 * 1024) /* beside thread-local variables */

/* When libc works: finds out how much room thread-local variables take. */
void background_boot(void);

/* Starts a detached thread, whose first call must be background_begin(). Keeps errno. Returns 0 or a negative errno. */
int background_start(void *(*run)(void *), void *argument);

/* Names the calling thread, cut to 15 bytes, and makes it one of jespan's threads. */
void background_begin(const char *name);

/* The time `after_ms` from now, in nanoseconds. UINT64_MAX means never. */
uint64_t background_deadline(uint64_t after_ms);

/* Waits for `wake`, a condition with default attributes. False: the time is over. */
bool background_wait(pthread_cond_t *wake, pthread_mutex_t *mutex, uint64_t until_ns);

/* ---- Workers ---- */

/* Used only by the worker's thread and its owner. A zeroed worker does not run. */
struct worker {
    const char *name;
    void (*run)(struct worker *w); /* on the worker's thread, which ends when this returns */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    _Atomic bool running;
    bool stopping;          /* under mutex */
    bool joinable;          /* only the owner uses this and `thread` */
    pthread_t thread;
};

/* Returns 0 or a negative errno. */
int worker_start(struct worker *w, const char *name, void (*run)(struct worker *w));

/* On the worker's thread: sleeps until that time, or until it is asked to stop. False: it must stop. */
bool worker_sleep(struct worker *w, uint64_t until_ns);

void worker_ask_to_stop(struct worker *w);

/* Joins the thread, so that libraries have freed what they kept for it. False: the time is over, and the thread still
 * runs. */
bool worker_wait(struct worker *w, uint64_t until_ns);

/* In a forked child, where no worker runs. Returns whether the worker ran in the parent. */
bool worker_after_fork(struct worker *w);

/* ---- The end of a process in which only jespan's threads are left ---- */

/* In glibc, the last thread of a process calls exit(0) when it ends. jespan's threads never end by themselves and
 * block all signals, so only SIGKILL would end such a process. When the main thread has ended, a thread "jespan:end"
 * waits until only jespan's threads are left. It then restores the signal mask of the main thread and calls exit(0). A
 * program whose main() returns has no such thread.
 *
 * jespan's threads count themselves when they begin. The number of all threads is read from /proc/self/stat between
 * two readings of that count which must agree. So no thread of the program is taken for one of jespan's. */

/* On the main thread, when libc works. */
void last_thread_boot(void);

/* On each thread of jespan, when it begins. Its end is noticed without another call. */
void last_thread_add_own(void);

/* In a forked child, before jespan starts threads there. */
void last_thread_after_fork(void);

#endif
