/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: which contexts have one. limit_tree.c has the tree of limits and their members. */
#include "policy/limit_internal.h"

#include <errno.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "span/tree.h"

_Atomic(struct limit *) limits_chunks[(LIMITS_MAX >> LIMITS_PER_CHUNK_BITS) + 1];

static uint16_t first_free; /* LOCK_LIMITS, as is all below */
static _Atomic uint32_t used_end = 1;
static struct limits_stats stats;
FIGURE_ROW(figure_limits, "spans.stats.limits", stats.limits, FIGURE_NUMBER);
FIGURE_ROW(figure_lost, "spans.stats.limits_lost", stats.lost, FIGURE_NUMBER);
static bool said_lost;

/* ---- Memory for limits ---- */

static bool make_chunk(uint32_t index)
{
    _Atomic(struct limit *) *at = &limits_chunks[index >> LIMITS_PER_CHUNK_BITS];
    if (load_relaxed(at))
        return true;
    struct limit *chunk = meta_alloc(sizeof *chunk << LIMITS_PER_CHUNK_BITS);
    store_release(at, chunk);
    return chunk;
}

/* At the first limit ever, all threads begin to uncharge the frees that they count. Frees that are in buffers now were
 * never charged, so they are claimed. */
static COLD void begin_use(void)
{
    jespan_assert(lock_is_held(LOCK_LIMITS) || !thread_count());
    if (load_relaxed(&limits_are_used))
        return;
    if (limits_first_use)
        limits_first_use();
    store_release(&limits_are_used, true);
    if (!thread_count())
        return;
    limits_await_buffers();
    limits_stop(thread_current);
    limits_claim_all();
    limits_go();
}

COLD int limits_boot(void)
{
    limits_conf_boot();
    if (limits_are_configured)
        begin_use();
    return make_chunk(0) ? 0 : -ENOMEM;
}

uint32_t limits_end_index(void)
{
    return load_acquire(&used_end);
}

/* Returns a free limit; or 0, with -ENOSPC (max_limits) or -ENOMEM in *error. */
static uint32_t take_limit(int *error)
{
    jespan_assert(lock_is_held(LOCK_LIMITS));
    uint32_t index = first_free;
    if (index) {
        first_free = limit_at(index)->next_free;
        return index;
    }
    index = load_relaxed(&used_end);
    *error = index > conf.max_limits ? -ENOSPC : make_chunk(index) ? 0 : -ENOMEM;
    if (*error)
        return 0;
    store_release(&used_end, index + 1);
    return index;
}

/* ---- Functions for limits_each_member() ---- */

static int set_member(void *limit, uint32_t context)
{
    limits_set_member(context, *(uint32_t *)limit);
    return 0;
}

static int watch_member(void *unused, uint32_t context)
{
    (void)unused;
    return limits_watch_inside(context);
}

static int add_charge(void *sum, uint32_t context)
{
    *(uint64_t *)sum += limits_charge_of(context);
    return 0;
}

/* ---- Making and removing limits ---- */

static void set_bounds(struct limit *l, struct limit_bounds bounds)
{
    store_relaxed(&l->soft, bounds.soft);
    store_relaxed(&l->hard, bounds.hard);
    if (bounds.soft)
        store_relaxed(&limits_have_soft, true);
    else
        store_relaxed(&l->over_soft, false);
}

/* Makes a limit on a context, without members and without a parent. Returns it; or 0, with *error set. */
static uint32_t make_limit(uint32_t context, struct limit_bounds bounds, int *error)
{
    uint32_t limit = take_limit(error);
    if (!limit)
        return 0;
    begin_use();
    struct limit *l = limit_at(limit);
    set_bounds(l, bounds);
    store_relaxed(&l->context, context);
    store_relaxed(&l->first_child, 0);
    store_relaxed(&l->charged, 0);
    store_relaxed(&l->refusals, 0);
    store_relaxed(&l->over_soft, false);
    store_relaxed(&l->told_refusals, 0);
    l->told_ns = 0;
    l->pinned = false;
    atomic_thread_fence(memory_order_release); /* a thread that finds the number finds the limit complete */
    stats.limits++;
    return limit;
}

static void give_up(uint32_t limit)
{
    jespan_assert(lock_is_held(LOCK_LIMITS));
    struct limit *l = limit_at(limit);
    store_relaxed(&l->parent, 0);
    store_relaxed(&l->context, 0);
    l->next_free = first_free;
    first_free = (uint16_t)limit;
    stats.limits--;
}

/* Charges to the limit what is in use below the context now. Threads in contexts that had no limit may be about to
 * count something on the fast paths; all threads leave these. Under LOCK_THREADS. */
static int put_on_live(uint32_t limit, uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_THREADS) && lock_is_held(LOCK_TREE) && lock_is_held(LOCK_LIMITS));
    uint32_t parent = limits_of(context);
    limits_stop(thread_current);
    limits_begin_shape();
    limits_add_child(parent, limit);
    uint64_t charged = limits_hand_over_children(parent, limit, context);
    limits_each_member(parent, context, set_member, &limit);
    tree_review_policies();
    thread_invalidate_all_locked();
    limits_show_all();
    int error = parent ? 0 : limits_each_member(limit, context, watch_member, NULL);
    if (!error) {
        limits_each_member(limit, context, add_charge, &charged);
        store_relaxed(&limit_at(limit)->charged, charged);
    }
    limits_end_shape();
    limits_go();
    return error;
}

