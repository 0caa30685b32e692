/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: figures of a context, and of the tree. */
#include "base/compiler.h"
#include "heap/sums.h"
#include "span/age.h"
#include "span/tree.h"

/* Adds the figures of the context's stacks, also of those that were recycled. */
static COLD void add_stacks(struct totals *sum, uint32_t id)
{
    tree_add_past(sum, id);
    for (uint32_t i = contexts[id].first_stack; i; i = contexts[i].stack_next) {
        struct totals stack = sums_of(i);
        totals_subtract(&stack, &context_bases[i]);
        stack.enters = stack.exits = 0;
        totals_add(sum, &stack);
    }
}

static struct totals own_totals(uint32_t id)
{
    struct totals t = sums_of(id);
    totals_subtract(&t, &context_bases[id]);
    if (unlikely(context_pasts) && !age_is_on)
        add_stacks(&t, id);
    return t;
}

struct totals tree_totals(uint32_t id)
{
    struct totals t = own_totals(id);
    if (id == CONTEXT_ID_ROOT) {
        const struct totals unsampled = own_totals(CONTEXT_ID_UNSAMPLED);
        totals_add(&t, &unsampled);
    }
    totals_floor_frees(&t);
    totals_floor_inuse(&t);
    return t;
}

struct tree_stats tree_stats(void)
{
    uint32_t made = load_relaxed(&tree_next_id) - CONTEXT_ID_ROOT - 1; /* that of unsampled spans has no row */
    return (struct tree_stats){
        .contexts = made - tree_ids.free - tree_ids.stacks, .stacks = tree_ids.stacks, .overflow = tree_ids.overflow,
        .recycled = tree_ids.recycled};
}
