/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: interning and recycling. tree.h says why recycling is safe. */
#include "span/tree.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "heap/timing.h"
#include "span/age.h"
#include "span/context_policy.h"
#include "span/handles.h"

struct context *contexts;
_Atomic uint32_t *context_lives;
struct totals *context_bases;
struct totals *context_pasts;
bool tree_lockless;
_Atomic uint32_t tree_next_id = CONTEXT_ID_ROOT;

static uint32_t max_contexts, mapped_contexts, hash_mask;
static struct meta_array context_array, life_array, base_array, past_array;
static uint32_t *hash_heads;
static uint64_t overflow;
static uint32_t first_free, free_ids; /* linked through hash_next */
static uint64_t recycled;
struct contexts_retired contexts_retired;

static uint32_t power_of_two_at_least(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* The arrays get memory for so many contexts at a time. */
#define GROWTH 1024u

static int map_hash(uint32_t *max)
{
    uint32_t buckets = power_of_two_at_least(*max);
    while (!(hash_heads = meta_map((size_t)buckets * sizeof *hash_heads)) && *max > CONTEXTS_MIN)
        *max = buckets /= 2;
    hash_mask = buckets - 1;
    return hash_heads ? 0 : -ENOMEM;
}

static int begin_arrays(uint32_t max)
{
    int error = meta_array_begin(&context_array, (size_t)max * sizeof *contexts);
    if (!error)
        error = meta_array_begin(&life_array, (size_t)max * sizeof *context_lives);
    if (!error)
        error = meta_array_begin(&base_array, (size_t)max * sizeof *context_bases);
    if (!error && age_is_on)
        error = meta_array_begin(&past_array, (size_t)max * sizeof *context_pasts);
    contexts = (struct context *)context_array.start;
    context_lives = (_Atomic uint32_t *)life_array.start;
    context_bases = (struct totals *)base_array.start;
    context_pasts = (struct totals *)past_array.start;
    max_contexts = max;
    return error;
}

/* Makes place for GROWTH more contexts. Returns false at the bound, and when out of memory. */
static COLD bool grow(void)
{
    uint32_t end = max_contexts - mapped_contexts < GROWTH ? max_contexts : mapped_contexts + GROWTH;
    if (end == mapped_contexts || !counters_grow_orphan(end) ||
        !meta_array_grow(&context_array, end * sizeof *contexts) ||
        !meta_array_grow(&life_array, end * sizeof *context_lives) ||
        !meta_array_grow(&base_array, end * sizeof *context_bases) ||
        (context_pasts && !meta_array_grow(&past_array, end * sizeof *context_pasts)))
        return false;
    mapped_contexts = end;
    return true;
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

COLD int tree_boot(uint32_t max)
{
    int saved = errno;
    age_boot();
    tree_after_fork();
    errno = saved;
    int error = map_hash(&max);
    if (!error)
        error = begin_arrays(max);
    if (error)
        return error;
    lock(LOCK_TREE);
    error = intern_fixed_contexts();
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

/* ---- Recycling ---- */

static void unlink_context(uint32_t id)
{
    uint32_t *link = &hash_heads[contexts[id].hash & hash_mask];
    while (*link != id) {
        jespan_assert(*link); /* the list has the context */
        link = &contexts[*link].hash_next;
    }
    *link = contexts[id].hash_next;
}

/* Makes what threads remember of the context invalid. The context stays the same. */
static void forget_context(uint32_t id)
{
    store_release(&contexts[id].generation, load_relaxed(&contexts[id].generation) + 2);
}

/* A context of a thread was recycled. Spans that are opened in such a context lie below the root, so its id may be
 * given to a context that has children. Threads must forget what they remember of the children of the root. */
static void forget_below_root(void)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && contexts[id].parent == CONTEXT_ID_ROOT)
            forget_context(id);
}

void tree_add_past(struct totals *sum, uint32_t id)
{
    if (context_pasts)
        totals_add(sum, &context_pasts[id]);
}

struct totals tree_retired(void)
{
    return contexts_retired.totals;
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

/* Sets the generation back, since the context stays the same. */
static void keep_context(uint32_t id)
{
    contexts[id].unused = false;
    store_relaxed(&contexts[id].generation, load_relaxed(&contexts[id].generation) - 1);
}

/* Which contexts a pass looks for, in which range. The sums belong to the range. */
struct pass {
    uint32_t first, end;
    bool unlabelled_too;
    bool spares; /* contexts that were opened more than once since the last pass */
    struct totals *sums;
};

/* A context that is opened again and again, as that of a route, stays; one of a request or a trace is opened once. */
static bool is_spared(const struct pass *p, uint32_t id)
{
    struct context *c = &contexts[id];
    uint64_t opens = p->sums[id - p->first].opens + load_relaxed(&c->opens), more = opens - c->opens_seen;
    c->opens_seen = opens;
    return p->spares && more > 1;
}

/* Marks the contexts that seem not to be in use. The sums of an id include its base. A base has nothing in use, so the
 * sums have nothing in use if the context has nothing. */
static uint32_t mark_unused(const struct pass *p)
{
    uint32_t n = 0;
    for (uint32_t id = p->first; id < p->end; id++) {
        struct context *c = &contexts[id];
        c->unused = tree_is_live(id) && (c->labelled || p->unlabelled_too) && !c->open_spans &&
                    is_quiet(&p->sums[id - p->first]) && !is_spared(p, id);
        if (c->unused) {
            make_odd(id);
            n++;
        }
    }
    return n;
}

/* The next life begins, or the time between two. */
static void change_life(uint32_t id)
{
    store_release(&context_lives[id], load_relaxed(&context_lives[id]) + 1);
}

static void change_retired(void)
{
    store_release(&contexts_retired.sequence, load_relaxed(&contexts_retired.sequence) + 1);
}

/* Adds the spans of a context that has no open one. */
static void add_spans(struct totals *sum, struct context *c)
{
    sum->opens += load_relaxed(&c->opens);
    sum->wall += load_relaxed(&c->wall);
}

static void free_context(uint32_t id, const struct totals *sum)
{
    struct totals own = *sum;
    struct context *c = &contexts[id];
    jespan_assert(load_relaxed(&c->generation) & 1 && !c->children && !c->open_spans);
    change_retired();
    change_life(id);
    atomic_thread_fence(memory_order_release); /* readers see both before any change below */
    totals_subtract(&own, &context_bases[id]);
    add_spans(&own, c);
    tree_add_past(&own, id);
    if (context_pasts)
        context_pasts[id] = (struct totals){0};
    if (c->kind == CONTEXT_PERIOD) {
        totals_add(&context_pasts[c->parent], &own);
    } else {
        uint64_t children_wall = load_relaxed(&c->children_wall);
        own_add(&contexts[c->parent].children_wall, own.wall);
        own.wall = own.wall > children_wall ? own.wall - children_wall : 0;
        own.idle = totals_idle(&own);
        totals_add(&contexts_retired.totals, &own);
    }
    context_bases[id] = *sum;
    change_retired();
    unlink_context(id);
    policy_context_freed(id);
    labels_free(c->labels);
    c->labels = NULL;
    c->unused = false;
    c->hash_next = first_free;
    first_free = id;
    free_ids++;
    recycled++;
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
    return !tree_lockless || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* A thread may have entered a marked context without seeing the mark, so all of them stay. */
static void keep_all(const struct pass *p)
{
    for (uint32_t id = p->first; id < p->end; id++)
        if (contexts[id].unused)
            keep_context(id);
}

/* Returns the number of contexts that it recycled. */
static COLD uint32_t recycle(const struct pass *p)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    int saved = errno;
    uint32_t n = 0;
    sums_read(p->sums, p->first, p->end);
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
static uint32_t step(bool spares, bool unlabelled_too)
{
    if (!step_sums)
        step_sums = meta_map(STEP_MOST * sizeof *step_sums);
    uint32_t end = tree_end(), next = (hand & ~(COUNTERS_PER_CHUNK - 1)) + step_size();
    if (!step_sums || hand >= end)
        return 0;
    struct pass p = {hand, next < end ? next : end, unlabelled_too, spares, step_sums};
    hand = next < end ? next : CONTEXT_ID_UNSAMPLED + 1;
    return recycle(&p);
}

static uint32_t live_contexts(void)
{
    return load_relaxed(&tree_next_id) - free_ids;
}

/* Recycles early, so that numbers are used again and the memory of counters stays small. To be called for each new
 * context. The hand looks at several contexts for each, so it finds more than are made where an eighth of all contexts
 * or more is not in use. */
static void recycle_early(void)
{
    uint32_t live = live_contexts(), kept = (uint32_t)conf.contexts_kept;
    if (live < kept)
        return;
    owed += LOOKS;
    if (owed < step_size())
        return;
    owed = 0;
    step(live < kept + kept / 4, false);
}

/* All numbers are taken. First the hand goes round over labelled contexts. If that frees little, it goes round over all
 * contexts. If that frees little as well, it rests until as many requests have failed as a good yield has contexts. */
static void recycle_at_bound(void)
{
    static uint64_t rests_until; /* value of `overflow` */
    static uint32_t round_yield, round_left;
    static bool unlabelled_too;
    uint32_t good_yield = max_contexts / 16;
    for (uint32_t looked = 0; looked * thread_blocks() < BOUND_COUNTERS && overflow >= rests_until;) {
        if (!round_left) {
            round_left = tree_end();
            round_yield = 0;
        }
        uint32_t size = step_size();
        round_yield += step(false, unlabelled_too);
        looked += size;
        round_left -= size < round_left ? size : round_left;
        if (!round_left && round_yield < good_yield && unlabelled_too)
            rests_until = overflow + good_yield;
        if (!round_left)
            unlabelled_too = round_yield < good_yield && !unlabelled_too;
        if (first_free)
            return;
    }
}

/* ---- Interning ---- */

static uint32_t take_free_id(void)
{
    uint32_t id = first_free;
    if (id) {
        first_free = contexts[id].hash_next;
        free_ids--;
    }
    return id;
}

/* An id for a new context; 0 when all are taken. */
static uint32_t take_id(void)
{
    recycle_early();
    uint32_t id = take_free_id();
    if (id)
        return id;
    id = load_relaxed(&tree_next_id);
    if (id < mapped_contexts || grow())
        return id;
    recycle_at_bound();
    return take_free_id();
}

static void set_labels(struct context *c, struct label_set *labels)
{
    c->labels = labels;
    c->label_bytes = labels ? labels->bytes : 0;
    c->label_count = labels ? labels->count : 0;
    c->label_integers = labels ? labels->integers : 0;
}

static void link_context(uint32_t id, uint32_t hash)
{
    contexts[id].hash = hash;
    contexts[id].hash_next = hash_heads[hash & hash_mask];
    hash_heads[hash & hash_mask] = id;
}

static uint32_t make_context(uint32_t parent, enum context_kind kind, const struct site *site,
                             const struct label_set *labels, uint32_t hash)
{
    struct label_set *copy = labels ? labels_copy(labels) : NULL;
    if (labels && !copy)
        return 0;
    /* Recycling must not free the parent while its child is made. */
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
    set_labels(c, copy);
    c->kind = kind;
    c->labelled = copy || contexts[parent].labelled;
    c->is_own = kind == CONTEXT_SELF || contexts[parent].is_own;
    c->born = 0;
    c->lost_arena = false;
    c->children = c->open_spans = 0;
    store_relaxed(&c->handles, 0);
    store_relaxed(&c->opens, 0);
    store_relaxed(&c->wall, 0);
    store_relaxed(&c->closed_time, 0);
    store_relaxed(&c->children_wall, 0);
    c->opens_seen = id < load_relaxed(&tree_next_id) ? context_bases[id].opens : 0;
    policy_context_made(id);
    contexts[parent].children++;
    link_context(id, hash);
    change_life(id);
    if (id == load_relaxed(&tree_next_id))
        store_release(&tree_next_id, id + 1); /* generation is 0: live */
    else
        store_release(&c->generation, load_relaxed(&c->generation) + 1);
    return id;
}

uint32_t tree_intern(uint32_t parent, enum context_kind kind, const struct jespan_site *site,
                     const struct label_set *labels)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    parent = kind == CONTEXT_PERIOD ? tree_whole(parent) : tree_parent_in(parent);
    if (contexts[parent].kind == CONTEXT_UNSAMPLED || (kind == CONTEXT_UNSAMPLED && labels))
        return CONTEXT_ID_UNSAMPLED; /* spans opened in it, and labels added to its spans, change nothing */
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

COLD void tree_review_policies(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && tree_has_policy(id))
            forget_context(id);
    handles_review();
}

void tree_open_span(uint32_t id, uint64_t now)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct context *c = &contexts[id];
    c->open_spans++;
    store_relaxed(&c->handles, load_relaxed(&c->handles) + 1);
    own_add(&c->opens, 1);
    own_add(&c->wall, -(now + TIME_OPEN));
}

void tree_close_span(uint32_t id, uint64_t now)
{
    struct context *c = &contexts[id];
    jespan_assert(lock_is_held(LOCK_TREE) && c->open_spans && load_relaxed(&c->handles));
    c->open_spans--;
    store_relaxed(&c->closed_time, now);
    store_relaxed(&c->handles, load_relaxed(&c->handles) - 1);
    own_add(&c->wall, now + TIME_OPEN);
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
        .contexts = made - free_ids, .overflow = overflow, .recycled = recycled};
}
