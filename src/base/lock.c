/* SPDX-License-Identifier: BSD-2-Clause */
/* All locks of jespan, with their order, and what fork(2) does with them. */
#include "base/lock.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"
#include "base/forked.h"

THREAD_LOCAL unsigned locks_held;

/* Each in its own cache line, and all in one page. */
static WRITTEN_AT_FORK _Alignas(2048) struct {
    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
} locks[LOCK_RANKS] = {
    [0 ... LOCK_RANKS - 1] = {PTHREAD_MUTEX_INITIALIZER},
};

/* In locks_held, while this thread forks, and so holds all locks. Other fork handlers run between ours, and may allocate. */
#define FORKING (1u << 31)
_Static_assert(LOCK_RANKS < 31, "a bit for each");

#define PATIENCE_S 1

/* For signal handlers: a bit is set before the lock is taken, and cleared after it is given up. */
static void note(unsigned held)
{
    compiler_barrier();
    locks_held = held;
    compiler_barrier();
}

void lock(enum lock_rank rank)
{
    if (unlikely(locks_held & FORKING))
        return;
    jespan_assert(!(locks_held >> rank)); /* a thread takes locks in rising rank */
    note(locks_held | 1u << rank);
    pthread_mutex_lock(&locks[rank].mutex);
}

/* `held` is what the thread held before it noted this lock too, perhaps the same one: a signal handler may have interrupted its holder. */
static bool note_result(unsigned held, int error)
{
    if (error)
        note(held);
    return !error;
}

bool try_lock(enum lock_rank rank)
{
    unsigned held = locks_held;
    if (unlikely(held & FORKING))
        return true;
    note(held | 1u << rank);
    return note_result(held, pthread_mutex_trylock(&locks[rank].mutex));
}

/* pthread_mutex_clocklock() would be right where the clock is set meanwhile, but gcc's thread sanitizer does not know it. The time comes
 * from the kernel, since a library may fake it. False: the lock was not to be had in that time. */
static COLD bool wait_for(enum lock_rank rank)
{
    unsigned held = locks_held;
    struct timespec until;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    note(held | 1u << rank);
    return note_result(held, pthread_mutex_timedlock(&locks[rank].mutex, &until));
}

/* The holder may be a thread that a debugger or a garbage collector stopped. So after a thread has waited in vain, no other one waits
 * until the lock was free again. */
COLD bool lock_if_possible(enum lock_rank rank)
{
    static _Atomic bool in_vain[LOCK_RANKS];
    if (!lock_holds_all() && lock_is_held(rank))
        return false;
    bool taken = try_lock(rank) || (!load_relaxed(&in_vain[rank]) && wait_for(rank));
    store_relaxed(&in_vain[rank], !taken);
    return taken;
}

void unlock(enum lock_rank rank)
{
    if (unlikely(locks_held & FORKING))
        return;
    jespan_assert(lock_is_held(rank));
    pthread_mutex_unlock(&locks[rank].mutex);
    note(locks_held & ~(1u << rank));
}

bool lock_holds_all(void)
{
    return locks_held & FORKING;
}

COLD void lock_all_before_fork(void)
{
    jespan_assert(!locks_held);
    note((1u << LOCK_RANKS) - 1);
    for (int rank = 0; rank < LOCK_RANKS; rank++)
        pthread_mutex_lock(&locks[rank].mutex);
    note(locks_held | FORKING);
}

/* The forking thread holds the locks in the parent and in the child, so a plain unlock is right in both. */
COLD void lock_release_after_fork(void)
{
    note(locks_held & ~FORKING);
    for (int rank = LOCK_RANKS - 1; rank >= 0; rank--)
        pthread_mutex_unlock(&locks[rank].mutex);
    note(0);
}
