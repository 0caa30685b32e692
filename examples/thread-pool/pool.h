/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread pool whose jobs run in the context in which they were submitted. */
#ifndef THREAD_POOL_POOL_H
#define THREAD_POOL_POOL_H

struct pool;

/* Returns NULL if there is no memory or no thread. With 0 workers a job runs when it is submitted. */
struct pool *pool_start(unsigned n_workers);

/* Runs `run(argument)` on a worker, soon. Returns 0 or -ENOMEM. Any thread may call it, also a job. */
int pool_submit(struct pool *p, void (*run)(void *), void *argument);

/* Waits until no job is left. A job must not call it. */
void pool_wait(struct pool *p);

/* Call this after pool_wait(). */
void pool_stop(struct pool *p);

#endif
