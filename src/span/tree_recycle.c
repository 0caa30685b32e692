/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: recycling. tree.h says why it is safe. */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "span/context_policy.h"
#include "span/labels.h"
#include "span/peaks.h"
#include "span/tree.h"
#include "span/tree_hash.h"

struct contexts_retired contexts_retired;

void tree_add_past(struct totals *sum, uint32_t id)
{
    if (context_pasts)
        totals_add(sum, &context_pasts[id]);
}

struct totals tree_retired(void)
{
    return contexts_retired.totals;
}

/* ---- Marking ---- */

static bool seems_quiet(const struct inuse *n)
{
    return !(n->objects | n->bytes | n->inside);
}

static bool is_quiet(const struct totals *sum)
{
    return !totals_inuse_objects(sum) && !totals_inuse_bytes(sum) && sum->enters == sum->exits;
}

static void make_odd(uint32_t id)
{
    jespan_assert(!(load_relaxed(&context_heads[id].generation) & 1));
    store_relaxed(&context_heads[id].generation, load_relaxed(&context_heads[id].generation) + 1);
}

/* Sets the generation back, since the context stays the same. */
static void keep_context(uint32_t id)
{
    contexts[id].unused = false;
    store_relaxed(&context_heads[id].generation, load_relaxed(&context_heads[id].generation) - 1);
}

/* Which contexts a pass looks for, in which range, and what it has read of these: first what is in use, then all figures. */
struct pass {
    uint32_t first, end;
    bool unlabelled_too;
    bool spares; /* contexts that were opened more than once since the last pass */
    bool stacks_only;
    union {
        struct totals *sums;
        struct inuse *inuse;
    };
};

/* Whether the context stays, since it is opened again and again, such as the context of a route. The context of a
 * request or a trace is opened once. */
static bool is_spared(const struct pass *p, uint32_t id)
{
    struct context *c = &contexts[id];
    uint64_t opens = p->inuse[id - p->first].opens + load_relaxed(&c->opens), more = opens - c->opens_seen;
    c->opens_seen = opens;
    return p->spares && more > 1;
}

/* Marks the contexts that seem not to be in use. What was read of an id includes its base, which has nothing in use. */
static uint32_t mark_unused(const struct pass *p)
{
    uint32_t n = 0;
    for (uint32_t id = p->first; id < p->end; id++) {
        struct context *c = &contexts[id];
        c->unused = tree_is_live(id) && (c->labelled || p->unlabelled_too) && !c->open_spans &&
                    (c->kind == CONTEXT_STACK || !p->stacks_only) &&
                    seems_quiet(&p->inuse[id - p->first]) && !is_spared(p, id);
        if (c->unused) {
            make_odd(id);
            n++;
        }
    }
    return n;
}

/* ---- Freeing ---- */

/* A context of a thread was recycled. Spans that are opened in such a context lie below the root, so its id may be
 * given to a context that has children. Threads must forget what they remember of the children of the root. */
static void forget_below_root(void)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && contexts[id].parent == CONTEXT_ID_ROOT)
            tree_forget(id);
}

static void change_retired(void)
{
    store_release(&contexts_retired.sequence, load_relaxed(&contexts_retired.sequence) + 1);
}

/* The context goes before its figures appear elsewhere: they may be missing in the file of a process that was killed
 * meanwhile, and are never there twice. */
static COLD void copy_freed_to_state(uint32_t id)
{
    STATE_COPY(context_lives[id]);
    uint32_t parent = contexts[id].parent;
    tree_copy_to_state(tree_is_part(contexts[id].kind) ? tree_whole(parent) : parent);
    STATE_COPY(contexts_retired);
}

/* The thread may have no block yet, so readers are told by way of the orphan's. */
static void add_children_wall(uint32_t id, uint64_t wall)
{
    jespan_assert(lock_is_held(LOCK_ORPHAN));
    own_add(&contexts[id].children_wall, wall);
    counters_moved(&thread_orphan, id);
}

/* The spans of a context that has no open one, and has counted nothing else. Its wall time is without that of spans below it, as in
 * retire(). */
static void retire_spans(const struct context *c)
{
    uint64_t wall = load_relaxed(&c->wall), below = load_relaxed(&c->children_wall), self = wall > below ? wall - below : 0;
    add_children_wall(c->parent, wall);
    contexts_retired.totals.opens += load_relaxed(&c->opens);
    contexts_retired.totals.wall += self;
    contexts_retired.totals.idle += self;
}

