/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: interning. */
#include "span/tree.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/constants.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "heap/tables.h"
#include "heap/timing.h"
#include "span/age.h"
#include "span/context_policy.h"
#include "span/handles.h"
#include "span/tree_hash.h"
#include "stacks/stacks.h"

struct context *contexts;
struct context_head *context_heads;
_Atomic uint32_t *context_lives;
struct totals *context_bases;
struct totals *context_pasts;
bool tree_lockless, tree_has_membarrier;
_Atomic uint32_t tree_next_id = CONTEXT_ID_ROOT;

static uint32_t max_ids, max_contexts, max_stacks, mapped_contexts;
static struct meta_array context_array, base_array, past_array;
struct tree_ids tree_ids;
FIGURE_ROW(figure_next, ".tree_next_id", tree_next_id, FIGURE_NUMBER);
FIGURE_ROW(figure_free, ".tree_free", tree_ids.free, FIGURE_NUMBER);
FIGURE_ROW(figure_stacks, "spans.stats.stacks.stacks", tree_ids.stacks, FIGURE_NUMBER);
FIGURE_ROW(figure_overflow, "spans.stats.overflow", tree_ids.overflow, FIGURE_NUMBER);
FIGURE_ROW(figure_recycled, "spans.stats.recycled", tree_ids.recycled, FIGURE_NUMBER);

/* The arrays grow by this number of contexts. */
#define GROWTH 1024u

/* One mapping for what is touched in its first pages only: the hash table, which begins at its end, lives, heads, and the first
 * header tables. These pages share a page table. */
static COLD bool map_together(uint32_t max)
{
    size_t hash = round_up(tree_hash_bytes(max), TABLES_ALIGN), lives = round_up((size_t)max * sizeof *context_lives, TABLES_ALIGN),
           heads = round_up((size_t)max * sizeof *context_heads, TABLES_ALIGN), tables = tables_region_bytes();
    char *p = meta_map_hot(hash + lives + heads + tables, hash - TABLES_ALIGN);
    if (!p)
        return false;
    tree_hash_begin(max, p + hash);
    context_lives = (_Atomic uint32_t *)(p + hash);
    context_heads = (struct context_head *)(p + hash + lives);
    tables_boot(p + hash + lives + heads);
    return true;
}

static int begin_arrays(uint32_t max)
{
    while (!map_together(max) && max > CONTEXTS_MIN) {
        max /= 2;
        max_contexts /= 2;
        max_stacks /= 2;
    }
    int error = context_lives ? meta_array_begin(&context_array, (size_t)max * sizeof *contexts) : -ENOMEM;
    if (!error)
        error = counters_boot(max);
    if (!error)
        error = meta_array_begin(&base_array, (size_t)max * sizeof *context_bases);
    if (!error && age_is_on)
        error = meta_array_begin(&past_array, (size_t)max * sizeof *context_pasts);
    if (!error) {
        state_watch(context_lives, (size_t)max * sizeof *context_lives);
        meta_array_watch(&context_array);
        meta_array_watch(&base_array);
    }
    if (!error && age_is_on)
        meta_array_watch(&past_array);
    contexts = (struct context *)context_array.start;
    context_bases = (struct totals *)base_array.start;
    context_pasts = (struct totals *)past_array.start;
    max_ids = max;
    return error;
}

/* Makes place for GROWTH more contexts. Returns false at the bound, and when out of memory. */
static COLD bool grow(void)
{
    uint32_t end = max_ids - mapped_contexts < GROWTH ? max_ids : mapped_contexts + GROWTH;
    if (end == mapped_contexts || !counters_grow_orphan(end) ||
        !meta_array_grow(&context_array, end * sizeof *contexts) ||
        !meta_array_grow(&base_array, end * sizeof *context_bases) ||
        (context_pasts && !meta_array_grow(&past_array, end * sizeof *context_pasts)))
        return false;
    mapped_contexts = end;
    return true;
}

/* A forked child inherits the registration. */
static void register_membarrier(void)
{
    tree_has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    tree_lockless = tree_has_membarrier && !age_is_on;
}

