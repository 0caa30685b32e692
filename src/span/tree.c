/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: interning. Recycling is in recycle.c. */
#include "span/tree.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/sums.h"
#include "span/age.h"
#include "span/context_policy.h"
#include "span/handles.h"
#include "span/recycle.h"

struct context *contexts;
struct totals *context_bases;
struct totals *context_pasts;
bool tree_lockless;
_Atomic uint32_t tree_next_id = CONTEXT_ID_ROOT;

static uint32_t max_contexts, hash_mask;
static uint32_t *hash_heads;
static uint64_t overflow, overflow_at_recycle;
static uint32_t recycled_last;

static uint32_t power_of_two_at_least(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static bool map_arrays(uint32_t max)
{
    uint32_t buckets = power_of_two_at_least(max);
    contexts = meta_map((size_t)max * sizeof *contexts);
    context_bases = meta_map((size_t)max * sizeof *context_bases);
    hash_heads = meta_map((size_t)buckets * sizeof *hash_heads);
    context_pasts = age_is_on ? meta_map((size_t)max * sizeof *context_pasts) : NULL;
    if (contexts && context_bases && hash_heads && (context_pasts || !age_is_on)) {
        max_contexts = max;
        hash_mask = buckets - 1;
        return true;
    }
    meta_unmap(contexts, (size_t)max * sizeof *contexts);
    meta_unmap(context_bases, (size_t)max * sizeof *context_bases);
    meta_unmap(context_pasts, (size_t)max * sizeof *context_pasts);
    meta_unmap(hash_heads, (size_t)buckets * sizeof *hash_heads);
    return false;
}

COLD void tree_after_fork(void)
{
    tree_lockless = !age_is_on && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* The contexts whose ids are constants. */
static int intern_fixed_contexts(void)
{
    const struct jespan_site root = {.name = "(root)"}, self = {.name = "(jespan)"},
                             unsampled = {.name = "(unsampled)"};
    if (tree_intern(0, CONTEXT_ROOT, &root, NULL) != CONTEXT_ID_ROOT)
        return -ENOMEM;
    contexts[CONTEXT_ID_ROOT].parent = CONTEXT_ID_ROOT;
    if (tree_intern(CONTEXT_ID_ROOT, CONTEXT_SELF, &self, NULL) != CONTEXT_ID_SELF)
        return -ENOMEM;
    return tree_intern(CONTEXT_ID_ROOT, CONTEXT_UNSAMPLED, &unsampled, NULL) == CONTEXT_ID_UNSAMPLED ? 0 : -ENOMEM;
}

COLD int tree_boot(uint32_t *max)
{
    int saved = errno;
    age_boot();
    tree_after_fork();
    errno = saved;
    while (!map_arrays(*max)) {
        if (*max <= CONTEXTS_MIN)
            return -ENOMEM;
        *max /= 2;
    }
    lock(LOCK_TREE);
    int error = intern_fixed_contexts();
    unlock(LOCK_TREE);
    return error;
}

uint32_t tree_end(void)
{
    return load_acquire(&tree_next_id);
}

static uint32_t hash_context(uint32_t parent, enum context_kind kind, const struct site *site,
                             const struct label_set *labels)
{
    uint32_t h = site->hash * 2654435761u ^ parent * 2246822519u ^ (uint32_t)kind;
    h ^= labels ? labels->hash * 3266489917u : 0;
    return h ^ h >> 15;
}

/* An id for a new context, 0 when all are taken. */
static uint32_t take_id(void)
{
    uint32_t id = recycle_take_id();
    if (id)
        return id;
    id = load_relaxed(&tree_next_id);
    if (id < max_contexts)
        return id;
    /* Recycling reads every counter of every thread. When it brought little the last time, it waits until as many
     * requests as a good yield have gone by. */
    uint32_t good_yield = max_contexts / 16;
    if (overflow && recycled_last < good_yield && overflow - overflow_at_recycle < good_yield)
        return 0;
    overflow_at_recycle = overflow;
    recycled_last = tree_recycle(false);
    if (recycled_last < good_yield)
        recycled_last += tree_recycle(true);
    return recycle_take_id();
}

static void link_context(uint32_t id, uint32_t hash)
{
    contexts[id].hash = hash;
    contexts[id].hash_next = hash_heads[hash & hash_mask];
    hash_heads[hash & hash_mask] = id;
}

void tree_unlink(uint32_t id)
{
    uint32_t *link = &hash_heads[contexts[id].hash & hash_mask];
    while (*link != id) {
        jespan_assert(*link); /* the list has the context */
        link = &contexts[*link].hash_next;
    }
    *link = contexts[id].hash_next;
}

static uint32_t make_context(uint32_t parent, enum context_kind kind, const struct site *site,
                             const struct label_set *labels, uint32_t hash)
{
    struct label_set *copy = labels ? labels_copy(labels) : NULL;
    if (labels && !copy)
        return 0;
    /* Recycling must not take the parent while its child is being made. */
    contexts[parent].open_spans++;
    uint32_t id = take_id();
    contexts[parent].open_spans--;
    if (!id) {
        labels_free(copy);
        overflow++;
        return parent;
    }
    struct context *c = &contexts[id];
    c->parent = parent;
    c->site = site;
    c->labels = copy;
    c->kind = kind;
    c->labelled = copy || contexts[parent].labelled;
    c->born = 0;
    c->lost_arena = false;
    c->children = c->open_spans = c->handles = 0;
    c->opens = c->wall = c->children_wall = 0;
    c->outlived = (struct outlived){0};
    c->shown = (struct shown){0};
    policy_context_made(id);
    contexts[parent].children++;
    link_context(id, hash);
    if (id == load_relaxed(&tree_next_id)) {
        store_release(&tree_next_id, id + 1); /* generation is 0: live */
    } else {
        c->incarnation++;
        store_release(&c->generation, load_relaxed(&c->generation) + 1);
    }
    return id;
}

uint32_t tree_intern(uint32_t parent, enum context_kind kind, const struct jespan_site *site,
                     const struct label_set *labels)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    parent = kind == CONTEXT_PERIOD ? tree_whole(parent) : tree_parent_in(parent);
    if (contexts[parent].kind == CONTEXT_UNSAMPLED || (kind == CONTEXT_UNSAMPLED && labels))
        return CONTEXT_ID_UNSAMPLED; /* it stays one, whatever is opened in it or added to its spans */
    if (labels && !labels->count)
        labels = NULL;
    const struct site *kept = site_intern(site);
    if (!kept)
        return 0;
    uint32_t hash = hash_context(parent, kind, kept, labels);
    for (uint32_t id = hash_heads[hash & hash_mask]; id; id = contexts[id].hash_next) {
        const struct context *c = &contexts[id];
        if (c->hash == hash && c->parent == parent && c->site == kept && c->kind == kind &&
            labels_equal(c->labels, labels)) {
            if (unlikely(c->lost_arena))
                policy_arena_again(id);
            return id;
        }
    }
    return make_context(parent, kind, kept, labels, hash);
}

/* What threads remember of the context no longer stands; it is the same one. */
static void forget_context(uint32_t id)
{
    store_release(&contexts[id].generation, load_relaxed(&contexts[id].generation) + 2);
}

COLD void tree_review_policies(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && tree_has_policy(id))
            forget_context(id);
    handles_review();
}