static void retire(uint32_t id, struct totals *own)
{
    struct context *c = &contexts[id];
    own->opens += load_relaxed(&c->opens);
    own->wall += load_relaxed(&c->wall);
    tree_add_past(own, id);
    if (context_pasts)
        context_pasts[id] = (struct totals){0};
    if (tree_is_part(c->kind)) {
        totals_add(&context_pasts[tree_whole(c->parent)], own);
        if (c->kind == CONTEXT_STACK)
            tree_leave_stacks(id);
        return;
    }
    uint64_t children_wall = load_relaxed(&c->children_wall);
    add_children_wall(c->parent, own->wall);
    own->wall = own->wall > children_wall ? own->wall - children_wall : 0;
    own->idle = totals_idle(own);
    totals_add(&contexts_retired.totals, own);
}

static void free_context(uint32_t id, const struct totals *sum)
{
    struct totals own;
    struct context *c = &contexts[id];
    jespan_assert(load_relaxed(&context_heads[id].generation) & 1 && !c->children && !c->open_spans);
    change_retired();
    tree_change_life(id);
    atomic_thread_fence(memory_order_release); /* readers see both before any change below */
    if (context_pasts || memcmp(sum, &context_bases[id], sizeof *sum)) {
        totals_difference(&own, sum, &context_bases[id]);
        totals_add(&context_bases[id], &own);
        retire(id, &own);
    } else {
        retire_spans(c);
    }
    peaks_retire(id);
    change_retired();
    if (state_is_on())
        copy_freed_to_state(id);
    tree_hash_remove(id);
    policy_context_freed(id);
    labels_free(c->labels);
    __atomic_store_n(&c->labels, NULL, __ATOMIC_RELAXED); /* tree_find() */
    c->unused = false;
    store_release(&c->hash_next, tree_ids.first_free);
    tree_ids.first_free = id;
    tree_ids.free++;
    tree_ids.recycled++;
}

/* Frees an unused context without children, then its parent if that was the last child, and so on upwards. */
static uint32_t free_branch(const struct pass *p, uint32_t id, bool *frees_thread)
{
    uint32_t n = 0;
    while (contexts[id].unused && !contexts[id].children) {
        uint32_t parent = contexts[id].parent;
        *frees_thread |= contexts[id].kind == CONTEXT_THREAD;
        free_context(id, &p->sums[id - p->first]);
        jespan_assert(contexts[parent].children);
        contexts[parent].children--;
        id = parent;
        n++;
    }
    return n;
}

static uint32_t free_unused(const struct pass *p)
{
    uint32_t n = 0;
    bool frees_thread = false;
    for (uint32_t id = p->first; id < p->end; id++)
        if (contexts[id].unused && !is_quiet(&p->sums[id - p->first]))
            keep_context(id); /* a thread has entered it */
    for (uint32_t id = p->first; id < p->end; id++)
        n += free_branch(p, id, &frees_thread);
    for (uint32_t id = p->first; id < p->end; id++)
        if (contexts[id].unused)
            keep_context(id); /* has children in use */
    if (frees_thread)
        forget_below_root();
    return n;
}

/* Whether every thread sees the marks from now on, before it enters a context. */
static bool tell_all_threads(void)
{
    return !tree_has_membarrier || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* A thread may have entered a marked context without seeing the mark, so all of them stay. */
static void keep_all(const struct pass *p)
{
    for (uint32_t id = p->first; id < p->end; id++)
        if (contexts[id].unused)
            keep_context(id);
}

/* Returns the number of contexts that it recycled. */
static NOINLINE uint32_t recycle(const struct pass *p)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    int saved = errno;
    uint32_t n = 0;
    sums_read_inuse(p->inuse, p->first, p->end);
    bool any = mark_unused(p);
    if (any && tell_all_threads()) {
        sums_read(p->sums, p->first, p->end);
        policy_recycling_begins();
        n = free_unused(p);
        policy_recycling_ends();
    } else if (any) {
        keep_all(p);
    }
    errno = saved;
    return n;
}

COLD uint32_t tree_recycle(bool unlabelled_too)
{
    struct pass p = {.first = CONTEXT_ID_UNSAMPLED + 1, .end = tree_end(), .unlabelled_too = unlabelled_too};
    size_t bytes = (size_t)(p.end - p.first) * sizeof *p.sums;
    p.sums = meta_map(bytes);
    uint32_t n = p.sums ? recycle(&p) : 0;
    meta_unmap(p.sums, bytes);
    return n;
}

