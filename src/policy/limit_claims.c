/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: frees in threads' buffers, and claims.
 *
 * A buffered free is uncharged when its thread counts it, or ahead of time when another thread claims it. The thread
 * must not uncharge a claimed free again. So its block says which frees of which buffer were counted and claimed. */
#include <errno.h>
#include <sched.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/classes.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "heap/sums.h"
#include "heap/thread.h"
#include "policy/limit_internal.h"
#include "span/tree.h"

/* The number of a buffer's content; a flush changes it. To be read before the content. */
static uint32_t buffer_number(const struct thread *t)
{
    return load_acquire(&t->free_buffer_sequence) & ~1u;
}

static uint32_t counted_of(const struct thread *t, uint32_t number)
{
    return load_relaxed(&t->claimed_sequence) == number ? load_relaxed(&t->counted) : 0;
}

static uint32_t claimed_of(const struct thread *t, uint32_t number)
{
    return load_relaxed(&t->claimed_sequence) == number ? load_relaxed(&t->claimed) : 0;
}

static uint32_t greatest(uint32_t a, uint32_t b, uint32_t c)
{
    a = a > b ? a : b;
    return a > c ? a : c;
}

/* The index of the first free that is neither counted nor claimed. */
static uint32_t first_waiting(const struct thread *t, uint32_t number)
{
    uint32_t counted = counted_of(t, number), claimed = claimed_of(t, number);
    return greatest(load_relaxed(&t->free_buffer_done), counted, claimed);
}

/* The context of a buffered free; 0: unknown. The context may be marked for recycling, and is charged until it is
 * recycled. If the thread goes on meanwhile, the slot may be another object's or free memory, and the context is wrong;
 * callers that allow this check afterwards whether the buffer changed. */
static uint32_t tag_waiting(const struct thread *t, uint32_t i)
{
    uint32_t tag = free_buffer_tag(t, i) & ~TAG_SURVIVOR;
    return tag < tree_end() ? tag : 0;
}

static uint32_t bytes_waiting(const struct thread *t, uint32_t i)
{
    return class_bytes[load_relaxed(&t->free_buffer_class[i]) % CLASSES_MAX];
}

uint32_t limits_each_waiting(struct thread *t, void (*each)(void *to, uint32_t limit, uint32_t bytes), void *to)
{
    uint32_t i = first_waiting(t, buffer_number(t)), end = load_acquire(&t->free_buffer_count);
    for (; i < end && i < FREE_BUFFER_MAX; i++) {
        uint32_t tag = tag_waiting(t, i), limit = tag ? limits_of(tag) : 0;
        if (limit)
            each(to, limit, bytes_waiting(t, i));
    }
    return end;
}

static void uncharge_one(void *unused, uint32_t limit, uint32_t bytes)
{
    (void)unused;
    limits_uncharge(limit, 0, bytes);
}

/* Uncharges the frees in a buffer ahead of time. Meanwhile the thread may add frees; if all are counted, it may begin a
 * new buffer. */
void limits_claim(struct thread *t)
{
    uint32_t number = buffer_number(t), counted = counted_of(t, number);
    if (first_waiting(t, number) >= load_acquire(&t->free_buffer_count))
        return;
    uint32_t end = limits_each_waiting(t, uncharge_one, NULL);
    store_relaxed(&t->counted, counted);
    store_relaxed(&t->claimed, end);
    store_relaxed(&t->claimed_sequence, number);
}

COLD void limits_unclaim(struct thread *t, uint32_t i)
{
    uint32_t number = buffer_number(t);
    uint32_t tag = i >= counted_of(t, number) && i < claimed_of(t, number) ? tag_waiting(t, i) : 0;
    if (tag)
        limits_charge_anyway(limits_of(tag), 0, bytes_waiting(t, i));
}

uint64_t limits_claimed_bytes(const struct thread *t, uint32_t context)
{
    uint32_t number = buffer_number(t), end = claimed_of(t, number);
    uint64_t bytes = 0;
    for (uint32_t i = greatest(load_relaxed(&t->free_buffer_done), counted_of(t, number), 0); i < end; i++)
        bytes += tag_waiting(t, i) == context ? bytes_waiting(t, i) : 0;
    return bytes;
}

COLD void limits_claim_all(void)
{
    jespan_assert(load_relaxed(&limits_stopped));
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        limits_claim(t);
}

COLD void limits_await_buffers(void)
{
    limits_show_all();
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        uint32_t sequence = load_acquire(&t->free_buffer_sequence);
        for (int i = 0; sequence & 1 && t != thread_current && i < 1000 && load_acquire(&t->free_buffer_sequence) == sequence; i++)
            sched_yield();
    }
}

/* ---- Bytes in use before the limit ---- */

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

/* Bytes that the thread has counted since then are charged when it settles. If they were charged now, they would be charged
 * twice. */
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
    store_relaxed(&context_heads[context].limit, (uint16_t)limit);
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
