/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree of limits, and the contexts that are members of a limit. */
#include "policy/limit_internal.h"

#include "base/die.h"
#include "span/tree.h"

_Atomic uint32_t limits_shape;

/* ---- Members ---- */

static bool is_below(uint32_t context, uint32_t top)
{
    while (context != top && context != CONTEXT_ID_ROOT && context != CONTEXT_ID_SELF)
        context = contexts[context].parent;
    return context == top;
}

int limits_each_member(uint32_t limit, uint32_t context, int (*act)(void *to, uint32_t member), void *to)
{
    int error = 0;
    if (!contexts[context].children)
        return limits_of(context) == limit ? act(to, context) : 0;
    for (uint32_t id = CONTEXT_ID_ROOT, end = tree_end(); id < end && !error; id++)
        if (limits_of(id) == limit && tree_is_live(id) && is_below(id, context))
            error = act(to, id);
    return error;
}

/* ---- Parents and children ---- */

void limits_add_child(uint32_t parent, uint32_t limit)
{
    struct limit *l = limit_at(limit), *p = limit_at(parent);
    store_relaxed(&l->parent, (uint16_t)parent);
    store_relaxed(&l->next_sibling, load_relaxed(&p->first_child));
    store_relaxed(&p->first_child, (uint16_t)limit);
}

void limits_remove_child(uint32_t limit)
{
    struct limit *l = limit_at(limit);
    _Atomic uint16_t *link = &limit_at(load_relaxed(&l->parent))->first_child;
    while (load_relaxed(link) != limit) {
        jespan_assert(load_relaxed(link)); /* the parent has the limit */
        link = &limit_at(load_relaxed(link))->next_sibling;
    }
    store_relaxed(link, load_relaxed(&l->next_sibling));
}

uint64_t limits_hand_over_children(uint32_t from, uint32_t to, uint32_t context)
{
    uint64_t charged = 0;
    for (uint32_t child = load_relaxed(&limit_at(from)->first_child), next; child; child = next) {
        next = load_relaxed(&limit_at(child)->next_sibling);
        if (child == to || !is_below(load_relaxed(&limit_at(child)->context), context))
            continue;
        limits_empty_stocks(child); /* the limit above might not have admitted these */
        limits_remove_child(child);
        limits_add_child(to, child);
        charged += load_relaxed(&limit_at(child)->charged);
    }
    return charged;
}

/* ---- Changes ---- */

void limits_begin_shape(void)
{
    atomic_fetch_add_explicit(&limits_shape, 1, memory_order_acq_rel);
    atomic_thread_fence(memory_order_seq_cst);
}

void limits_end_shape(void)
{
    atomic_fetch_add_explicit(&limits_shape, 1, memory_order_acq_rel);
}
