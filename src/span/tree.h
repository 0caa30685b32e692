/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: interned paths of sites and labels, numbered, bounded, recycled when nothing refers to them.
 *
 * All under LOCK_TREE unless said otherwise. Contexts lie in one array by id, which readers may look at any time.
 *
 * Contexts that are not in use stay, with their cumulative figures, until their ids are needed.
 * A context is in use while it has children, open spans, a thread inside it (enters > exits) or live memory
 * (allocated > freed). Only the last two change without the lock. So recycling makes a context's generation odd,
 * lets every thread see that (membarrier), and sums again: a thread that enters without the lock counts its enter first
 * and looks at the generation afterwards, so one of the two notices the other. An id's counters are never reset, since
 * other threads own them: what they stood at when the id was recycled is kept as its base.
 *
 * The generation says whether what was remembered of a context still stands, so it changes also when the context stays what
 * it is. What names a context for good is its id with its incarnation, which changes only when the id is given to another.
 */
#ifndef JESPAN_TREE_H
#define JESPAN_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/kind.h"
#include "base/totals.h"
#include "span/labels.h"
#include "span/sites.h"

#define CONTEXT_ID_ROOT 1u
#define CONTEXT_ID_SELF 2u
#define CONTEXT_ID_UNSAMPLED 3u /* of all spans that a sampler left out, with all below them; has no row of its own */
#define CONTEXTS_MIN 64u
#define CONTEXTS_MAX (1u << 24)

/* What is live of spans that are closed. While one is open, memory of those that are closed cannot be told from its own:
 * then it is what it was when none was, as far as that is live. Kept by snapshots. */
struct outlived {
    uint64_t objects, bytes;
    uint64_t exits;       /* when the context was looked at last */
    uint64_t closed_time; /* in ticks: when the last span closed, or was found to have */
};

struct context {
    _Atomic uint32_t generation; /* even: live. Odd: free, or about to be */
    uint32_t incarnation;        /* how many contexts had this id before */
    uint32_t parent;
    const struct site *site;
    struct label_set *labels; /* NULL: none */
    uint32_t hash, hash_next;
    uint32_t children, open_spans;
    enum context_kind kind;
    bool labelled; /* it or an ancestor has labels: there may be any number of such */
    bool doomed;   /* while recycling: in use by nothing but children */
    uint32_t arena_next, arena_before; /* others that have its arena; 0: none */
    bool lost_arena; /* another has the arena that it had: to be asked for again when it is next used */
    /* What governs allocations in it; 0: nothing. Written under LOCK_TREE, read by anyone. */
    _Atomic uint16_t arena; /* the span arena they come from: policy/arenas.h */
    _Atomic uint16_t limit; /* the nearest limit, its own or an ancestor's: policy/limit.h */
    /* Of spans that jespan_open() opened (scopes: timing.h). Wall time in ticks, less the begin of those that are open. */
    uint32_t handles;
    uint64_t opens, wall;
    uint64_t children_wall; /* of contexts below that were recycled */
    uint64_t born;          /* of a period's: when the period began, in ticks; not 0 */
    struct outlived outlived;
    struct shown {
        uint64_t wall, wall_inclusive, busy, cpu, idle, idle_inclusive; /* in ns */
    } shown; /* by snapshots so far: LOCK_TREE */
};

/* A span of this context begins or ends at a time by clock_ticks(). */
void tree_open_span(uint32_t id, uint64_t now);
void tree_close_span(uint32_t id, uint64_t now);

/* What these spans add to the figures of their context. */
void tree_add_spans(struct totals *sum, uint32_t id, uint64_t now);

extern struct context *contexts;
extern struct totals *context_bases;
extern struct totals *context_pasts; /* see tree_add_past(); NULL where there are no periods */

/* Threads may enter without the lock: membarrier(2) works here, and there are no periods. Constant after boot. */
extern bool tree_lockless;

/* Once. Takes LOCK_TREE. Halves max_contexts until it fits into memory. Returns 0 or -ENOMEM. */
int tree_boot(uint32_t *max_contexts);

/* The context of `site` and `labels` (NULL: none) below `parent`, made where it is missing; the nearest ancestor when
 * there is no room for it, which is counted. Below a thread's context means below the root. Returns the id, 0 when out
 * of memory. */
uint32_t tree_intern(uint32_t parent, enum context_kind kind, const struct jespan_site *site,
                     const struct label_set *labels);

/* The same, or, of a period, the context whose it is. */
static inline uint32_t tree_whole(uint32_t id)
{
    return contexts[id].kind == CONTEXT_PERIOD ? contexts[id].parent : id;
}

/* The parent of what is opened in a context. */
static inline uint32_t tree_parent_in(uint32_t id)
{
    id = tree_whole(id);
    return contexts[id].kind == CONTEXT_THREAD ? CONTEXT_ID_ROOT : id;
}

/* Without the lock: may be wrong the next moment. */
HOT_INLINE bool tree_is_live(uint32_t id)
{
    extern _Atomic uint32_t tree_next_id;
    return id >= CONTEXT_ID_ROOT && id < load_relaxed(&tree_next_id) && !(load_relaxed(&contexts[id].generation) & 1);
}

/* Whether it has an allocation policy: a span arena or a limit. See alloc_policy.h. Without the lock. */
HOT_INLINE bool tree_has_policy(uint32_t id)
{
    return load_relaxed(&contexts[id].arena) || load_relaxed(&contexts[id].limit);
}

/* What governs contexts has changed: what was remembered of them and of open spans no longer stands. For threads that have
 * them entered there is thread_invalidate_all(), afterwards. Under LOCK_TREE. */
void tree_review_policies(void);

/* Ids below this were ever used. Any thread. */
uint32_t tree_end(void);

/* Recycles what is not in use, with or without the contexts that have no labels on their path. Those are as few as the
 * places in the code, and what they allocated so far is worth keeping apart. Returns how many. */
uint32_t tree_recycle(bool unlabelled_too);

/* The figures of a context since it got its present identity. Without those of its periods. */
struct totals tree_totals(uint32_t id);

/* Adds what the context has from periods of which nothing is left. Under LOCK_TREE. */
void tree_add_past(struct totals *sum, uint32_t id);
struct totals tree_retired(void);

struct tree_stats {
    uint64_t contexts; /* live now */
    uint64_t overflow; /* times that max_contexts was in the way */
    uint64_t recycled;
};
struct tree_stats tree_stats(void);

/* In a forked child. */
void tree_after_fork(void);

#endif