/* The contexts whose ids are constants. */
static int intern_fixed_contexts(void)
{
    const struct jespan_site root = {.name = "(root)"}, self = {.name = "(jespan)"},
                             unsampled = {.name = "(unsampled)"};
    if (tree_intern(0, CONTEXT_ROOT, &root, NULL) != CONTEXT_ID_ROOT)
        return -ENOMEM;
    contexts[CONTEXT_ID_ROOT].parent = CONTEXT_ID_ROOT;
    STATE_COPY(contexts[CONTEXT_ID_ROOT]);
    if (tree_intern(CONTEXT_ID_ROOT, CONTEXT_SELF, &self, NULL) != CONTEXT_ID_SELF)
        return -ENOMEM;
    return tree_intern(CONTEXT_ID_ROOT, CONTEXT_UNSAMPLED, &unsampled, NULL) == CONTEXT_ID_UNSAMPLED ? 0 : -ENOMEM;
}

COLD int tree_boot(uint32_t contexts_most, uint32_t stacks_most)
{
    int saved = errno;
    age_boot();
    constants_boot();
    register_membarrier();
    errno = saved;
    max_contexts = contexts_most;
    max_stacks = stacks_most;
    int error = begin_arrays(contexts_most + stacks_most);
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

/* ---- Ids ---- */

static uint32_t take_free_id(void)
{
    uint32_t id = tree_ids.first_free;
    if (id) {
        tree_ids.first_free = load_relaxed(&contexts[id].hash_next);
        tree_ids.free--;
    }
    return id;
}

static bool has_room_for_context(void)
{
    if (tree_live_contexts() >= max_contexts)
        tree_recycle_at_bound(max_contexts / 16);
    return tree_live_contexts() < max_contexts;
}

/* An id for a new context; 0 when all are taken. */
static uint32_t take_id(enum context_kind kind)
{
    tree_recycle_early();
    if (kind != CONTEXT_STACK && !has_room_for_context())
        return 0;
    uint32_t id = take_free_id();
    if (id)
        return id;
    id = load_relaxed(&tree_next_id);
    if (id < mapped_contexts || grow())
        return id;
    tree_recycle_at_bound(max_contexts / 16);
    return take_free_id();
}

/* ---- Interning ---- */

static uint32_t hash_context(uint32_t parent, enum context_kind kind, const struct site *site,
                             const struct label_set *labels)
{
    uint32_t h = site->hash * 2654435761u ^ parent * 2246822519u ^ (uint32_t)kind;
    h ^= labels ? labels->hash * 3266489917u : 0;
    return h ^ h >> 15;
}

static void set_labels(struct context *c, struct label_set *labels)
{
    __atomic_store_n(&c->labels, labels, __ATOMIC_RELAXED); /* tree_find() */
    c->label_bytes = labels ? labels->bytes : 0;
    c->label_count = labels ? labels->count : 0;
    c->label_integers = labels ? labels->integers : 0;
}

static void join_stacks(uint32_t id, uint32_t parent)
{
    uint32_t next = contexts[parent].first_stack;
    contexts[id].stack_next = next;
    contexts[id].stack_before = 0;
    if (next)
        contexts[next].stack_before = id;
    contexts[parent].first_stack = id;
    tree_ids.stacks++;
}

void tree_leave_stacks(uint32_t id)
{
    const struct context *c = &contexts[id];
    if (c->stack_next)
        contexts[c->stack_next].stack_before = c->stack_before;
    if (c->stack_before)
        contexts[c->stack_before].stack_next = c->stack_next;
    else
        contexts[c->parent].first_stack = c->stack_next;
    tree_ids.stacks--;
}

/* The life comes last: a context is whole in the file where it is odd. */
COLD void tree_copy_to_state_now(uint32_t id)
{
    const struct context *c = &contexts[id];
    bool is_whole = load_relaxed(&context_lives[id]) & 1;
    if (!is_whole)
        STATE_COPY(context_lives[id]);
    if (c->labels)
        state_copy(c->labels, sizeof *c->labels + c->labels->bytes);
    STATE_COPY(*c);
    STATE_COPY(context_bases[id]);
    if (context_pasts)
        STATE_COPY(context_pasts[id]);
    if (is_whole)
        STATE_COPY(context_lives[id]);
    STATE_COPY(tree_next_id);
}

/* Figures of the context that is not made count for its parent, which the user must know. */
static COLD void say_overflow(enum context_kind kind)
{
    static bool is_said;
    char most[NUMBER_BYTES];
    tree_ids.overflow++;
    if (is_said || kind == CONTEXT_STACK || load_relaxed(&tree_next_id) <= CONTEXT_ID_UNSAMPLED) /* else jespan does not start */
        return;
    is_said = true;
    if (tree_live_contexts() < max_contexts)
        WARN("no memory for more contexts: spans that need one are credited to an ancestor");
    else
        WARN("all ", number_text(most, max_contexts, 10), " contexts are in use (max_contexts): spans that need another one are credited "
             "to an ancestor");
}

static uint32_t make_context(uint32_t parent, enum context_kind kind, const struct site *site,
                             const struct label_set *labels, uint32_t stack, uint32_t hash)
{
    struct label_set *copy = labels ? labels_copy(labels) : NULL;
    if (labels && !copy)
        return 0;
    /* Recycling must not free the parent while its child is made. */
    contexts[parent].open_spans++;
    uint32_t id = take_id(kind);
    contexts[parent].open_spans--;
    if (!id) {
        labels_free(copy);
        say_overflow(kind);
        return parent;
    }
    struct context *c = &contexts[id];
    __atomic_store_n(&c->parent, parent, __ATOMIC_RELAXED); /* tree_whole() */
    __atomic_store_n(&c->site, site, __ATOMIC_RELAXED); /* tree_find() */
    set_labels(c, copy);
    __atomic_store_n(&c->kind, kind, __ATOMIC_RELAXED);
    c->labelled = copy || contexts[parent].labelled;
    c->is_own = kind == CONTEXT_SELF || contexts[parent].is_own;
    store_relaxed(&c->stacks_for, 0);
    c->born = 0;
    c->stack = stack;
    c->first_stack = 0;
    if (kind == CONTEXT_STACK)
        join_stacks(id, parent);
    c->children = c->open_spans = 0;
    store_relaxed(&c->handles, 0);
    store_relaxed(&c->opens, 0);
    store_relaxed(&c->wall, 0);
    store_relaxed(&c->closed_time, 0);
    store_relaxed(&c->children_wall, 0);
    c->opens_seen = id < load_relaxed(&tree_next_id) ? context_bases[id].opens : 0;
    policy_context_made(id);
    contexts[parent].children++;
    if (id == load_relaxed(&tree_next_id))
        tree_hash_grow(id);
    tree_hash_add(id, hash);
    tree_change_life(id);
    if (id == load_relaxed(&tree_next_id))
        store_release(&tree_next_id, id + 1); /* generation is 0: live */
    else
        store_release(&context_heads[id].generation, load_relaxed(&context_heads[id].generation) + 1);
    tree_copy_to_state(id);
    return id;
}

/* The context that is there already; 0: none. */
static uint32_t find_child(uint32_t hash, uint32_t parent, enum context_kind kind, const struct site *site, const struct label_set *labels,
                           uint32_t stack)
{
    for (uint32_t id = tree_hash_first(hash); id; id = load_relaxed(&contexts[id].hash_next)) {
        const struct context *c = &contexts[id];
        if (load_relaxed(&c->hash) != hash || c->parent != parent || c->site != site || c->kind != kind || c->stack != stack ||
            !labels_equal(c->labels, labels))
            continue;
        if (unlikely(load_relaxed(&c->lost_arena)))
            policy_arena_again(id);
        return id;
    }
    return 0;
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
    uint32_t hash = hash_context(parent, kind, kept, labels), id = find_child(hash, parent, kind, kept, labels, 0);
    return id ? id : make_context(parent, kind, kept, labels, 0, hash);
}

/* ---- Without the lock ----
 *
 * Lists change meanwhile, and a list may lead into another one, or to free numbers. All of it is memory that stays. */

#define FIND_STEPS 16

/* The context may become another one at any moment. Then its generation is not the one that is returned. */
static bool seems_to_be(uint32_t id, uint32_t parent, const struct site *site, const struct label_set *labels, uint32_t *generation)
{
    const struct context *c = &contexts[id];
    *generation = load_acquire(&context_heads[id].generation);
    bool seems = !(*generation & 1) && id < load_acquire(&tree_next_id) && __atomic_load_n(&c->parent, __ATOMIC_RELAXED) == parent &&
                 __atomic_load_n(&c->site, __ATOMIC_RELAXED) == site && __atomic_load_n(&c->kind, __ATOMIC_RELAXED) == CONTEXT_SPAN &&
                 labels_seem_equal(__atomic_load_n(&c->labels, __ATOMIC_RELAXED), labels) && !load_relaxed(&c->lost_arena);
    atomic_thread_fence(memory_order_acquire); /* what was read is older than the generation that the caller sees next */
    return seems;
}

uint32_t tree_find(uint32_t parent, const struct site *site, const struct label_set *labels, uint32_t *generation)
{
    parent = tree_parent_in(parent);
    if (!tree_lockless || contexts[parent].kind == CONTEXT_UNSAMPLED)
        return 0;
    if (labels && !labels->count)
        labels = NULL;
    uint32_t hash = hash_context(parent, CONTEXT_SPAN, site, labels), id = tree_hash_first(hash);
    for (int i = 0; id && i < FIND_STEPS; i++, id = load_acquire(&contexts[id].hash_next))
        if (load_relaxed(&contexts[id].hash) == hash && seems_to_be(id, parent, site, labels, generation))
            return id;
    return 0;
}

/* ---- Stacks ---- */

COLD int tree_begin_stacks(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (context_pasts)
        return 0;
    int error = meta_array_begin(&past_array, (size_t)max_ids * sizeof *context_pasts);
    if (!error && !meta_array_grow(&past_array, mapped_contexts * sizeof *context_pasts))
        error = -ENOMEM; /* the address space is lost */
    if (error)
        return error;
    meta_array_watch(&past_array);
    store_release((_Atomic(struct totals *) *)&context_pasts, (struct totals *)past_array.start);
    STATE_COPY(context_pasts);
    return 0;
}

bool tree_is_short_of_stacks(void)
{
    return tree_ids.stacks >= max_stacks / 2;
}

/* Stacks that were cut before may be whole now. */
static COLD void forget_cut_stacks(void)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && contexts[id].kind == CONTEXT_STACK && frames_are_cut(contexts[id].stack & ~STACK_SAMPLED))
            tree_forget(id);
}

