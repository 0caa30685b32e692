/* SPDX-License-Identifier: BSD-2-Clause */
/* All locks of jespan, with their order, and what fork(2) does with them. */
#include "base/lock.h"

#include <pthread.h>

#include "base/die.h"
#include "base/forked.h"

THREAD_LOCAL unsigned locks_held;

/* Each in its own cache line, and all in one page. */
static WRITTEN_AT_FORK _Alignas(2048) struct {
    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
} locks[LOCK_RANKS] = {
    [0 ... LOCK_RANKS - 1] = {PTHREAD_MUTEX_INITIALIZER},
};

/* True while this thread holds all locks. Other fork handlers run between ours, and may allocate. */
static THREAD_LOCAL bool forking;

static void note(unsigned held)
{
    if (JESPAN_ASSERTIONS)
        locks_held = held;
}

void lock(enum lock_rank rank)
{
    if (unlikely(forking))
        return;
    jespan_assert(!(locks_held >> rank)); /* a thread takes locks in rising rank */
    pthread_mutex_lock(&locks[rank].mutex);
    note(locks_held | 1u << rank);
}

bool try_lock(enum lock_rank rank)
{
    if (unlikely(forking))
        return true;
    bool taken = pthread_mutex_trylock(&locks[rank].mutex) == 0;
    note(locks_held | (unsigned)taken << rank);
    return taken;
}

void unlock(enum lock_rank rank)
{
    if (unlikely(forking))
        return;
    jespan_assert(lock_is_held(rank));
    note(locks_held & ~(1u << rank));
    pthread_mutex_unlock(&locks[rank].mutex);
}

bool lock_holds_all(void)
{
    return forking;
}

COLD void lock_all_before_fork(void)
{
    jespan_assert(!locks_held);
    for (int rank = 0; rank < LOCK_RANKS; rank++)
        pthread_mutex_lock(&locks[rank].mutex);
    note((1u << LOCK_RANKS) - 1);
    forking = true;
}

/* The forking thread holds the locks in the parent and in the child, so a plain unlock is right in both. */
COLD void lock_release_after_fork(void)
{
    forking = false;
    note(0);
    for (int rank = LOCK_RANKS - 1; rank >= 0; rank--)
        pthread_mutex_unlock(&locks[rank].mutex);
}
