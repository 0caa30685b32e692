/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that ask for a dump: a word of bits, on which the watcher sleeps. */
#include "base/dump_on.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/futex.h"

#define WAKE_BIT (1u << 31)
#define ADDRESS_SPACE_BYTES ((size_t)1 << 47)
#define FAILURE_WAIT_NS 1000000000u
#define UNANSWERED_QUIET_NS UINT64_C(10000000000) /* after the sidecar did not answer */
#define EVENTS (DUMP_BIT(DUMP_N_EVENTS) - 1)

const char *const dump_reason_names[DUMP_N_REASONS] = {"oom", "limit", "peak", "signal", "killed", "alert"};

static _Atomic uint32_t accepted, happened, failures_served;
static _Atomic uint64_t quiet_until;
static _Atomic bool is_outside;        /* the watcher is in another process */
static struct dump_on_outside outside; /* stays valid, since a thread may use it when that ends */

static bool is_watched(void)
{
    return load_acquire(outside.owner) == outside.pid;
}

static void set_outside(uint32_t bit)
{
    if (!is_watched() || atomic_fetch_or_explicit(outside.events, bit, memory_order_release) & bit)
        return;
    atomic_fetch_add_explicit(outside.rings, 1, memory_order_release);
    futex_wake_all_shared(outside.rings);
}

static void set(uint32_t bit)
{
    if (!(atomic_fetch_or_explicit(&happened, bit, memory_order_release) & bit))
        futex_wake_all(&happened);
}

void dump_on_event(enum dump_reason reason)
{
    if (load_relaxed(&accepted) & DUMP_BIT(reason))
        (load_acquire(&is_outside) ? set_outside : set)(DUMP_BIT(reason));
}

/* The sidecar takes the bit away when the dump is written. One that does not answer is not waited for again soon. */
static COLD void report_outside(bool is_ours, uint64_t until)
{
    uint32_t events = load_acquire(outside.events);
    if (events & DUMP_ON_QUIET || load_acquire(outside.alive) & FUTEX_OWNER_DIED)
        return;
    set_outside(DUMP_BIT(DUMP_OOM));
    while (!is_ours && is_watched() && (events = load_acquire(outside.events)) & DUMP_BIT(DUMP_OOM)) {
        if (clock_ns(CLOCK_MONOTONIC) < until)
            futex_wait_shared(outside.events, events, until);
        else {
            store_release(&quiet_until, until + UNANSWERED_QUIET_NS);
            return;
        }
    }
}

COLD void dump_on_failure(size_t bytes, bool is_ours)
{
    if (!(load_relaxed(&accepted) & DUMP_BIT(DUMP_OOM)) || bytes > ADDRESS_SPACE_BYTES)
        return;
    uint64_t now = clock_ns(CLOCK_MONOTONIC), until = now + FAILURE_WAIT_NS;
    if (now < load_acquire(&quiet_until))
        return;
    if (load_acquire(&is_outside)) {
        report_outside(is_ours, until);
        return;
    }
    uint32_t served = load_acquire(&failures_served);
    set(DUMP_BIT(DUMP_OOM));
    while (!is_ours && load_acquire(&failures_served) == served && clock_ns(CLOCK_MONOTONIC) < until)
        futex_wait(&failures_served, served, until);
}

void dump_on_accept(uint32_t reasons)
{
    store_relaxed(&accepted, reasons);
    store_relaxed(&is_outside, false);
    store_relaxed(&happened, 0);
    store_relaxed(&quiet_until, 0);
}

void dump_on_accept_more(uint32_t reasons)
{
    store_relaxed(&accepted, reasons);
}

void dump_on_leave_to(struct dump_on_outside watcher, uint32_t reasons)
{
    dump_on_accept(0);
    outside = watcher;
    store_release(&is_outside, true);
    atomic_fetch_or_explicit(outside.events, DUMP_ON_ACCEPTS, memory_order_release);
    store_release(&accepted, reasons);
}

bool dump_on_has_left(void)
{
    return load_acquire(&is_outside) && is_watched() && load_acquire(outside.events) & (EVENTS | DUMP_ON_BUSY);
}

uint32_t dump_on_wait(uint64_t until_ns)
{
    if (!load_relaxed(&happened))
        futex_wait(&happened, 0, until_ns);
    return atomic_exchange_explicit(&happened, 0, memory_order_acquire) & ~WAKE_BIT;
}

void dump_on_wake(void)
{
    set(WAKE_BIT);
}

void dump_on_done(enum dump_reason reason, uint64_t quiet_until_ns)
{
    atomic_fetch_and_explicit(&happened, ~DUMP_BIT(reason), memory_order_relaxed);
    if (reason != DUMP_OOM)
        return;
    store_release(&quiet_until, quiet_until_ns);
    atomic_fetch_add_explicit(&failures_served, 1, memory_order_release);
    futex_wake_all(&failures_served);
}
