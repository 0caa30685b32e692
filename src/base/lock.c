/* SPDX-License-Identifier: BSD-2-Clause */
/* All locks of jespan, ranked, and the one place where fork(2) deals with them. */
#include "base/lock.h"

#include <pthread.h>

#include "base/compiler.h"

static pthread_mutex_t locks[LOCK_RANKS] = {
    [0 ... LOCK_RANKS - 1] = PTHREAD_MUTEX_INITIALIZER,
};

/* This thread owns all of them: between our fork handlers others' may run, and those may allocate. */
static THREAD_LOCAL bool forking;

void lock(enum lock_rank rank)
{
    if (unlikely(forking))
        return;
    pthread_mutex_lock(&locks[rank]);
}

bool try_lock(enum lock_rank rank)
{
    return forking || pthread_mutex_trylock(&locks[rank]) == 0;
}

void unlock(enum lock_rank rank)
{
    if (unlikely(forking))
        return;
    pthread_mutex_unlock(&locks[rank]);
}

void lock_all_before_fork(void)
{
    for (int rank = 0; rank < LOCK_RANKS; rank++)
        pthread_mutex_lock(&locks[rank]);
    forking = true;
}

/* The forking thread owns them in parent and child alike, so a plain unlock is right in both. */
void lock_release_after_fork(void)
{
    forking = false;
    for (int rank = LOCK_RANKS - 1; rank >= 0; rank--)
        pthread_mutex_unlock(&locks[rank]);
}
