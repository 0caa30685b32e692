/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: whether an allocation is admitted.
 *
 * An allocation takes from the thread's stock, or charges the limit and all above it. If that fails, the thread looks
 * at what the stocks and free buffers of all threads hold at one moment. If the request would fit without that, the
 * thread drains them and tries again; if not, the request is refused. */
#include "policy/limit_internal.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/dump_on.h"
#include "base/figures.h"
#include "base/futex.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "span/context_path.h"

#define LOOKS 16
#define DRAINS 4

_Atomic uint64_t limits_refusals;
FIGURE_ROW(figure_refusals, "spans.stats.limit_refusals", limits_refusals, FIGURE_NUMBER);
_Atomic uint32_t limits_signal;

/* ---- A look at all threads ---- */

struct look {
    uint32_t top;
    uint64_t charged, unused; /* unused: the part of it that is not in use, in stocks and free buffers */
};

static void add_waiting(void *look, uint32_t limit, uint32_t bytes)
{
    struct look *l = look;
    l->unused += limits_is_within(limit, l->top) ? bytes : 0;
}

static void add_stocks(struct look *l, const struct thread *t)
{
    for (unsigned i = 0; i < LIMIT_STOCKS; i++) {
        uint64_t bytes = load_relaxed(&t->stocks[i].bytes);
        if (bytes && limits_is_within(load_relaxed(&t->stocks[i].limit), l->top))
            l->unused += bytes;
    }
}

/* A number that changes whenever a thread changes a stock or its buffer. Its parts never fall. False: a thread is
 * changing one now, so a sequence is odd. */
static bool add_stamp(uint64_t *stamp)
{
    uint32_t shape = load_acquire(&limits_shape), odd = shape;
    *stamp = shape;
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        uint32_t sequence = load_acquire(&t->limits_sequence);
        odd |= sequence;
        *stamp += sequence + (uint64_t)load_acquire(&t->free_buffer_sequence) * 2 * FREE_BUFFER_MAX + load_acquire(&t->free_buffer_count);
    }
    return !(odd & 1);
}

static bool look_once(struct look *l)
{
    uint64_t before, after;
    bool is_quiet = add_stamp(&before);
    l->unused = 0;
    l->charged = load_acquire(&limit_at(l->top)->charged);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        add_stocks(l, t);
        limits_each_waiting(t, add_waiting, l);
    }
    atomic_thread_fence(memory_order_acquire);
    return is_quiet && add_stamp(&after) && after == before && load_relaxed(&limit_at(l->top)->charged) == l->charged;
}

/* False: the figures are not of one moment. */
static bool look(struct look *l)
{
    for (int i = 0; i < LOOKS; i++)
        if (look_once(l))
            return true;
    return false;
}

static uint64_t inuse(const struct look *l)
{
    return l->charged > l->unused ? l->charged - l->unused : 0;
}

uint64_t limits_inuse(uint32_t limit)
{
    struct look l = {.top = limit};
    look(&l);
    uint64_t unseen = limits_unseen(limit), bytes = inuse(&l);
    return bytes > unseen ? bytes - unseen : 0;
}

/* ---- Refusing ---- */

void limits_tell(void)
{
    if (!atomic_exchange_explicit(&limits_signal, 1, memory_order_acq_rel))
        futex_wake_all(&limits_signal);
}

static COLD _Noreturn void die_of(uint32_t limit, uint64_t wanted)
{
    char path[256], number[3][NUMBER_BYTES];
    const struct limit *l = limit_at(limit);
    WARN("limit of ", context_path(load_relaxed(&l->context), path, sizeof path), " reached: ",
         number_text(number[0], limits_inuse(limit), 10), " of ", number_text(number[1], load_relaxed(&l->hard), 10),
         " bytes in use, ", number_text(number[2], wanted, 10), " more wanted");
    abort();
}

/* Returns whether the allocation goes ahead all the same (on_limit). */
static COLD bool refuse(uint32_t limit, uint64_t wanted)
{
    if (conf.on_limit == ON_LIMIT_ABORT)
        die_of(limit, wanted);
    atomic_fetch_add_explicit(&limit_at(limit)->refusals, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&limits_refusals, 1, memory_order_relaxed);
    limits_tell();
    dump_on_event(DUMP_LIMIT);
    return conf.on_limit == ON_LIMIT_EVENT;
}

