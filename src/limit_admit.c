/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: who may allocate.
 *
 * An allocation is admitted out of the thread's budget, or of what the last sum found to spare, or after a sum. Before it
 * sums, a thread *reserves* what it wants, where all others see it; then it looks at what is in use and reserved, for
 * each limit on its way up that it has no budget of. Of two threads that want the last bytes at least one sees the
 * other; who is refused because of others looks again under LOCK_LIMITS, one at a time, so that not both are. */
#include "limit.h"

#include <stdlib.h>

#include "conf.h"
#include "context_path.h"
#include "counters.h"
#include "die.h"
#include "dump_on.h"
#include "futex.h"
#include "lock.h"
#include "sums.h"
#include "tree.h"

#define TRIES 8

_Atomic uint64_t limits_refusals;
_Atomic uint32_t limits_signal;

/* ---- Sums ---- */

/* What those below a limit have, or would like to have. */
struct usage {
    uint64_t allocated, freed;
    uint64_t reserved; /* by other threads */
};

/* Goes through the members of a limit and of all below it. */
struct walk {
    uint32_t top, at, member, shape;
};

static bool is_same_shape(const struct walk *w)
{
    return load_acquire(&limit_at(w->top)->shape) == w->shape;
}

/* The next one; 0: that was the last, or others changed the lists. */
HOT_INLINE uint32_t next_member(struct walk *w)
{
    if (!is_same_shape(w))
        return 0;
    w->member = w->member ? load_relaxed(&contexts[w->member].limit_next) : 0;
    while (!w->member && (w->at = limits_walk(w->top, w->at)))
        w->member = load_relaxed(&limit_at(w->at)->first_member);
    return w->member;
}

static uint64_t freed_and_counted(const struct thread *t, struct walk w)
{
    uint64_t sum = 0;
    for (uint32_t id; (id = next_member(&w));) {
        struct counters *c = counters_find(t, id);
        if (!c)
            continue;
        struct counters_more *more = counters_used_more(c);
        sum += load_acquire(&c->free_bytes) + (more ? load_acquire(&more->moved_out_bytes) : 0);
    }
    return sum;
}

static uint64_t freed_and_buffered(struct thread *t, uint32_t top)
{
    struct freed freed[PENDING_MAX];
    uint64_t sum = 0;
    for (int i = sums_read_buffer(t, freed); i--;)
        if (limits_is_within(load_relaxed(&contexts[freed[i].context].limit), top))
            sum += freed[i].bytes;
    return sum;
}

/* What moves from a thread's buffer to its counters meanwhile must be seen once. */
static uint64_t freed_by(struct thread *t, struct walk w)
{
    uint64_t sum = 0;
    for (int i = 0; i < TRIES; i++) {
        uint32_t sequence = load_acquire(&t->pending_sequence);
        sum = freed_and_counted(t, w) + freed_and_buffered(t, w.top);
        if (sums_stood_still(t, sequence))
            break;
    }
    return sum;
}

/* The thread counts an allocation first, and then gives up what it had reserved for it: so that is read first. Where
 * the counter is past what it was, the allocation is in it. */
static void add_allocated(struct thread *t, struct walk w, bool is_self, struct usage *u)
{
    uint64_t reserved = is_self ? 0 : load_acquire(&t->reserved_bytes);
    struct counters *reserved_for = reserved ? load_relaxed(&t->reserved_for) : NULL;
    uint64_t after = reserved ? load_relaxed(&t->reserved_after) : 0;
    for (uint32_t id; (id = next_member(&w));) {
        struct counters *c = counters_find(t, id);
        if (!c)
            continue;
        struct counters_more *more = counters_used_more(c);
        uint64_t allocated = load_relaxed(&c->alloc_bytes);
        u->allocated += allocated + (more ? load_relaxed(&more->moved_in_bytes) : 0);
        if (c == reserved_for && allocated == after)
            u->reserved += reserved;
    }
}

/* All frees before all allocations: see sums.h. False: the lists changed meanwhile. */
static bool try_usage(uint32_t limit, const struct thread *self, struct usage *u)
{
    const struct walk w = {.top = limit, .shape = load_acquire(&limit_at(limit)->shape)};
    *u = (struct usage){0};
    if (w.shape & 1)
        return false;
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        u->freed += freed_by(t, w);
    atomic_thread_fence(memory_order_acquire);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        add_allocated(t, w, t == self, u);
    atomic_thread_fence(memory_order_acquire);
    return is_same_shape(&w);
}

