/* SPDX-License-Identifier: BSD-2-Clause */
/* Start and end of the process. What allocation itself needs was booted by the first allocation (track.c); the rest
 * waits until libc is up, which is when constructors run. */
#include <pthread.h>
#include <stdlib.h>

#include "compiler.h"
#include "conf.h"
#include "dump.h"
#include "lock.h"
#include "reporter.h"
#include "snapshot.h"
#include "track.h"

/* jemalloc registered its handlers at its first use, before ours. Handlers before fork run last registered first, so
 * our locks are taken before jemalloc's, as everywhere else; those after fork run in the order of registration. */
static void after_fork_in_child(void)
{
    lock_release_after_fork();
    track_after_fork();
    dump_after_fork();
    reporter_after_fork();
}

/* A double free among the last few would otherwise go unseen. */
static void at_exit(void)
{
    struct thread *t = track_thread();
    if (t)
        track_flush(t);
    reporter_stop();
}

static __attribute__((constructor)) void start(void)
{
    if (!track_thread())
        return; /* no memory: malloc says so */
    snapshot_start_clock();
    pthread_atfork(lock_all_before_fork, lock_release_after_fork, after_fork_in_child);
    atexit(at_exit);
    if (conf.dump_dir[0])
        dump_prepare();
    reporter_start();
}
