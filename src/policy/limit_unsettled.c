/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: bytes that were in use before the limit, and threads that have yet to settle. */
#include <errno.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "policy/limit_internal.h"
#include "span/tree.h"

/* A thread was in a context, on the fast paths, when a limit was set above the context. The thread may still count an
 * allocation or a free there that is not charged. */
struct unsettled {
    struct unsettled *next;
    struct thread *thread;
    uint32_t context;
    uint64_t net; /* bytes in use that the thread had counted there */
};
static struct unsettled *unsettled, *unused; /* LOCK_LIMITS */
static _Atomic bool has_unsettled;

static uint64_t net_of(const struct thread *t, uint32_t context)
{
    struct counters *c = counters_find(t, context);
    struct totals sum = {0};
    if (c)
        sums_add_pair(&sum, c);
    return totals_inuse_bytes(&sum);
}

/* What the thread has counted since then is charged when it settles. Not before, or it would be charged twice. */
static uint64_t charge_of(const struct thread *t, uint32_t context)
{
    for (const struct unsettled *u = unsettled; u; u = u->next)
        if (u->thread == t && u->context == context)
            return u->net + LIMITS_UNSEEN_BYTES;
    return net_of(t, context);
}

uint64_t limits_charge_of(uint32_t context)
{
    jespan_assert(load_relaxed(&limits_stopped));
    uint64_t sum = 0;
    for (const struct thread *t = thread_first(); t; t = thread_next(t)) {
        sum += charge_of(t, context) - limits_claimed_bytes(t, context);
        for (uint32_t i = 0; i < t->n_held; i++)
            sum += t->held[i].context == context ? t->held[i].bytes : 0;
    }
    return sum;
}

static int watch(struct thread *t, uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_LIMITS) && load_relaxed(&limits_stopped));
    struct unsettled *u = unused ? unused : meta_alloc(sizeof *u);
    if (!u)
        return -ENOMEM;
    unused = u == unused ? u->next : unused;
    *u = (struct unsettled){unsettled, t, context, net_of(t, context)};
    unsettled = u;
    store_relaxed(&has_unsettled, true);
    store_relaxed(&t->limits_unsettled, true);
    return 0;
}

int limits_watch_inside(uint32_t context)
{
    int error = 0;
    for (struct thread *t = thread_next(thread_first()); t && !error; t = thread_next(t)) {
        struct counters *c = load_relaxed(&t->live) && load_acquire(&t->maybe_hot) ? counters_find(t, context) : NULL;
        uint64_t exits = c ? load_acquire(&c->exits) : 0;
        if (c && load_relaxed(&c->enters) != exits)
            error = watch(t, context);
    }
    return error;
}

static void drop(struct unsettled **link)
{
    struct unsettled *u = *link;
    *link = u->next;
    u->next = unused;
    unused = u;
    store_relaxed(&has_unsettled, unsettled != NULL);
}

static void forget_inside(uint32_t context)
{
    for (struct unsettled **link = &unsettled, *u; (u = *link);)
        if (u->context == context)
            drop(link);
        else
            link = &u->next;
}

void limits_set_member(uint32_t context, uint32_t limit)
{
    jespan_assert(load_relaxed(&limits_stopped));
    store_relaxed(&contexts[context].limit, (uint16_t)limit);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        for (uint32_t i = 0; i < t->n_held; i++)
            if (t->held[i].context == context)
                t->held[i].limit = limit;
    if (!limit)
        forget_inside(context);
}

COLD void limits_settle_locked(struct thread *t)
{
    for (struct unsettled **link = &unsettled, *u; (u = *link);) {
        if (u->thread != t) {
            link = &u->next;
            continue;
        }
        limits_charge_anyway(limits_of(u->context), 0, net_of(t, u->context) - u->net - LIMITS_UNSEEN_BYTES);
        drop(link);
    }
    store_relaxed(&t->limits_unsettled, false);
}

COLD void limits_settle(struct thread *t)
{
    lock(LOCK_LIMITS);
    limits_settle_locked(t);
    unlock(LOCK_LIMITS);
}

uint64_t limits_unseen(uint32_t top)
{
    uint64_t bytes = 0;
    if (!load_relaxed(&has_unsettled))
        return 0;
    lock(LOCK_LIMITS);
    for (const struct unsettled *u = unsettled; u; u = u->next)
        bytes += limits_is_within(limits_of(u->context), top) ? LIMITS_UNSEEN_BYTES : 0;
    unlock(LOCK_LIMITS);
    return bytes;
}
