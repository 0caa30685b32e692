/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread pool whose jobs run in the context in which they were submitted. */
#ifndef THREAD_POOL_POOL_H
#define THREAD_POOL_POOL_H

#include <stdbool.h>

struct pool;

/* Returns NULL if there is no memory or no thread. With 0 workers a job runs when it is submitted. The thread that runs a
 * job calls `watch(true)` before it and `watch(false)` after it, outside the job's context, unless `watch` is NULL. */
struct pool *pool_start(unsigned n_workers, void (*watch)(bool begins));

/* Runs `run(argument)` on a worker, soon. Returns 0 or -ENOMEM. Any thread may call it, also a job. */
int pool_submit(struct pool *p, void (*run)(void *), void *argument);

/* Waits until no job is left. A job must not call it. */
void pool_wait(struct pool *p);

/* Call this after pool_wait(). */
void pool_stop(struct pool *p);

#endif
