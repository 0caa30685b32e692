/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: where they stand, and which contexts are whose. */
#include "limit.h"

#include <errno.h>

#include "conf.h"
#include "die.h"
#include "lock.h"
#include "meta.h"
#include "tree.h"

_Atomic(struct limit *) limits_chunks[(LIMITS_MAX >> LIMITS_PER_CHUNK_BITS) + 1];

static uint16_t first_free; /* LOCK_LIMITS, as is all below */
static _Atomic uint32_t used_end = 1;
static struct limits_stats stats;
static bool said_lost;

/* ---- Limits themselves ---- */

static bool make_chunk(uint32_t index)
{
    _Atomic(struct limit *) *at = &limits_chunks[index >> LIMITS_PER_CHUNK_BITS];
    if (load_relaxed(at))
        return true;
    struct limit *chunk = meta_alloc(sizeof *chunk << LIMITS_PER_CHUNK_BITS);
    store_release(at, chunk);
    return chunk;
}

COLD int limits_boot(void)
{
    limits_conf_boot();
    return make_chunk(0) ? 0 : -ENOMEM;
}

uint32_t limits_end(void)
{
    return load_acquire(&used_end);
}

/* A free limit; 0 where max_limits or memory is in the way, which `error` then says. */
static uint32_t take_limit(int *error)
{
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

uint32_t limits_walk(uint32_t top, uint32_t at)
{
    uint32_t next = at ? load_relaxed(&limit_at(at)->first_child) : top;
    while (!next && at && at != top) { /* 0: the lists are changing */
        next = load_relaxed(&limit_at(at)->next_sibling);
        at = load_relaxed(&limit_at(at)->parent);
    }
    return next;
}

bool limits_is_within(uint32_t limit, uint32_t top)
{
    while (limit && limit != top)
        limit = load_relaxed(&limit_at(limit)->parent);
    return limit == top;
}

/* What a limit's lists are part of changes: those who sum meanwhile begin again. Around each change, with the limit in
 * its place. */
static void turn_shapes(uint32_t limit)
{
    for (; limit; limit = load_relaxed(&limit_at(limit)->parent))
        atomic_fetch_add_explicit(&limit_at(limit)->shape, 1, memory_order_acq_rel);
    atomic_thread_fence(memory_order_seq_cst);
}

static void void_budgets(uint32_t limit)
{
    struct limit *l = limit_at(limit);
    atomic_fetch_add_explicit(&l->generation, 1, memory_order_release);
    limits_void_spare(l);
}

/* ---- Members ---- */

static void add_member(uint32_t limit, uint32_t context)
{
    struct limit *l = limit_at(limit);
    uint32_t first = load_relaxed(&l->first_member);
    store_relaxed(&contexts[context].limit, (uint16_t)limit);
    store_relaxed(&contexts[context].limit_next, first);
    contexts[context].limit_before = 0;
    if (first)
        contexts[first].limit_before = context;
    store_relaxed(&l->first_member, context);
}

static void remove_member(uint32_t context)
{
    struct context *c = &contexts[context];
    uint32_t next = load_relaxed(&c->limit_next);
    if (c->limit_before)
        store_relaxed(&contexts[c->limit_before].limit_next, next);
    else
        store_relaxed(&limit_at(load_relaxed(&c->limit))->first_member, next);
    if (next)
        contexts[next].limit_before = c->limit_before;
    store_relaxed(&c->limit, 0);
}

static void move_member(uint32_t context, uint32_t to)
{
    if (load_relaxed(&contexts[context].limit))
        remove_member(context);
    if (to)
        add_member(to, context);
}

static bool is_below(uint32_t context, uint32_t top)
{
    while (context != top && context != CONTEXT_ID_ROOT && context != CONTEXT_ID_SELF)
        context = contexts[context].parent;
    return context == top;
}

/* ---- The tree of limits ---- */

/* Budgets are kept by depth. */
static void set_depths(uint32_t top)
{
    for (uint32_t at = top; at; at = limits_walk(top, at)) {
        uint32_t parent = load_relaxed(&limit_at(at)->parent);
        store_relaxed(&limit_at(at)->depth, parent ? (uint16_t)(load_relaxed(&limit_at(parent)->depth) + 1) : 0);
        void_budgets(at);
    }
}

static void add_child(uint32_t parent, uint32_t limit)
{
    struct limit *l = limit_at(limit), *p = limit_at(parent);
    store_relaxed(&l->parent, (uint16_t)parent);
    store_relaxed(&l->next_sibling, load_relaxed(&p->first_child));
    store_relaxed(&p->first_child, (uint16_t)limit);
    set_depths(limit);
}

static void remove_child(uint32_t limit)
{
    struct limit *l = limit_at(limit);
    _Atomic uint16_t *link = &limit_at(load_relaxed(&l->parent))->first_child;
    while (load_relaxed(link) != limit)
        link = &limit_at(load_relaxed(link))->next_sibling;
    store_relaxed(link, load_relaxed(&l->next_sibling));
}

static void hand_over_children(uint32_t from, uint32_t to, uint32_t context)
{
    for (uint32_t child = load_relaxed(&limit_at(from)->first_child), next; child; child = next) {
        next = load_relaxed(&limit_at(child)->next_sibling);
        if (child == to || !is_below(load_relaxed(&limit_at(child)->context), context))
            continue;
        remove_child(child);
        add_child(to, child);
    }
}

/* What stands in `context` or below and is `from`'s becomes `to`'s: limits, but for `to` itself, and members. Either
 * may be 0; those who are nobody's members are in no list. */
static void hand_over(uint32_t from, uint32_t to, uint32_t context)
{
    if (!contexts[context].children) {
        move_member(context, to);
        return;
    }
    hand_over_children(from, to, context);
    for (uint32_t id = from ? load_relaxed(&limit_at(from)->first_member) : 0, next; id; id = next) {
        next = load_relaxed(&contexts[id].limit_next);
        if (is_below(id, context))
            move_member(id, to);
    }
    for (uint32_t id = CONTEXT_ID_ROOT, end = from ? 0 : tree_end(); id < end; id++)
        if (tree_is_live(id) && !load_relaxed(&contexts[id].limit) && is_below(id, context))
            move_member(id, to);
}

static void set_bounds(struct limit *l, struct limit_bounds bounds)
{
    store_relaxed(&l->soft, bounds.soft);
    store_relaxed(&l->hard, bounds.hard);
    if (bounds.soft)
        store_relaxed(&limits_have_soft, true);
    else
        store_relaxed(&l->over_soft, false);
}

/* A limit on a context that has none of its own. Returns it, or 0 with `error`. */
static uint32_t make_limit(uint32_t context, struct limit_bounds bounds, int *error)
{
    uint32_t parent = load_relaxed(&contexts[context].limit), limit = take_limit(error);
    if (!limit)
        return 0;
    struct limit *l = limit_at(limit);
    set_bounds(l, bounds);
    store_relaxed(&l->context, context);
    store_relaxed(&l->first_child, 0);
    store_relaxed(&l->refusals, 0);
    store_relaxed(&l->room, UINT64_MAX);
    store_relaxed(&l->over_soft, false);
    store_relaxed(&l->told_refusals, 0);
    l->told_ns = 0;
    l->pinned = false;
    atomic_thread_fence(memory_order_release); /* whoever finds its number finds it made */
    add_child(parent, limit);
    turn_shapes(limit);
    hand_over(parent, limit, context);
    turn_shapes(limit);
    stats.limits++;
    return limit;
}

static void free_limit(uint32_t limit)
{
    struct limit *l = limit_at(limit);
    uint32_t parent = load_relaxed(&l->parent), context = load_relaxed(&l->context);
    set_bounds(l, (struct limit_bounds){0, 0});
    turn_shapes(limit);
    hand_over(limit, parent, context);
    remove_child(limit);
    void_budgets(limit);
    turn_shapes(limit);
    store_relaxed(&l->parent, 0);
    store_relaxed(&l->context, 0);
    if (l->pinned)
        contexts[context].open_spans--;
    l->next_free = first_free;
    first_free = (uint16_t)limit;
    stats.limits--;
}

/* The limit that stands on the context itself; 0: none. */
static uint32_t own_limit(uint32_t context)
{
    uint32_t limit = load_relaxed(&contexts[context].limit);
    return limit && load_relaxed(&limit_at(limit)->context) == context ? limit : 0;
}

/* ---- What the tree tells ---- */

static void lose(void)
{
    stats.lost++;
    if (!said_lost)
        WARN("max_limits: no room for another limit; its context has none, and further ones are only counted");
    said_lost = true;
}

/* A context that has just been made has neither members nor limits below it. */
static void join(uint32_t context, bool has_bounds, struct limit_bounds bounds)
{
    int error = 0;
    uint32_t parent = load_relaxed(&contexts[contexts[context].parent].limit);
    store_relaxed(&contexts[context].limit, 0);
    lock(LOCK_LIMITS);
    if (parent) {
        turn_shapes(parent);
        add_member(parent, context);
        turn_shapes(parent);
    }
    if (has_bounds && !make_limit(context, bounds, &error))
        lose();
    unlock(LOCK_LIMITS);
}

void limits_join(uint32_t context)
{
    struct limit_bounds bounds;
    bool has_bounds = limits_are_configured && limits_configured(&contexts[context], &bounds) &&
                      !is_below(context, CONTEXT_ID_SELF);
    if (has_bounds || load_relaxed(&contexts[contexts[context].parent].limit))
        join(context, has_bounds, bounds);
    else
        store_relaxed(&contexts[context].limit, 0);
}

void limits_leave(uint32_t context)
{
    if (!load_relaxed(&contexts[context].limit))
        return;
    lock(LOCK_LIMITS);
    if (own_limit(context))
        free_limit(own_limit(context));
    uint32_t limit = load_relaxed(&contexts[context].limit);
    if (limit) {
        turn_shapes(limit);
        remove_member(context);
        turn_shapes(limit);
    }
    unlock(LOCK_LIMITS);
}

/* ---- Setting and reading ---- */

/* Under LOCK_TREE and LOCK_LIMITS. */
static int set(uint32_t context, const uint64_t *soft, const uint64_t *hard)
{
    int error = 0;
    uint32_t limit = own_limit(context);
    const struct limit_bounds bounds = {soft ? *soft : load_relaxed(&limit_at(limit)->soft),
                                        hard ? *hard : load_relaxed(&limit_at(limit)->hard)};
    if (!bounds.soft && !bounds.hard) {
        if (limit)
            free_limit(limit);
        return 0;
    }
    if (!limit)
        limit = make_limit(context, bounds, &error);
    if (!limit)
        return error;
    struct limit *l = limit_at(limit);
    set_bounds(l, bounds);
    void_budgets(limit);
    contexts[context].open_spans += !l->pinned;
    l->pinned = true;
    return 0;
}

/* The context that a number stands for; 0: none that can have a limit. Under LOCK_TREE. */
static uint32_t limitable(uint32_t context)
{
    context = tree_is_live(context) && context != CONTEXT_ID_UNSAMPLED ? tree_whole(context) : 0;
    return context && !is_below(context, CONTEXT_ID_SELF) ? context : 0;
}

int limits_set(uint32_t context, const uint64_t *soft, const uint64_t *hard)
{
    lock(LOCK_TREE);
    lock(LOCK_LIMITS);
    context = limitable(context);
    int error = context ? set(context, soft, hard) : -EINVAL;
    unlock(LOCK_LIMITS);
    if (!error)
        tree_review_governed();
    unlock(LOCK_TREE);
    if (!error)
        thread_poke_all();
    return error;
}

int limits_get(uint32_t context, struct limit_figures *figures)
{
    *figures = (struct limit_figures){0};
    lock(LOCK_TREE);
    context = tree_is_live(context) ? tree_whole(context) : 0;
    uint32_t limit = context ? own_limit(context) : 0;
    if (limit) {
        const struct limit *l = limit_at(limit);
        *figures = (struct limit_figures){{load_relaxed(&l->soft), load_relaxed(&l->hard)},
                                          limits_inuse(limit), load_relaxed(&l->refusals), true};
    }
    unlock(LOCK_TREE);
    return context ? 0 : -EINVAL;
}

struct limits_stats limits_stats(void)
{
    lock(LOCK_LIMITS);
    struct limits_stats now = stats;
    unlock(LOCK_LIMITS);
    now.refusals = load_relaxed(&limits_refusals);
    return now;
}

COLD void limits_after_fork(void)
{
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        limits_settle(t);
}