static struct usage usage(uint32_t limit, const struct thread *self)
{
    struct usage u;
    for (int i = 0; i < TRIES; i++)
        if (try_usage(limit, self, &u))
            return u;
    lock(LOCK_LIMITS);
    try_usage(limit, self, &u);
    unlock(LOCK_LIMITS);
    return u;
}

static uint64_t inuse(const struct usage *u)
{
    return u->allocated > u->freed ? u->allocated - u->freed : 0;
}

uint64_t limits_inuse(uint32_t limit)
{
    struct usage u = usage(limit, NULL);
    return inuse(&u);
}

/* ---- Budgets ---- */

static struct limit_budget *budget_of(struct thread *t, uint32_t limit)
{
    return &t->budgets[load_relaxed(&limit_at(limit)->depth) % LIMIT_DEPTHS][limit % LIMIT_LINES];
}

static uint64_t most_of(uint64_t hard)
{
    return hard / LIMITS_BUDGET_SHARE > LIMITS_BUDGET_BYTES ? hard / LIMITS_BUDGET_SHARE : LIMITS_BUDGET_BYTES;
}

/* What may be handed out without a sum: bytes, and below them how often they changed, so that who sums can tell whether
 * others did something meanwhile. */
#define SPARE_SHIFT 16
#define SPARE_MAX (UINT64_MAX >> SPARE_SHIFT)

static uint64_t spare_bytes(uint64_t spare)
{
    return spare >> SPARE_SHIFT;
}

static bool change_spare(struct limit *l, uint64_t *from, uint64_t bytes)
{
    return atomic_compare_exchange_strong_explicit(&l->spare, from, bytes << SPARE_SHIFT | (uint16_t)(*from + 1),
                                                   memory_order_acq_rel, memory_order_acquire);
}

static void lower_spare(struct limit *l, uint64_t by)
{
    uint64_t spare = load_acquire(&l->spare);
    while (!change_spare(l, &spare, spare_bytes(spare) > by ? spare_bytes(spare) - by : 0))
        ;
}

void limits_void_spare(struct limit *l)
{
    lower_spare(l, UINT64_MAX);
}

void limits_came_in(uint16_t nearest, size_t usable)
{
    for (uint32_t limit = nearest; limit; limit = load_relaxed(&limit_at(limit)->parent))
        lower_spare(limit_at(limit), usable);
}

/* A budget out of what is spare. */
static bool take_spare(struct thread *t, uint32_t limit, uint64_t wanted)
{
    struct limit *l = limit_at(limit);
    uint32_t generation = load_acquire(&l->generation);
    uint64_t most = most_of(load_relaxed(&l->hard)), spare = load_acquire(&l->spare);
    while (wanted <= most && spare_bytes(spare) >= most)
        if (change_spare(l, &spare, spare_bytes(spare) - most)) {
            *budget_of(t, limit) = (struct limit_budget){most - wanted, generation, (uint16_t)limit};
            return true;
        }
    return false;
}

/* What a sum found, and what it may be used for. */
struct finding {
    uint32_t generation; /* of the limit, and what was spare, before the sum */
    uint64_t spare;
    uint64_t most;       /* that a budget may be */
    uint64_t room;       /* after the allocation */
    uint64_t until_soft; /* until the soft limit is crossed; UINT64_MAX: there is none, or it was */
    bool is_big;         /* the allocation is: more than a budget */
};

/* There is plenty of room: besides the budgets, which take half of it at most, a quarter can go without further sums.
 * The last quarter is for what others used of their budgets while this thread summed. Where others took of the spare
 * meanwhile, it stays as it is; but a big allocation has made it less. */
static void set_spare(struct limit *l, const struct finding *f)
{
    uint64_t bytes = f->room / 4 < f->until_soft ? f->room / 4 : f->until_soft, spare = f->spare;
    if (!change_spare(l, &spare, bytes < SPARE_MAX ? bytes : SPARE_MAX) && f->is_big)
        limits_void_spare(l);
}

/* Of the room that there is, half is handed out at most, in equal shares, so that the budgets of all threads could
 * be used up without harm. As room gets scarce, those that were handed out earlier may be too much: when it is half
 * of what it was, they are called back. What one was used for just then, and is not counted yet, may lead beyond the
 * limit; it cannot by more than the budget, on any thread. */