COLD void tree_forget_below_root(void)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && contexts[id].parent == CONTEXT_ID_ROOT)
            forget_context(id);
}

void tree_open_span(uint32_t id, uint64_t now)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct context *c = &contexts[id];
    c->open_spans++;
    c->handles++;
    c->opens++;
    c->wall -= now;
}

void tree_close_span(uint32_t id, uint64_t now)
{
    struct context *c = &contexts[id];
    jespan_assert(lock_is_held(LOCK_TREE) && c->open_spans && c->handles);
    c->open_spans--;
    c->handles--;
    c->wall += now;
    c->outlived.closed_time = now;
}

void tree_add_spans(struct totals *sum, uint32_t id, uint64_t now)
{
    const struct context *c = &contexts[id];
    sum->opens += c->opens;
    sum->wall += c->wall + c->handles * now;
}

struct totals tree_totals(uint32_t id)
{
    struct totals t = sums_of(id), unsampled = {0};
    if (id == CONTEXT_ID_ROOT)
        unsampled = sums_of(CONTEXT_ID_UNSAMPLED);
    totals_add(&t, &unsampled);
    totals_subtract(&t, &context_bases[id]);
    totals_floor_frees(&t);
    totals_floor_inuse(&t);
    return t;
}

struct tree_stats tree_stats(void)
{
    uint32_t made = load_relaxed(&tree_next_id) - CONTEXT_ID_ROOT - 1; /* that of unsampled spans has no row */
    return (struct tree_stats){
        .contexts = made - recycle_free_ids(), .overflow = overflow, .recycled = recycle_count()};
}