static bool has_room_for_stack(unsigned cut)
{
    uint32_t bound = stacks_bound(max_stacks, cut);
    if (tree_ids.stacks >= bound && !cut && tree_recycle_stacks(max_stacks / 16))
        forget_cut_stacks();
    return tree_ids.stacks < bound;
}

uint32_t tree_intern_stack(uint32_t parent, uint32_t stack, unsigned cut)
{
    static const struct jespan_site site = {.name = "(stack)"};
    jespan_assert(lock_is_held(LOCK_TREE));
    const struct site *kept = site_intern(&site);
    if (!kept)
        return 0;
    uint32_t hash = hash_context(parent, CONTEXT_STACK, kept, NULL) ^ stack * 0x9e3779b1u;
    uint32_t id = find_child(hash, parent, CONTEXT_STACK, kept, NULL, stack);
    if (id || !has_room_for_stack(cut))
        return id;
    id = make_context(parent, CONTEXT_STACK, kept, NULL, stack, hash);
    return id == parent ? 0 : id;
}

/* ---- Contexts ---- */

COLD void tree_review_policies(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
        if (tree_is_live(id) && tree_has_policy(id))
            tree_forget(id);
    handles_review();
}

/* The spans of a context are counted in it, so readers are told as of a counter. */
static void tell_readers(uint32_t id)
{
    if (likely(thread_current)) {
        counters_moved(thread_current, id);
        return;
    }
    lock(LOCK_ORPHAN);
    counters_moved(&thread_orphan, id);
    unlock(LOCK_ORPHAN);
}

void tree_open_span(uint32_t id, uint64_t now)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct context *c = &contexts[id];
    c->open_spans++;
    store_relaxed(&c->handles, load_relaxed(&c->handles) + 1);
    own_add(&c->opens, 1);
    own_add(&c->wall, -(now + TIME_OPEN));
    tell_readers(id);
    STATE_COPY(*c);
}

void tree_close_span(uint32_t id, uint64_t now)
{
    struct context *c = &contexts[id];
    jespan_assert(lock_is_held(LOCK_TREE) && c->open_spans && load_relaxed(&c->handles));
    c->open_spans--;
    store_relaxed(&c->closed_time, now);
    store_relaxed(&c->handles, load_relaxed(&c->handles) - 1);
    own_add(&c->wall, now + TIME_OPEN);
    tell_readers(id);
    STATE_COPY(*c);
}
