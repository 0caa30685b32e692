/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: what is charged to them, and the stocks of charged bytes that threads keep. */
#include "policy/limit_internal.h"

#include "base/compiler.h"
#include "base/die.h"

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
    for (uint32_t at = bytes ? limit : until; at != until; at = parent_of(at)) {
        uint64_t before = atomic_fetch_sub_explicit(&limit_at(at)->charged, bytes, memory_order_acq_rel);
        jespan_assert(before >= bytes);
    }
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
    jespan_assert(limits_is_inside(t));
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

void limits_empty_thread(struct thread *t)
{
    for (unsigned i = 0; i < LIMIT_STOCKS; i++)
        empty(&t->stocks[i]);
}

/* Empty stocks are reset too, since they would keep the bytes that are freed next. */
void limits_empty_within(struct thread *t, uint32_t top)
{
    for (unsigned i = 0; i < LIMIT_STOCKS; i++) {
        struct limit_stock *s = &t->stocks[i];
        if ((load_relaxed(&s->bytes) || s->most) && limits_is_within(load_relaxed(&s->limit), top))
            empty(s);
    }
}

COLD void limits_empty_stocks(uint32_t top)
{
    jespan_assert(load_relaxed(&limits_stopped));
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        limits_empty_within(t, top);
}

void limits_leave_thread(struct thread *t)
{
    if (load_relaxed(&t->limits_unsettled))
        limits_settle(t);
    uint32_t section = limits_begin(t);
    limits_empty_thread(t);
    limits_end(t, section);
}

void limits_hand_stocks_up(uint32_t limit, uint32_t parent)
{
    jespan_assert(load_relaxed(&limits_stopped));
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        struct limit_stock *s = limits_stock(t, limit);
        if (load_relaxed(&s->limit) == limit) {
            limits_uncharge(parent, 0, load_relaxed(&s->bytes));
            store_relaxed(&s->bytes, 0);
            store_relaxed(&s->limit, 0);
        }
    }
}
