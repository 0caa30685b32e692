/* SPDX-License-Identifier: BSD-2-Clause */
/* Recycling of contexts that nothing refers to. See tree.h for how it is safe. */
#include "span/recycle.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/sums.h"
#include "span/context_policy.h"
#include "span/tree.h"

static uint32_t first_free, free_ids; /* linked through hash_next */
static uint64_t recycled;
static struct totals retired;

uint32_t recycle_take_id(void)
{
    uint32_t id = first_free;
    if (id) {
        first_free = contexts[id].hash_next;
        free_ids--;
    }
    return id;
}

uint32_t recycle_free_ids(void)
{
    return free_ids;
}

uint64_t recycle_count(void)
{
    return recycled;
}

void tree_add_past(struct totals *sum, uint32_t id)
{
    if (context_pasts)
        totals_add(sum, &context_pasts[id]);
}

struct totals tree_retired(void)
{
    return retired;
}

static bool is_quiet(const struct totals *sum)
{
    return !totals_inuse_objects(sum) && !totals_inuse_bytes(sum) && sum->enters == sum->exits;
}

static void make_odd(uint32_t id)
{
    jespan_assert(!(load_relaxed(&contexts[id].generation) & 1));
    store_relaxed(&contexts[id].generation, load_relaxed(&contexts[id].generation) + 1);
}

/* Back to the generation that it had, since it is the same context still. */
static void spare(uint32_t id)
{
    contexts[id].doomed = false;
    store_relaxed(&contexts[id].generation, load_relaxed(&contexts[id].generation) - 1);
}

/* Marks what seems out of use. The sums of an id with base b are quiet when b is: recycled contexts were. */
static uint32_t doom(const struct totals *sums, uint32_t end, bool unlabelled_too)
{
    uint32_t n = 0;
    for (uint32_t id = CONTEXT_ID_UNSAMPLED + 1; id < end; id++) {
        struct context *c = &contexts[id];
        c->doomed = tree_is_live(id) && (c->labelled || unlabelled_too) && !c->open_spans && is_quiet(&sums[id]);
        if (c->doomed) {
            make_odd(id);
            n++;
        }
    }
    return n;
}

static void free_context(uint32_t id, const struct totals *sum)
{
    struct totals own = *sum;
    struct context *c = &contexts[id];
    jespan_assert(load_relaxed(&c->generation) & 1 && !c->children && !c->open_spans);
    totals_subtract(&own, &context_bases[id]);
    tree_add_spans(&own, id, 0);
    tree_add_past(&own, id);
    if (context_pasts)
        context_pasts[id] = (struct totals){0};
    if (c->kind == CONTEXT_PERIOD) {
        totals_add(&context_pasts[c->parent], &own);
    } else {
        contexts[c->parent].children_wall += own.wall;
        own.wall = own.wall > c->children_wall ? own.wall - c->children_wall : 0;
        own.idle = totals_idle(&own);
        totals_add(&retired, &own);
    }
    context_bases[id] = *sum;
    tree_unlink(id);
    policy_context_freed(id);
    labels_free(c->labels);
    c->labels = NULL;
    c->doomed = false;
    c->hash_next = first_free;
    first_free = id;
    free_ids++;
    recycled++;
}

/* Frees a doomed context without children, then its parent where that was the last child, and so on up. */
static uint32_t free_branch(uint32_t id, const struct totals *sums, bool *frees_thread)
{
    uint32_t n = 0;
    while (contexts[id].doomed && !contexts[id].children) {
        uint32_t parent = contexts[id].parent;
        *frees_thread |= contexts[id].kind == CONTEXT_THREAD;
        free_context(id, &sums[id]);
        jespan_assert(contexts[parent].children);
        contexts[parent].children--;
        id = parent;
        n++;
    }
    return n;
}

static uint32_t free_doomed(const struct totals *sums, uint32_t end)
{
    uint32_t n = 0;
    bool frees_thread = false;
    for (uint32_t id = CONTEXT_ID_UNSAMPLED + 1; id < end; id++)
        if (contexts[id].doomed && !is_quiet(&sums[id]))
            spare(id); /* a thread came in */
    for (uint32_t id = CONTEXT_ID_UNSAMPLED + 1; id < end; id++)
        n += free_branch(id, sums, &frees_thread);
    for (uint32_t id = CONTEXT_ID_UNSAMPLED + 1; id < end; id++)
        if (contexts[id].doomed)
            spare(id); /* has children in use */
    if (frees_thread)
        tree_forget_below_root();
    return n;
}

/* Whether every thread sees by now what was doomed, or will before it enters. */
static bool tell_all_threads(void)
{
    return !tree_lockless || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Where a thread may have entered one without having seen it, all of them stay. */
static void spare_all(uint32_t end)
{
    for (uint32_t id = CONTEXT_ID_UNSAMPLED + 1; id < end; id++)
        if (contexts[id].doomed)
            spare(id);
}

COLD uint32_t tree_recycle(bool unlabelled_too)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t end = tree_end(), n = 0;
    size_t bytes = (size_t)end * sizeof(struct totals);
    struct totals *sums = meta_map(bytes), *again = meta_map(bytes);
    if (sums && again) {
        int saved = errno;
        sums_read(sums, end);
        bool any = doom(sums, end, unlabelled_too);
        if (any && tell_all_threads()) {
            sums_read(again, end);
            policy_recycling_begins();
            n = free_doomed(again, end);
            policy_recycling_ends();
        } else if (any) {
            spare_all(end);
        }
        errno = saved;
    }
    meta_unmap(sums, bytes);
    meta_unmap(again, bytes);
    return n;
}