/* ---- When to recycle, and how much at a time ----
 *
 * A hand goes round over all contexts. Each step of it is a pass over a few contexts, so nobody waits for long. */

#define STEP_MOST 256u       /* contexts */
#define STEP_COUNTERS 8192u  /* of all threads: what a step reads twice */
#define BOUND_COUNTERS 65536u /* what one request reads when all numbers are taken */
#define LOOKS 8u             /* contexts at which the hand looks for each new one */

static struct totals *step_sums;
static uint32_t hand = CONTEXT_ID_UNSAMPLED + 1, owed; /* contexts at which the hand has yet to look */

static uint32_t step_size(void)
{
    uint32_t size = STEP_COUNTERS / thread_blocks() / COUNTERS_PER_CHUNK * COUNTERS_PER_CHUNK;
    return size > STEP_MOST ? STEP_MOST : size < COUNTERS_PER_CHUNK ? COUNTERS_PER_CHUNK : size;
}

/* Returns the number of contexts that it recycled. */
static uint32_t step(bool spares, bool unlabelled_too, bool stacks_only)
{
    if (!step_sums)
        step_sums = meta_map(STEP_MOST * sizeof *step_sums);
    uint32_t end = tree_end(), next = (hand & ~(COUNTERS_PER_CHUNK - 1)) + step_size();
    if (!step_sums || hand >= end)
        return 0;
    struct pass p = {hand, next < end ? next : end, unlabelled_too, spares, stacks_only, {step_sums}};
    hand = next < end ? next : CONTEXT_ID_UNSAMPLED + 1;
    return recycle(&p);
}

uint32_t tree_live_contexts(void)
{
    return load_relaxed(&tree_next_id) - tree_ids.free - tree_ids.stacks;
}

/* The hand looks at several contexts for each new one, so it finds more than are made where an eighth of all contexts or
 * more is not in use. */
void tree_recycle_early(void)
{
    uint32_t live = tree_live_contexts(), kept = (uint32_t)conf.contexts_kept;
    if (live < kept)
        return;
    owed += LOOKS;
    if (owed < step_size())
        return;
    owed = 0;
    step(live < kept + kept / 4, false, false);
}

/* All numbers are taken. First the hand goes round over labelled contexts. If that frees little, it goes round over all
 * contexts. If that frees little as well, it rests until as many requests have failed as a good yield has contexts. */
void tree_recycle_at_bound(uint32_t good_yield)
{
    static uint64_t rests_until; /* value of `overflow` */
    static uint32_t round_yield, round_left;
    static bool unlabelled_too;
    for (uint32_t looked = 0; looked * thread_blocks() < BOUND_COUNTERS && tree_ids.overflow >= rests_until;) {
        if (!round_left) {
            round_left = tree_end();
            round_yield = 0;
        }
        uint32_t size = step_size(), live = tree_live_contexts();
        step(false, unlabelled_too, false);
        uint32_t n = live - tree_live_contexts();
        round_yield += n;
        looked += size;
        round_left -= size < round_left ? size : round_left;
        if (!round_left && round_yield < good_yield && unlabelled_too)
            rests_until = tree_ids.overflow + good_yield;
        if (!round_left)
            unlabelled_too = round_yield < good_yield && !unlabelled_too;
        if (n)
            return;
    }
}

/* The hand goes once round over all stacks. If that frees little, it rests until as many requests have failed as a good
 * yield has stacks. */
bool tree_recycle_stacks(uint32_t good_yield)
{
    static uint32_t rests, round_yield, round_left, yield;
    if (rests) {
        rests--;
        return false;
    }
    for (uint32_t looked = 0, n = 0; looked * thread_blocks() < BOUND_COUNTERS && !n;) {
        if (!round_left) {
            round_left = tree_end();
            round_yield = 0;
        }
        uint32_t size = step_size();
        n = step(false, true, true);
        round_yield += n;
        yield += n;
        looked += size;
        round_left -= size < round_left ? size : round_left;
        if (!round_left && round_yield < good_yield) {
            rests = good_yield;
            return false;
        }
    }
    if (yield < good_yield)
        return false;
    yield = 0;
    return true;
}
