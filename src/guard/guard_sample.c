/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocations are guarded. */
#include "guard/guard_sample.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "guard/guard.h"
#include "span/span.h"

/* While a sample is due, on average half of this many allocations take the slow side. With a guard_sample of no more than
 * EXACT_BELOW it would be a large part of all, so all of them do, and each is counted. */
#define WAIT_MOST 32u
#define EXACT_BELOW 256u

/* A handover takes a system call for each thread. So it comes seldom where there are many threads. */
#define FREES_PER_THREAD 8

static _Atomic bool handed_over;

static uint64_t draw_below(struct guard_thread *g, uint64_t bound)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    return (g->random * 0x9e3779b97f4a7c15u >> 32) % bound;
}

/* The distance between two samples is guard_sample on average. */
static void draw(struct thread *t)
{
    struct guard_thread *g = t->guard;
    uint64_t distance = 1 + draw_below(g, 2 * conf.guard_sample - 1);
    t->guard_due = conf.guard_sample < EXACT_BELOW;
    g->wait = t->guard_due ? (uint32_t)distance : 0;
    g->countdown = (int64_t)distance - WAIT_MOST / 2;
}

COLD void guard_sample_start(struct thread *t)
{
    if (!guard_region.bytes)
        return;
    if (!t->guard && !(t->guard = meta_alloc(sizeof *t->guard)))
        return;
    t->guard->walks = false;
    t->guard->random = (t->guard->random ^ (uintptr_t)t ^ clock_ticks() ^ (uint64_t)getpid() << 40) | 1;
    draw(t);
}

COLD void guard_sample_after_fork(struct thread *t)
{
    if (t->guard)
        t->guard->random = (t->guard->random ^ (uint64_t)getpid() << 40) | 1;
}

static void become_due(struct thread *t)
{
    struct guard_thread *g = t->guard;
    t->guard_due = true;
    g->wait = g->wait_seen = 1 + (uint32_t)draw_below(g, WAIT_MOST);
    span_review(t);
}

/* Hands over the sample of a thread that did not allocate since the last tick. */
static void hand_over(struct thread *t)
{
    if (thread_count() == 1)
        return;
    draw(t);
    t->guard->countdown += (int64_t)thread_count() * FREES_PER_THREAD;
    span_review(t);
    store_release(&handed_over, true);
    thread_invalidate_all();
}

/* The number of allocations since the last tick is known if the thread is still in the context of that tick. Otherwise,
 * and if it is 0, it is estimated as the number of frees in a full buffer. */
static uint64_t allocated_since_tick(struct thread *t)
{
    struct guard_thread *g = t->guard;
    uint64_t now = load_relaxed(&t->current->alloc_objects), since = g->counters == t->current ? now - g->allocations : 0;
    g->counters = t->current;
    g->allocations = now;
    return since ? since : FREE_BUFFER_MAX;
}

COLD void guard_sample_tick(struct thread *t)
{
    struct guard_thread *g = t->guard;
    if (!g || conf.guard_sample < EXACT_BELOW)
        return;
    g->countdown -= (int64_t)allocated_since_tick(t);
    if (t->guard_due && g->wait == g->wait_seen)
        hand_over(t);
    else if (t->guard_due)
        g->wait_seen = g->wait;
    else if (g->countdown <= 0)
        become_due(t);
}

COLD bool guard_sample_takes_over(struct thread *t)
{
    bool is_mine = load_relaxed(&handed_over) && atomic_exchange(&handed_over, false);
    if (is_mine) {
        t->guard_due = true;
        t->guard->wait = 0;
        span_review(t);
    }
    return is_mine;
}

bool guard_sample_is_left(struct thread *t)
{
    return !draw_below(t->guard, 4);
}

COLD void guard_sample_done(struct thread *t)
{
    draw(t);
}
