/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: charges, sections, and what one thread does to the stocks and buffers of others.
 *
 * The order: limits_begin() makes the thread's sequence odd, then reads limits_stopped. limits_stop() sets
 * limits_stopped, makes every thread see that (membarrier), then reads the sequences. So at least one of the two
 * notices the other. */
#include "policy/limits.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/meta.h"
#include "heap/classes.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "heap/sums.h"
#include "span/tree.h"

_Atomic bool limits_stopped, limits_are_used;
_Atomic uint32_t limits_shape;
void (*limits_first_use)(void);

static _Atomic(struct thread *) stopper; /* the thread that stopped the others; the orphan if it has no block */

/* ---- Counters ---- */

bool limits_is_within(uint32_t limit, uint32_t top)
{
    while (limit && limit != top)
        limit = load_relaxed(&limit_at(limit)->parent);
    return limit == top;
}

static uint32_t parent_of(uint32_t limit)
{
    return load_relaxed(&limit_at(limit)->parent);
}

static bool fits(const struct limit *l, uint64_t charged, uint64_t bytes)
{
    uint64_t hard = load_relaxed(&l->hard);
    return !hard || (charged <= hard && hard - charged >= bytes);
}

static bool charge_one(struct limit *l, uint64_t bytes)
{
    uint64_t charged = load_relaxed(&l->charged);
    do
        if (!fits(l, charged, bytes))
            return false;
    while (!atomic_compare_exchange_weak_explicit(&l->charged, &charged, charged + bytes, memory_order_acq_rel,
                                                  memory_order_relaxed));
    return true;
}

/* Looks first, so that a request that cannot be admitted never takes room from others for a moment. */
uint32_t limits_charge(uint32_t limit, uint32_t until, uint64_t bytes)
{
    for (uint32_t at = limit; at != until; at = parent_of(at))
        if (!fits(limit_at(at), load_relaxed(&limit_at(at)->charged), bytes))
            return at;
    for (uint32_t at = limit; at != until; at = parent_of(at))
        if (!charge_one(limit_at(at), bytes)) {
            limits_uncharge(limit, at, bytes);
            return at;
        }
    return 0;
}

void limits_charge_anyway(uint32_t limit, uint32_t until, uint64_t bytes)
{
    for (uint32_t at = limit; at != until; at = parent_of(at))
        atomic_fetch_add_explicit(&limit_at(at)->charged, bytes, memory_order_acq_rel);
}

void limits_uncharge(uint32_t limit, uint32_t until, uint64_t bytes)
{
    for (uint32_t at = bytes ? limit : until; at != until; at = parent_of(at))
        atomic_fetch_sub_explicit(&limit_at(at)->charged, bytes, memory_order_acq_rel);
}

/* ---- Stocks ---- */

static uint64_t most_of(uint64_t hard)
{
    uint64_t most = hard / LIMITS_STOCK_SHARE > LIMITS_STOCK_BYTES ? hard / LIMITS_STOCK_SHARE : LIMITS_STOCK_BYTES;
    return most < 1u << 30 ? most : 1u << 30;
}

/* All threads together may keep a quarter of the room in stock, in equal parts. Below a soft limit, the room is what is
 * left until that, so that the limit is not crossed unnoticed. */
uint32_t limits_share(uint32_t limit)
{
    uint64_t room = UINT64_MAX;
    for (uint32_t at = limit; at; at = parent_of(at)) {
        const struct limit *l = limit_at(at);
        uint64_t charged = load_relaxed(&l->charged), hard = load_relaxed(&l->hard), soft = load_relaxed(&l->soft);
        uint64_t left = hard > charged ? hard - charged : 0;
        if (hard && room > left)
            room = left;
        if (soft > charged && room > soft - charged)
            room = soft - charged;
    }
    uint64_t most = most_of(load_relaxed(&limit_at(limit)->hard));
    if (room >= most << 16)
        return (uint32_t)most;
    room /= 4 * (uint64_t)(thread_count() ? thread_count() : 1);
    return (uint32_t)(room < most ? room : most);
}

NOINLINE void limits_give_slow(struct thread *t, uint32_t limit, uint64_t bytes)
{
    struct limit_stock *s = limits_stock(t, limit);
    uint64_t stock = load_relaxed(&s->bytes);
    if (load_relaxed(&s->limit) != limit && stock) {
        limits_uncharge(limit, 0, bytes);
        return;
    }
    stock += bytes;
    s->most = limits_share(limit);
    uint64_t kept = stock <= 2 * (uint64_t)s->most ? stock : s->most;
    store_relaxed(&s->limit, limit);
    store_relaxed(&s->bytes, kept);
    limits_uncharge(limit, 0, stock - kept);
}

static void empty(struct limit_stock *s)
{
    limits_uncharge(load_relaxed(&s->limit), 0, load_relaxed(&s->bytes));
    store_relaxed(&s->bytes, 0);
    s->most = 0; /* bytes that are freed next go straight back to the limit */
}

static void empty_all(struct thread *t)
{
    for (unsigned i = 0; i < LIMIT_STOCKS; i++)
        empty(&t->stocks[i]);
}

void limits_leave_thread(struct thread *t)
{
    if (load_relaxed(&t->limits_unsettled))
        limits_settle(t);
    uint32_t section = limits_begin(t);
    empty_all(t);
    limits_end(t, section);
}