/* Makes room if possible, after the limit did not admit a charge. False: another try would fail too. */
static bool make_room(struct thread *t, uint32_t limit, uint64_t wanted)
{
    struct look l = {.top = limit};
    uint64_t hard = load_relaxed(&limit_at(limit)->hard);
    if (hard && wanted > hard)
        return false;
    bool is_true = look(&l);
    if (hard && is_true && (inuse(&l) > hard || hard - inuse(&l) < wanted))
        return false;
    if (!is_true || l.unused)
        limits_drain(t, limit);
    return true;
}

static uint32_t outermost_of(uint32_t limit)
{
    for (uint32_t parent; (parent = load_relaxed(&limit_at(limit)->parent));)
        limit = parent;
    return limit;
}

/* ---- Allocations ---- */

static void tell_if_soft(uint32_t limit)
{
    for (; limit; limit = load_relaxed(&limit_at(limit)->parent)) {
        const struct limit *l = limit_at(limit);
        uint64_t soft = load_relaxed(&l->soft);
        if (soft && load_relaxed(&l->charged) > soft && !load_relaxed(&l->over_soft))
            limits_tell();
    }
}

/* Takes more than is in stock. Returns the limit that refuses; 0: none. */
static NOINLINE uint32_t take_slow(struct thread *t, uint32_t limit, uint64_t usable)
{
    struct limit_stock *s = limits_stock(t, limit);
    if (load_relaxed(&s->limit) != limit) {
        limits_uncharge(load_relaxed(&s->limit), 0, load_relaxed(&s->bytes));
        store_relaxed(&s->bytes, 0);
        store_relaxed(&s->limit, limit);
    }
    uint64_t missing = usable - load_relaxed(&s->bytes), more = limits_share(limit);
    s->most = (uint32_t)more;
    if (usable > more || limits_charge(limit, 0, missing + more))
        more = 0;
    uint32_t refused = more ? 0 : limits_charge(limit, 0, missing);
    if (!refused)
        store_relaxed(&s->bytes, more);
    tell_if_soft(limit);
    return refused;
}

static void hold(struct thread *t, uint32_t context, uint32_t limit, uint64_t usable)
{
    jespan_assert(limits_is_inside(t) && t->n_held < LIMIT_HELD);
    t->held[t->n_held++] = (struct limit_held){usable, context, limit};
}

static enum limits_answer try_hold(struct thread *t, uint32_t context, uint64_t usable, uint32_t *refused)
{
    uint32_t section = limits_begin(t);
    uint32_t limit = limits_of(context);
    *refused = 0;
    if (limit && unlikely(!limits_take(t, limit, usable)))
        *refused = take_slow(t, limit, usable);
    if (likely(limit && !*refused))
        hold(t, context, limit, usable);
    limits_end(t, section);
    return !limit ? LIMITS_NONE : *refused ? LIMITS_REFUSED : LIMITS_HELD;
}

static COLD enum limits_answer hold_anyway(struct thread *t, uint32_t context, uint64_t usable)
{
    uint32_t section = limits_begin(t);
    limits_charge_anyway(limits_of(context), 0, usable);
    hold(t, context, limits_of(context), usable);
    limits_end(t, section);
    return LIMITS_HELD;
}

/* Other threads took what was drained each time, so they wait now. A refusal here is final. */
static COLD enum limits_answer hold_alone(struct thread *t, uint32_t context, uint64_t usable, uint32_t *refused)
{
    limits_begin_alone(t, outermost_of(*refused));
    enum limits_answer answer = try_hold(t, context, usable, refused);
    limits_end_alone();
    return answer;
}

static NOINLINE enum limits_answer hold_slow(struct thread *t, uint32_t context, uint64_t usable, uint32_t refused, bool quietly)
{
    for (int i = 0; i <= DRAINS && make_room(t, refused, usable); i++) {
        enum limits_answer answer = i < DRAINS ? try_hold(t, context, usable, &refused) : hold_alone(t, context, usable, &refused);
        if (answer != LIMITS_REFUSED)
            return answer;
    }
    return !quietly && refuse(refused, usable) ? hold_anyway(t, context, usable) : LIMITS_REFUSED;
}

