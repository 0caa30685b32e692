/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: paths of sites and labels. Each path is interned and has a number. Numbers are bounded, and
 * recycled when nothing refers to them.
 *
 * All functions need LOCK_TREE unless their comment says otherwise. Contexts lie in one array by id. Readers may read
 * it at any time.
 *
 * Contexts that are not in use stay, with their figures, until their ids are needed. A context is in use while it has
 * children, open spans, a thread inside it (enters > exits) or live memory (allocated > freed). Only the last two
 * change without the lock. So recycling makes a context's generation odd, makes every thread see that (membarrier), and
 * sums again. A thread that enters without the lock counts its enter first and reads the generation afterwards. So one
 * of the two notices the other. The counters of an id are never reset, since other threads own them. When an id is
 * recycled, their values are kept as its base.
 *
 * The generation tells whether what a thread remembers of a context is still valid. So it also changes when the context
 * stays the same. The id and the incarnation together name a context for good: the incarnation changes only when the id
 * is given to another context.
 */
#ifndef JESPAN_TREE_H
#define JESPAN_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/state_file.h"
#include "base/totals.h"
#include "heap/header.h"
#include "span/labels.h"
#include "span/sites.h"

#define CONTEXT_ID_ROOT 1u
#define CONTEXT_ID_SELF 2u
#define CONTEXT_ID_UNSAMPLED 3u /* all spans that a sampler declined, and all spans below them; has no row of its own */
#define CONTEXTS_MIN 64u
#define CONTEXTS_MAX TAGS_MAX

/* What threads read of a context on their fast paths. Eight share a cache line, since allocations with stacks read one of
 * thousands at a time. Written under LOCK_TREE. */
struct context_head {
    _Atomic uint32_t generation; /* even: live. Odd: free, or about to be */
    /* The allocation policy; 0: none. */
    _Atomic uint16_t arena; /* the span arena of its allocations: policy/arenas.h */
    _Atomic uint16_t limit; /* the nearest limit, its own or an ancestor's: policy/limits.h */
};

struct context {
    uint32_t parent;
    _Atomic uint32_t stacks_for; /* whether its allocations are credited to stacks, if that is known: stack_mode.h */
    const struct site *site;
    struct label_set *labels; /* NULL: none */
    uint32_t label_bytes;     /* of their text */
    uint16_t label_count, label_integers; /* as in the label set */
    enum context_kind kind;
    /* Spans opened by jespan_open(), and the time that they were open (timing.h). JESPAN() blocks have these in
     * counters_more. */
    _Atomic uint32_t handles; /* open now */
    _Atomic uint64_t opens, wall;
    _Atomic uint64_t closed_time;   /* in ticks: when the last of them closed */
    _Atomic uint64_t children_wall; /* wall time of recycled children */
    uint64_t opens_seen;            /* by the last pass that looked for contexts to recycle */
    uint64_t born;                  /* for a period: its begin in ticks, not 0 */
    uint32_t stack;                 /* for a stack: its number, stacks/stacks.h, perhaps with STACK_SAMPLED */
    uint32_t first_stack, stack_next, stack_before; /* the list of a context's stacks; 0: none */
    _Atomic uint32_t hash, hash_next; /* tree_find() reads them without the lock */
    uint32_t children, open_spans;
    bool labelled; /* it or an ancestor has labels, so there may be any number of such contexts */
    bool unused;   /* while recycling: in use by nothing except children */
    bool is_own;   /* it is "(jespan)" or lies below it, so it has no limit */
    uint32_t arena_next, arena_before; /* the list of contexts that have its arena; 0: none */
    _Atomic bool lost_arena; /* another context got its arena, or that of an ancestor: it asks for one again when it is next used */
};

/* A span of this context begins, or ends, at a time of clock_ticks(). */
void tree_open_span(uint32_t id, uint64_t now);
void tree_close_span(uint32_t id, uint64_t now);

extern INTERNAL struct context *contexts;
extern INTERNAL struct context_head *context_heads; /* by id too */
/* By id, so that readers need no lock. The life is odd while a context has the id, and changes when the id is freed and
 * when it is given to a context. While it is odd, the context's path, labels and base stay the same. A reader that
 * finds the same odd life before and after it has copied them has a whole copy (a sequence lock). */
extern _Atomic uint32_t *context_lives;
extern struct totals *context_bases;
extern struct totals *context_pasts; /* see tree_add_past(); NULL without periods */

extern _Atomic uint32_t tree_next_id;

/* Threads may enter without the lock, since membarrier(2) works and there are no periods. Constant after boot. */
extern INTERNAL bool tree_lockless;

/* membarrier(2) works: every thread sees the marks of recycling. So threads may enter stacks without the lock, also where
 * there are periods. Constant after boot. */
extern INTERNAL bool tree_has_membarrier;

/* To be called once. Maps less where address space is short. Takes LOCK_TREE. Returns 0 or -ENOMEM. */
int tree_boot(uint32_t max_contexts, uint32_t max_stacks);

/* Finds the context of a span below one that the thread is in, if it is there already. Needs no lock. The caller enters it at once, counts
 * that first, and then sees that the generation is still this one: otherwise it may be any context. Returns 0 where it is to be asked for
 * by tree_intern(). */
uint32_t tree_find(uint32_t parent, const struct site *site, const struct label_set *labels, uint32_t *generation);

/* The context of `site` and `labels` (NULL: none) below `parent`. Creates it where it is missing. When all ids are
 * taken, it counts that and returns the parent. Children of a thread's context lie below the root. Returns the id, or 0
 * when out of memory. */