/* Removes a limit. No thread is in a section. */
static void take_away(uint32_t limit)
{
    jespan_assert(load_relaxed(&limits_stopped));
    struct limit *l = limit_at(limit);
    uint32_t parent = load_relaxed(&l->parent), context = load_relaxed(&l->context);
    limits_begin_shape();
    set_bounds(l, (struct limit_bounds){0, 0});
    limits_hand_stocks_up(limit, parent);
    limits_hand_over_children(limit, parent, context);
    limits_each_member(limit, context, set_member, &parent);
    limits_remove_child(limit);
    limits_end_shape();
    if (l->pinned)
        contexts[context].open_spans--;
    give_up(limit);
}

/* The context's own limit; 0: none. */
static uint32_t own_limit(uint32_t context)
{
    uint32_t limit = load_relaxed(&context_heads[context].limit);
    return limit && load_relaxed(&limit_at(limit)->context) == context ? limit : 0;
}

/* ---- Contexts that are made and recycled ---- */

static void lose(void)
{
    stats.lost++;
    if (!said_lost)
        WARN("max_limits: no room for another limit; its context has none, and further ones are only counted");
    said_lost = true;
}

/* Gives a new context, which has neither objects nor limits below it, a limit of its own. */
static void join(uint32_t context, struct limit_bounds bounds)
{
    int error = 0;
    lock(LOCK_LIMITS);
    uint32_t parent = limits_of(context), limit = make_limit(context, bounds, &error);
    if (limit) {
        limits_add_child(parent, limit);
        store_relaxed(&context_heads[context].limit, (uint16_t)limit);
    } else {
        lose();
    }
    unlock(LOCK_LIMITS);
}

void limits_join(uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct limit_bounds bounds;
    bool is_member = !contexts[context].is_own;
    store_relaxed(&context_heads[context].limit, is_member ? limits_of(contexts[context].parent) : 0);
    if (is_member && limits_are_configured && limits_configured(&contexts[context], &bounds))
        join(context, bounds);
}

void limits_begin_recycling(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (!load_relaxed(&limits_are_used)) {
        lock(LOCK_ORPHAN);
        return;
    }
    lock(LOCK_LIMITS);
    limits_stop(thread_current);
    limits_claim_all(); /* a recycled number may soon be a context with another limit */
}

void limits_end_recycling(void)
{
    if (!load_relaxed(&limits_are_used)) {
        unlock(LOCK_ORPHAN);
        return;
    }
    limits_go();
    unlock(LOCK_LIMITS);
}

void limits_leave(uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (own_limit(context))
        take_away(own_limit(context));
    store_relaxed(&context_heads[context].limit, 0);
}

/* ---- Setting ---- */

/* Empties stocks, since a lower limit may not have room for them. */
static void change_bounds(uint32_t limit, struct limit_bounds bounds)
{
    limits_stop(thread_current);
    set_bounds(limit_at(limit), bounds);
    limits_empty_stocks(limit);
    limits_go();
}

static int set(uint32_t context, const uint64_t *soft, const uint64_t *hard)
{
    int error = 0;
    uint32_t limit = own_limit(context);
    const struct limit_bounds bounds = {soft ? *soft : limit ? load_relaxed(&limit_at(limit)->soft) : 0,
                                        hard ? *hard : limit ? load_relaxed(&limit_at(limit)->hard) : 0};
    if (bounds.hard && bounds.soft > bounds.hard)
        return -EINVAL;
    if (!bounds.soft && !bounds.hard) {
        if (!limit)
            return 0;
        limits_stop(thread_current);
        take_away(limit);
        tree_review_policies();
        thread_invalidate_all_locked();
        limits_go();
        return 0;
    }
    if (limit) {
        change_bounds(limit, bounds);
    } else {
        limit = make_limit(context, bounds, &error);
        if (limit && (error = put_on_live(limit, context))) {
            limits_stop(thread_current);
            take_away(limit);
            limits_go();
            limit = 0;
        }
        if (!limit)
            return error;
    }
    struct limit *l = limit_at(limit);
    contexts[context].open_spans += !l->pinned;
    l->pinned = true;
    return 0;
}

/* The number of a context that was recycled may be a period's now. Under LOCK_TREE. */
static bool is_context(uint32_t id)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    return tree_is_live(id) && !tree_is_part(contexts[id].kind);
}

static bool is_limitable(uint32_t id)
{
    return is_context(id) && id != CONTEXT_ID_UNSAMPLED && !contexts[id].is_own;
}

/* 0 for `life`: any. */
int limits_set_of_life(uint32_t context, uint32_t life, const uint64_t *soft, const uint64_t *hard)
{
    lock(LOCK_THREADS);
    lock(LOCK_TREE);
    lock(LOCK_LIMITS);
    bool is_other = life && (context >= tree_end() || load_relaxed(&context_lives[context]) != life);
    int error = is_other ? -ESTALE : is_limitable(context) ? set(context, soft, hard) : -EINVAL;
    unlock(LOCK_LIMITS);
    unlock(LOCK_TREE);
    unlock(LOCK_THREADS);
    return error;
}

int limits_set(uint32_t context, const uint64_t *soft, const uint64_t *hard)
{
    return limits_set_of_life(context, 0, soft, hard);
}

int limits_get(uint32_t context, struct limit_figures *figures)
{
    *figures = (struct limit_figures){0};
    lock(LOCK_TREE);
    bool exists = is_context(context);
    uint32_t limit = exists ? own_limit(context) : 0;
    if (limit) {
        const struct limit *l = limit_at(limit);
        *figures = (struct limit_figures){{load_relaxed(&l->soft), load_relaxed(&l->hard)},
                                          limits_inuse(limit), load_relaxed(&l->refusals), true};
    }
    unlock(LOCK_TREE);
    return exists ? 0 : -EINVAL;
}

struct limits_stats limits_stats(void)
{
    lock(LOCK_LIMITS);
    struct limits_stats now = stats;
    unlock(LOCK_LIMITS);
    now.refusals = load_relaxed(&limits_refusals);
    return now;
}