void limits_hand_stocks_up(uint32_t limit, uint32_t parent)
{
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        struct limit_stock *s = limits_stock(t, limit);
        if (load_relaxed(&s->limit) == limit) {
            limits_uncharge(parent, 0, load_relaxed(&s->bytes));
            store_relaxed(&s->bytes, 0);
            store_relaxed(&s->limit, 0);
        }
    }
}

/* ---- Stopping the others ---- */

#define SPINS 200
#define YIELDS 200

static bool is_inside(const struct thread *t)
{
    return load_acquire(&t->limits_sequence) & 1;
}

/* Waits until the thread is in no section. Sleeps after a while, as that thread may have a lower priority. False: it is
 * in a section still, after so many looks. */
static bool await_outside(const struct thread *t, unsigned looks)
{
    const struct timespec pause = {0, 50000};
    for (unsigned i = 0; is_inside(t); i++) {
        if (i == looks)
            return false;
        if (i > SPINS + YIELDS)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
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

/* ---- Frees in buffers ---- */

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
    const _Atomic uint32_t *slot = load_relaxed(&t->free_buffer_slot[i]);
    uint32_t tag = slot ? load_relaxed(slot) & ~TAG_SURVIVOR : 0;
    return tag < tree_end() ? tag : 0;
}

static uint32_t bytes_waiting(const struct thread *t, uint32_t i)
{
    return class_bytes[load_relaxed(&t->free_buffer_class[i]) % CLASSES_MAX];
}

uint32_t limits_each_waiting(struct thread *t, void (*each)(void *to, uint32_t limit, uint32_t bytes), void *to)
{
    uint32_t i = first_waiting(t, buffer_number(t)), end = load_acquire(&t->free_buffer_count);
    for (; i < end && i < PENDING_MAX; i++) {
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
static void claim(struct thread *t)
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

COLD void limits_claim_all(void)
{
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        claim(t);
}

/* Empty stocks are reset too, since they would keep the bytes that are freed next. */
static void empty_within(struct thread *t, uint32_t top)
{
    for (unsigned i = 0; i < LIMIT_STOCKS; i++) {
        struct limit_stock *s = &t->stocks[i];
        if ((load_relaxed(&s->bytes) || s->most) && limits_is_within(load_relaxed(&s->limit), top))
            empty(s);
    }
}

COLD void limits_empty_stocks(uint32_t top)
{
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        empty_within(t, top);
}

COLD void limits_drain(struct thread *self, uint32_t top)
{
    lock(LOCK_LIMITS);
    close_sections(self);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        if (t != self && !await_outside(t, SPINS + YIELDS))
            continue;
        empty_within(t, top);
        claim(t);
    }
    limits_go();
    unlock(LOCK_LIMITS);
}

/* Waits for flushes that began before frees were uncharged, but not for ever, as something may hold up their
 * threads. */
COLD void limits_await_buffers(void)
{
    limits_show_all();
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        uint32_t sequence = load_acquire(&t->free_buffer_sequence);
        for (int i = 0; sequence & 1 && t != thread_current && i < 1000 && load_acquire(&t->free_buffer_sequence) == sequence; i++)
            sched_yield();
    }
}

/* As limits_drain(), but waits for every thread, and none begins a section until limits_end_alone(). */
COLD void limits_begin_alone(struct thread *self, uint32_t top)
{
    lock(LOCK_LIMITS);
    limits_stop(self);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        empty_within(t, top);
        claim(t);
    }
}

COLD void limits_end_alone(void)
{
    limits_go();
    unlock(LOCK_LIMITS);
}

/* ---- Bytes that were in use before the limit ---- */

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

uint64_t limits_charge_of(uint32_t context)
{
    uint64_t sum = 0;
    for (const struct thread *t = thread_first(); t; t = thread_next(t)) {
        sum += net_of(t, context);
        uint32_t number = buffer_number(t), end = claimed_of(t, number);
        for (uint32_t i = greatest(load_relaxed(&t->free_buffer_done), counted_of(t, number), 0); i < end; i++)
            if (tag_waiting(t, i) == context)
                sum -= bytes_waiting(t, i);
        for (uint32_t i = 0; i < t->n_held; i++)
            sum += t->held[i].context == context ? t->held[i].bytes : 0;
    }
    for (const struct unsettled *u = unsettled; u; u = u->next)
        sum += u->context == context ? LIMITS_UNSEEN_BYTES : 0;
    return sum;
}

static int watch(struct thread *t, uint32_t context)
{
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
    store_relaxed(&contexts[context].limit, (uint16_t)limit);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        for (uint32_t i = 0; i < t->n_held; i++)
            if (t->held[i].context == context)
                t->held[i].limit = limit;
    if (!limit)
        forget_inside(context);
}

static void settle_locked(struct thread *t)
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
    settle_locked(t);
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

COLD void limits_after_fork_in_child(void)
{
    if (!load_relaxed(&limits_stopped))
        return;
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        if (t == thread_current)
            continue;
        /* The sequence is odd if the thread was about to begin a section. It would have found that it must wait, and
         * made the sequence even again. */
        store_relaxed(&t->limits_sequence, (load_relaxed(&t->limits_sequence) + 1) & ~1u);
        settle_locked(t);
        while (t->n_held) {
            struct limit_held *h = &t->held[--t->n_held];
            limits_uncharge(h->limit, 0, h->bytes);
        }
        empty_all(t);
    }
    store_relaxed(&stopper, NULL);
    store_release(&limits_stopped, false);
}
