/* SPDX-License-Identifier: BSD-2-Clause */
/* All locks of jespan, with their order, and what fork(2) does with them.
 *
 * A thread takes locks only in rising rank. The hot path takes none. A thread that calls jemalloc holds no lock except
 * LOCK_ARENAS, and no lock at all while it calls an exporter or the file system. fork takes all locks, so a child finds
 * each structure whole.
 */
#ifndef JESPAN_LOCK_H
#define JESPAN_LOCK_H

#include <stdbool.h>

#include "base/compiler.h"

#define LOCK_DEPOTS 8u /* one for each shard of the depot: heap/depot.h */

enum lock_rank {
    LOCK_BOOT,     /* first use: boot happens once */
    LOCK_ARENAS,   /* making span arenas, which calls jemalloc */
    LOCK_CTL,      /* the snapshot that mallctl enumerates */
    LOCK_SNAPSHOT, /* taking a snapshot, and what earlier ones showed */
    LOCK_THREADS,  /* the list of thread blocks */
    LOCK_TREE,     /* context tree, spans, recycling */
    LOCK_LIMITS,   /* limits, and which contexts each has */
    LOCK_HEADERS,  /* header tables */
    LOCK_ORPHAN,   /* counters of threads that have no block */
    LOCK_GUARD,    /* slots of guarded objects without an object */
    LOCK_DEPOT,    /* batches of freed objects that threads exchange. The first of LOCK_DEPOTS */
    LOCK_LARGE = LOCK_DEPOT + LOCK_DEPOTS, /* large objects that were freed */
    LOCK_META, /* our own memory */
    LOCK_STATE,    /* the state file */
    LOCK_RANKS,
};

/* The locks that the calling thread holds, or is about to take or has just given up, one bit for each rank. */
extern THREAD_LOCAL unsigned locks_held;

static inline bool lock_is_held(enum lock_rank rank)
{
    return locks_held >> rank & 1;
}

void lock(enum lock_rank rank);
void unlock(enum lock_rank rank);
bool lock_holds_all(void); /* the calling thread forks */
bool try_lock(enum lock_rank rank);

/* For allocations, which may happen in a signal handler that interrupted the holder of the lock. Returns false if the calling
 * thread has the lock already, or if another one keeps it for a second. */
bool lock_if_possible(enum lock_rank rank);

/* For pthread_atfork. */
void lock_all_before_fork(void);
void lock_release_after_fork(void);

#endif
