/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: sections, and how one thread stops the others to work on their stocks and buffers.
 *
 * The order: limits_begin() makes the thread's sequence odd, then reads limits_stopped. limits_stop() sets
 * limits_stopped, makes every thread see that (membarrier), then reads the sequences. So at least one of the two
 * notices the other. */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "policy/limit_internal.h"
#include "span/tree.h"

_Atomic bool limits_stopped, limits_are_used;
void (*limits_first_use)(void);

static _Atomic(struct thread *) stopper; /* the thread that stopped the others; the orphan if it has no block */

#define SPINS 200
#define YIELDS 200

/* Waits until the thread is in no section. Sleeps after a while, since that thread may have a lower priority. False: it
 * is still in a section after `looks` looks. */
static bool await_outside(const struct thread *t, unsigned looks)
{
    const struct timespec pause = {0, 50000};
    for (unsigned i = 0; limits_is_inside(t); i++) {
        if (i == looks)
            return false;
        if (i > SPINS + YIELDS)
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL); /* libc's is a cancellation point */
        else if (i > SPINS)
            sched_yield();
    }
    return true;
}

void limits_show_all(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (tree_lockless)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void close_sections(struct thread *self)
{
    jespan_assert(lock_is_held(LOCK_LIMITS) && !load_relaxed(&limits_stopped));
    int saved = errno;
    lock(LOCK_ORPHAN);
    store_relaxed(&stopper, self ? self : &thread_orphan);
    atomic_store_explicit(&limits_stopped, true, memory_order_seq_cst);
    limits_show_all();
    errno = saved;
}

COLD void limits_stop(struct thread *self)
{
    close_sections(self);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        if (t != self)
            await_outside(t, UINT32_MAX);
}

COLD void limits_go(void)
{
    jespan_assert(lock_is_held(LOCK_LIMITS) && load_relaxed(&limits_stopped));
    store_relaxed(&stopper, NULL);
    store_release(&limits_stopped, false);
    unlock(LOCK_ORPHAN);
}

/* Called with an odd sequence. Leaves the section while another thread has stopped all, and begins it again. */
COLD uint32_t limits_begin_slow(struct thread *t)
{
    int saved = errno;
    while (load_relaxed(&stopper) != t && (load_acquire(&limits_stopped) || load_relaxed(&t->limits_unsettled))) {
        store_release(&t->limits_sequence, load_relaxed(&t->limits_sequence) + 1);
        lock(LOCK_LIMITS);
        unlock(LOCK_LIMITS);
        if (load_relaxed(&t->limits_unsettled))
            limits_settle(t);
        store_relaxed(&t->limits_sequence, load_relaxed(&t->limits_sequence) + 1);
        atomic_thread_fence(memory_order_seq_cst);
    }
    errno = saved;
    return load_relaxed(&t->limits_sequence) - 1;
}

/* ---- Working on the stocks and buffers of all threads ---- */

COLD void limits_drain(struct thread *self, uint32_t top)
{
    jespan_assert(!self || !limits_is_inside(self));
    lock(LOCK_LIMITS);
    close_sections(self);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        if (t != self && !await_outside(t, SPINS + YIELDS))
            continue;
        limits_empty_within(t, top);
        limits_claim(t);
    }
    limits_go();
    unlock(LOCK_LIMITS);
}

/* As limits_drain(), but waits for every thread, and none begins a section until limits_end_alone(). */
COLD void limits_begin_alone(struct thread *self, uint32_t top)
{
    jespan_assert(!self || !limits_is_inside(self));
    lock(LOCK_LIMITS);
    limits_stop(self);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        limits_empty_within(t, top);
        limits_claim(t);
    }
}

COLD void limits_end_alone(void)
{
    limits_go();
    unlock(LOCK_LIMITS);
}

/* ---- Fork ---- */

COLD void limits_before_fork(void)
{
    if (load_relaxed(&limits_are_used))
        limits_stop(thread_current);
}

COLD void limits_after_fork_in_parent(void)
{
    if (load_relaxed(&limits_stopped))
        limits_go();
}

/* The sequence is odd if the thread was about to begin a section: it would have found that it must wait, and made the sequence even
 * again. Where there is no limit, nobody has stopped it, and it was inside, where it would not have charged anything. */
static void end_sections_of_others(void)
{
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (t != thread_current && limits_is_inside(t)) /* a page that is written is copied */
            store_relaxed(&t->limits_sequence, load_relaxed(&t->limits_sequence) + 1);
}

COLD void limits_after_fork_in_child(void)
{
    end_sections_of_others();
    if (!load_relaxed(&limits_stopped))
        return;
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        if (t == thread_current)
            continue;
        limits_settle_locked(t);
        while (t->n_held) {
            struct limit_held *h = &t->held[--t->n_held];
            limits_uncharge(h->limit, 0, h->bytes);
        }
        limits_empty_thread(t);
    }
    store_relaxed(&stopper, NULL);
    store_release(&limits_stopped, false);
}