static void grant(struct thread *t, uint32_t limit, struct finding f)
{
    struct limit *l = limit_at(limit);
    uint64_t shares = 2 * (uint64_t)(thread_count() ? thread_count() : 1);
    uint64_t before = load_relaxed(&l->room);
    if (f.room / shares >= f.most) {
        if (before != UINT64_MAX)
            store_relaxed(&l->room, UINT64_MAX);
        set_spare(l, &f);
    } else {
        limits_void_spare(l);
        if (f.room < before / 2) {
            store_relaxed(&l->room, f.room);
            atomic_fetch_add_explicit(&l->generation, 1, memory_order_release);
            f.generation++;
        } else if (f.room > before) {
            store_relaxed(&l->room, f.room);
        }
    }
    uint64_t share = f.room / shares < f.most ? f.room / shares : f.most;
    *budget_of(t, limit) = (struct limit_budget){share, f.generation, (uint16_t)limit};
}

/* ---- Refusing ---- */

void limits_tell(void)
{
    if (!atomic_exchange_explicit(&limits_signal, 1, memory_order_acq_rel))
        futex_wake_all(&limits_signal);
}

static COLD _Noreturn void die_of(uint32_t limit, uint64_t inuse_bytes, uint64_t wanted)
{
    char path[256], number[3][NUMBER_BYTES];
    const struct limit *l = limit_at(limit);
    WARN("limit of ", context_path(load_relaxed(&l->context), path, sizeof path), " reached: ",
         number_text(number[0], inuse_bytes, 10), " of ", number_text(number[1], load_relaxed(&l->hard), 10), " bytes in use, ",
         number_text(number[2], wanted, 10), " more wanted");
    abort();
}

/* Whether the allocation goes ahead all the same. */
static COLD bool refuse(struct thread *t, uint32_t limit, uint64_t inuse_bytes, uint64_t wanted)
{
    if (conf.on_limit == ON_LIMIT_ABORT)
        die_of(limit, inuse_bytes, wanted);
    atomic_fetch_add_explicit(&limit_at(limit)->refusals, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&limits_refusals, 1, memory_order_relaxed);
    limits_tell();
    dump_on_event(DUMP_LIMIT);
    if (conf.on_limit == ON_LIMIT_EVENT)
        return true;
    limits_settle(t);
    return false;
}

/* ---- Admission ---- */

/* For others to see before this thread sums. */
static void reserve(struct thread *t, uint64_t bytes)
{
    store_relaxed(&t->reserved_for, t->current);
    store_relaxed(&t->reserved_after, load_relaxed(&t->current->alloc_bytes));
    store_release(&t->reserved_bytes, bytes);
    atomic_thread_fence(memory_order_seq_cst);
}

static bool fits(const struct usage *u, uint64_t hard, uint64_t reserved, uint64_t wanted)
{
    uint64_t taken = inuse(u) + reserved;
    return taken <= hard && hard - taken >= wanted;
}

static struct usage usage_alone(uint32_t limit, const struct thread *self)
{
    struct usage u;
    lock(LOCK_LIMITS);
    try_usage(limit, self, &u);
    unlock(LOCK_LIMITS);
    return u;
}

static NOINLINE bool admit_by_sum(struct thread *t, uint32_t limit, uint64_t wanted)
{
    struct limit *l = limit_at(limit);
    struct finding f = {.generation = load_acquire(&l->generation), .spare = load_acquire(&l->spare),
                        .until_soft = UINT64_MAX};
    uint64_t hard = load_relaxed(&l->hard), soft = load_relaxed(&l->soft);
    budget_of(t, limit)->limit = 0;
    if (!hard)
        return true;
    reserve(t, wanted);
    struct usage u = usage(limit, t);
    if (!fits(&u, hard, u.reserved, wanted) && fits(&u, hard, 0, wanted))
        u = usage_alone(limit, t);
    if (soft && inuse(&u) + wanted > soft && !load_relaxed(&l->over_soft))
        limits_tell();
    if (!fits(&u, hard, u.reserved, wanted))
        return refuse(t, limit, inuse(&u), wanted);
    f.room = hard - inuse(&u) - u.reserved - wanted;
    f.most = most_of(hard);
    f.is_big = wanted > f.most;
    if (soft && inuse(&u) + wanted <= soft)
        f.until_soft = soft - inuse(&u) - wanted;
    grant(t, limit, f);
    return true;
}

bool limits_admit(struct thread *t, uint16_t nearest, size_t usable)
{
    for (uint32_t limit = nearest; limit; limit = load_relaxed(&limit_at(limit)->parent)) {
        struct limit_budget *b = budget_of(t, limit);
        if (likely(b->limit == limit && b->left >= usable &&
                   b->generation == load_relaxed(&limit_at(limit)->generation)))
            b->left -= usable;
        else if (!take_spare(t, limit, usable) && !admit_by_sum(t, limit, usable))
            return false;
    }
    return true;
}