uint32_t tree_intern(uint32_t parent, enum context_kind kind, const struct jespan_site *site,
                     const struct label_set *labels);

/* As tree_intern(), for a stack of calls in `parent`, which may be a period. Stacks take ids of their own, as many as
 * stacks_bound() says. Returns 0 when these are taken, and when out of memory. */
uint32_t tree_intern_stack(uint32_t parent, uint32_t stack, unsigned cut);

/* Whether stacks have taken half of their ids. Under LOCK_TREE. */
bool tree_is_short_of_stacks(void);

/* Makes room for the figures of recycled stacks. To be called before the first stack. Returns 0 or -ENOMEM. */
int tree_begin_stacks(void);

/* Periods and stacks are parts of a context: they have ids and counters, and are no contexts for users. */
static inline bool tree_is_part(enum context_kind kind)
{
    return kind == CONTEXT_PERIOD || kind == CONTEXT_STACK;
}

/* The context itself, or, for a part, the context to which it belongs. A period may have stacks. The context may be gone: then its
 * number may be another's, which is just being made. */
static inline uint32_t tree_whole(uint32_t id)
{
    while (tree_is_part(__atomic_load_n(&contexts[id].kind, __ATOMIC_RELAXED)))
        id = __atomic_load_n(&contexts[id].parent, __ATOMIC_RELAXED);
    return id;
}

/* The same without stacks: a context, or a period of it. */
static inline uint32_t tree_without_stack(uint32_t id)
{
    return contexts[id].kind == CONTEXT_STACK ? contexts[id].parent : id;
}

/* The parent of spans that are opened in a context. */
static inline uint32_t tree_parent_in(uint32_t id)
{
    id = tree_whole(id);
    return contexts[id].kind == CONTEXT_THREAD ? CONTEXT_ID_ROOT : id;
}

/* Needs no lock. The answer may be wrong the next moment. If the caller has entered the context, it stays, and is read as it was made. */
HOT_INLINE bool tree_is_live(uint32_t id)
{
    return id >= CONTEXT_ID_ROOT && id < load_acquire(&tree_next_id) && !(load_acquire(&context_heads[id].generation) & 1);
}

/* Whether it has an allocation policy: a span arena or a limit. See alloc_policy.h. Needs no lock. */
HOT_INLINE bool tree_has_policy(uint32_t id)
{
    return load_relaxed(&context_heads[id].arena) || load_relaxed(&context_heads[id].limit);
}

/* The allocation policies of contexts have changed. Invalidates all that threads have cached about contexts and open
 * spans. The caller then calls thread_invalidate_all() for threads that are inside. */
void tree_review_policies(void);

/* All ids that were ever used are below this. Needs no lock. */
uint32_t tree_end(void);

/* Recycles contexts that are not in use. Contexts without labels on their path are only recycled if `unlabelled_too`:
 * they are as few as the places in the code, and their figures are worth keeping apart. Returns the number of
 * contexts. */
uint32_t tree_recycle(bool unlabelled_too);

/* The figures of a context since it has its id, without those of its periods. */
struct totals tree_totals(uint32_t id);

/* Adds the figures of those periods of the context that were recycled. */
void tree_add_past(struct totals *sum, uint32_t id);

/* The sum of all contexts that were recycled. The sequence changes before and after contexts are recycled. So a reader
 * that finds the same even sequence before and after knows which contexts the sum contains. */
struct contexts_retired {
    _Atomic uint32_t sequence;
    struct totals totals;
};
extern struct contexts_retired contexts_retired;
struct totals tree_retired(void); /* under LOCK_TREE */

/* The number of contexts that had the id before the one that has it. */
static inline uint32_t tree_incarnation(uint32_t life)
{
    return life / 2;
}

struct tree_stats {
    uint64_t contexts; /* live now, without stacks */
    uint64_t stacks;   /* live now */
    uint64_t overflow; /* requests for which no id was free */
    uint64_t recycled;
};
struct tree_stats tree_stats(void);

/* ---- For tree.c and tree_recycle.c, which share these. All of it needs LOCK_TREE ---- */

struct tree_ids {
    uint32_t first_free; /* linked through hash_next; 0: none */
    uint32_t free;       /* ids in that list */
    uint32_t stacks;     /* live contexts of stacks */
    uint64_t overflow, recycled; /* as in struct tree_stats */
};
extern struct tree_ids tree_ids;

/* Brings the copy of a context in the state file up to date, with its life and its base. */
void tree_copy_to_state_now(uint32_t id);
static inline void tree_copy_to_state(uint32_t id)
{
    if (state_is_on())
        tree_copy_to_state_now(id);
}

/* Recycles early, so that numbers are used again and the memory of counters stays small. To be called for each new
 * context. */
void tree_recycle_early(void);

/* Contexts that are no stacks. Under LOCK_TREE. */
uint32_t tree_live_contexts(void);

/* To be called when all numbers of contexts are taken. `good_yield` is the number of contexts that are worth a round. */
void tree_recycle_at_bound(uint32_t good_yield);

/* Removes a stack from the list of its context. */
void tree_leave_stacks(uint32_t id);

/* To be called when stacks have all ids that they may have. Returns true each time that
 * `good_yield` more of them have become free. */
bool tree_recycle_stacks(uint32_t good_yield);

/* Begins or ends a life of the id. */
static inline void tree_change_life(uint32_t id)
{
    store_release(&context_lives[id], load_relaxed(&context_lives[id]) + 1);
}

/* Invalidates all that threads have cached about the context. The context stays the same. */
static inline void tree_forget(uint32_t id)
{
    store_release(&context_heads[id].generation, load_relaxed(&context_heads[id].generation) + 2);
}

#endif