enum limits_answer limits_hold(struct thread *t, uint32_t context, size_t usable, bool quietly)
{
    uint32_t refused;
    if (unlikely(t->n_held == LIMIT_HELD))
        return LIMITS_REFUSED;
    enum limits_answer answer = try_hold(t, context, usable, &refused);
    return likely(answer != LIMITS_REFUSED) ? answer : hold_slow(t, context, usable, refused, quietly);
}

void limits_drop(struct thread *t)
{
    jespan_assert(t->n_held);
    uint32_t section = limits_begin(t);
    struct limit_held *h = &t->held[--t->n_held];
    limits_give(t, h->limit, h->bytes);
    limits_end(t, section);
}

static COLD bool charge_orphan_alone(uint32_t context, uint64_t usable, uint32_t *refused)
{
    limits_begin_alone(NULL, outermost_of(*refused));
    uint32_t limit = limits_of(context);
    *refused = limit ? limits_charge(limit, 0, usable) : 0;
    limits_end_alone();
    return !*refused;
}

bool limits_charge_orphan(uint32_t context, uint64_t usable)
{
    uint32_t refused = 0;
    bool may_fit = true;
    for (int i = 0; i < DRAINS && may_fit; i++) {
        uint32_t limit = limits_of(context);
        if (!limit || !(refused = limits_charge(limit, 0, usable)))
            return true;
        unlock(LOCK_ORPHAN);
        may_fit = make_room(NULL, refused, usable);
        lock(LOCK_ORPHAN);
    }
    unlock(LOCK_ORPHAN);
    if (may_fit && charge_orphan_alone(context, usable, &refused)) {
        lock(LOCK_ORPHAN);
        return true;
    }
    bool goes_ahead = refuse(refused, usable);
    lock(LOCK_ORPHAN);
    if (goes_ahead)
        limits_charge_anyway(limits_of(context), 0, usable);
    return goes_ahead;
}

void limits_uncharge_orphan(uint32_t context, uint64_t usable)
{
    limits_uncharge(limits_of(context), 0, usable);
}

/* ---- Objects that get another owner ---- */

static uint32_t common_of(uint32_t a, uint32_t b)
{
    while (b && !limits_is_within(a, b))
        b = load_relaxed(&limit_at(b)->parent);
    return b;
}

/* Limits above both contexts are not asked, since nothing changes for them. Returns the limit that refuses; 0: none. */
static uint32_t transfer(struct thread *t, uint32_t from_context, uint32_t to_context, uint64_t usable, bool anyway)
{
    jespan_assert(limits_is_inside(t));
    uint32_t from = limits_of(from_context), to = limits_of(to_context);
    struct limit_stock *s = limits_stock(t, to);
    uint64_t stock = load_relaxed(&s->bytes);
    if (from == to)
        return 0;
    if (to && load_relaxed(&s->limit) == to && stock >= usable) {
        store_relaxed(&s->bytes, stock - usable);
        limits_give(t, from, usable);
        return 0;
    }
    uint32_t common = common_of(from, to), refused = anyway ? 0 : limits_charge(to, common, usable);
    if (refused)
        return refused;
    if (anyway)
        limits_charge_anyway(to, common, usable);
    limits_uncharge(from, common, usable);
    tell_if_soft(to);
    return 0;
}

bool limits_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable)
{
    return !transfer(t, from, to, usable, false);
}

bool limits_begin_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable, uint32_t *section)
{
    uint32_t refused = 0;
    for (int i = 0; i <= DRAINS + 1; i++) {
        bool alone = i > DRAINS;
        if (i && !make_room(t, refused, usable))
            break;
        if (unlikely(alone))
            limits_begin_alone(t, outermost_of(refused));
        *section = limits_begin(t);
        refused = transfer(t, from, to, usable, false);
        if (unlikely(alone))
            limits_end_alone();
        if (likely(!refused))
            return true;
        limits_end(t, *section);
    }
    if (!refuse(refused, usable))
        return false;
    *section = limits_begin(t);
    transfer(t, from, to, usable, true);
    return true;
}
