/* SPDX-License-Identifier: BSD-2-Clause */
/* How long objects live, with lifetimes:true.
 *
 * For each context a thread adds up how many objects are in use, over time: before it changes that number, it adds the number
 * times the time since the last change. So the sum is the time that all objects have lived so far, those that live now
 * included, and no object needs a time of its own. Divided by the number of allocations, it is the mean lifetime.
 *
 * A thread that frees what others allocated has a negative number in use. The sum over all threads is right. If a change is
 * noticed late, that object's time is wrong by the delay, and all others are right.
 *
 * Times are in units of some µs: ticks would overflow. Objects that live for less are counted where a unit ends meanwhile, which
 * is right on average.
 */
#ifndef JESPAN_LIFETIMES_H
#define JESPAN_LIFETIMES_H

#include "base/clock.h"
#include "heap/counters.h"

#define LIFETIMES_SHIFT 14 /* from ticks to units */
#define LIFETIMES_TRIES 64

static inline uint64_t lifetimes_inuse(struct counters *c, struct counters_more *more)
{
    return load_relaxed(&c->alloc_objects) - load_relaxed(&c->free_objects) + load_relaxed(&more->credited_in_objects) -
           load_relaxed(&more->credited_out_objects);
}

/* To be called before the number of objects in use changes, by the owner. `created` objects are counted already.
 * `lifetimes_at` is the time of the last change, doubled, and odd while the sum changes. A signal handler may come in between:
 * it then adds the short time since. 0: there was no change yet. */
static inline void lifetimes_pass(struct counters *c, uint64_t created)
{
    struct counters_more *more = counters_use_more(c);
    uint64_t at = load_relaxed(&more->lifetimes_at), now = clock_ticks() >> LIFETIMES_SHIFT;
    if (at == now << 1)
        return;
    uint64_t passed = at ? (lifetimes_inuse(c, more) - created) * (now - (at >> 1)) : 0;
    store_relaxed(&more->lifetimes_at, now << 1 | 1);
    atomic_thread_fence(memory_order_release);
    own_add(&more->lifetimes, passed);
    store_release(&more->lifetimes_at, now << 1);
}

/* The sum at a moment, for any reader. */
static inline uint64_t lifetimes_until(struct counters *c, struct counters_more *more, uint64_t ticks)
{
    uint64_t at = 0, sum = 0, inuse = 0;
    for (int i = 0; i < LIFETIMES_TRIES; i++) {
        at = load_acquire(&more->lifetimes_at);
        sum = load_relaxed(&more->lifetimes);
        inuse = lifetimes_inuse(c, more);
        atomic_thread_fence(memory_order_acquire);
        if (!(at & 1) && load_relaxed(&more->lifetimes_at) == at)
            break;
    }
    return at ? sum + inuse * ((ticks >> LIFETIMES_SHIFT) - (at >> 1)) : sum;
}

static inline uint64_t lifetimes_now(struct counters *c, struct counters_more *more)
{
    return load_relaxed(&more->lifetimes_at) ? lifetimes_until(c, more, clock_ticks_after_loads()) : load_relaxed(&more->lifetimes);
}

/* From units to microseconds. */
static inline uint64_t lifetimes_to_us(uint64_t units, uint64_t scale)
{
    return (uint64_t)(((unsigned __int128)units * scale >> (32 - LIFETIMES_SHIFT)) / 1000);
}

#endif
