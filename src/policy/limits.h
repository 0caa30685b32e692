/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: how many bytes a context and all below it may have in use.
 *
 * A context may have a limit. Each context at or below it is a *member* of the nearest limit, and limits form a tree.
 * "(jespan)" and the contexts below it have no limit.
 *
 * Each limit has a counter, `charged`. An allocation is charged to the nearest limit and to all above it before
 * jemalloc makes it; a charge that would pass a hard limit fails. A free is uncharged when it is counted. A thread
 * keeps a *stock* of charged bytes for the limits that it works in, so it seldom touches the counters. An allocation is
 * refused only after a look at the stocks of all threads. At any moment
 *
 *     charged = bytes in use by members + charged of the limits right below + stocks + bytes held for allocations
 *
 * where a freed object counts as in use until its thread has counted the free, unless the free was *claimed*: uncharged
 * ahead of time.
 *
 * A thread changes its counters, its stocks and `charged` within a *section*, between limits_begin() and limits_end().
 * There it takes no lock and does not call jemalloc. A thread that makes or removes limits, or takes other threads'
 * stocks, stops the others first: it sets a flag, makes every thread see it (membarrier), and waits until no other
 * thread is in a section. So threads need no locked instruction.
 *
 * To *settle* is to charge what a thread counted without a charge, because it was on the fast paths when a limit was
 * set.
 *
 * Everything here changes under LOCK_TREE and LOCK_LIMITS, except figures. */
#ifndef JESPAN_LIMITS_H
#define JESPAN_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/classes.h"
#include "heap/thread.h"
#include "policy/limit_rules.h"
#include "span/tree.h"

#define LIMITS_MAX 65535u
#define LIMITS_PER_CHUNK_BITS 8

struct limit {
    /* Read with each charge. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t soft, hard; /* bytes; 0: none */
    _Atomic uint16_t parent, first_child, next_sibling;     /* limits; 0: none */
    _Atomic uint32_t context;                               /* 0: the limit is free */
    bool pinned;                                            /* the context stays as long as the limit does */
    uint16_t next_free;

    /* Written by anyone. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t charged;
    _Atomic uint64_t refusals;
    _Atomic bool over_soft; /* told, or about to be: limit_events.c */
    _Atomic uint64_t told_refusals;
    uint64_t told_ns; /* LOCK_TREE */
};

extern _Atomic(struct limit *) limits_chunks[(LIMITS_MAX >> LIMITS_PER_CHUNK_BITS) + 1];

/* Limit 0 stands for none. It has no bounds, and limits without a parent are its children. */
HOT_INLINE struct limit *limit_at(uint32_t index)
{
    return &load_acquire(&limits_chunks[index >> LIMITS_PER_CHUNK_BITS])[index & ((1u << LIMITS_PER_CHUNK_BITS) - 1)];
}

/* Reads the configuration. To be called once, before the first context is made. Returns 0 or -ENOMEM. */
int limits_boot(void);

/* ---- Sections: limit_sections.c ---- */

extern INTERNAL _Atomic bool limits_stopped;
uint32_t limits_begin_slow(struct thread *t);

/* The calling thread begins a section. The result is for limits_end(). A signal handler may interrupt a section; a
 * section that it begins is part of that one. */
HOT_INLINE uint32_t limits_begin(struct thread *t)
{
    uint32_t section = load_relaxed(&t->limits_sequence);
    if (unlikely(section & 1))
        return section;
    store_relaxed(&t->limits_sequence, section + 1);
    compiler_barrier(); /* paired with membarrier(2) in limits_stop() */
    if (unlikely(!tree_lockless))
        atomic_thread_fence(memory_order_seq_cst);
    if (unlikely(load_acquire(&limits_stopped) || load_relaxed(&t->limits_unsettled)))
        return limits_begin_slow(t);
    return section;
}

HOT_INLINE void limits_end(struct thread *t, uint32_t section)
{
    if (likely(!(section & 1)))
        store_release(&t->limits_sequence, section + 2);
}

/* Ends a section that limits_try_begin() began. */
HOT_INLINE void limits_end_tried(struct thread *t, uint32_t section)
{
    store_release(&t->limits_sequence, section + 2);
}

/* As limits_begin(), but never waits. False: the thread is in a section already, or would have to wait; it began
 * none. */
HOT_INLINE bool limits_try_begin(struct thread *t, uint32_t *section)
{
    *section = load_relaxed(&t->limits_sequence);
    if (unlikely(*section & 1))
        return false;
    store_relaxed(&t->limits_sequence, *section + 1);
    compiler_barrier();
    if (unlikely(!tree_lockless))
        atomic_thread_fence(memory_order_seq_cst);
    if (likely(!load_acquire(&limits_stopped) && !load_relaxed(&t->limits_unsettled)))
        return true;
    limits_end_tried(t, *section);
    return false;
}

/* ---- Within a section ---- */

HOT_INLINE uint16_t limits_of(uint32_t context)
{
    return load_relaxed(&context_heads[context].limit);
}

/* The thread's stock for this limit; it may be in use for another limit. */
HOT_INLINE struct limit_stock *limits_stock(struct thread *t, size_t limit)
{
    return &t->stocks[limit % LIMIT_STOCKS];
}

/* Takes `usable` bytes from the thread's stock. False: the stock does not have so many bytes of that limit. */
HOT_INLINE bool limits_take(struct thread *t, uint32_t limit, uint64_t usable)
{
    struct limit_stock *s = limits_stock(t, limit);
    uint64_t stock = load_relaxed(&s->bytes);
    if (unlikely(load_relaxed(&s->limit) != limit || stock < usable))
        return false;
    store_relaxed(&s->bytes, stock - usable);
    return true;
}

/* Puts `bytes` into the thread's stock. False: the stock belongs to another limit, or would be too large. */
HOT_INLINE bool limits_try_give(struct thread *t, uint32_t limit, uint64_t bytes)
{
    struct limit_stock *s = limits_stock(t, limit);
    uint64_t stock = load_relaxed(&s->bytes) + bytes;
    if (unlikely(load_relaxed(&s->limit) != limit || stock > 2 * (uint64_t)s->most))
        return false;
    store_relaxed(&s->bytes, stock);
    return true;
}

void limits_give_slow(struct thread *t, uint32_t limit, uint64_t bytes);

/* To be called when `bytes`, which were charged to the limit, are no longer in use. */
HOT_INLINE void limits_give(struct thread *t, uint32_t limit, uint64_t bytes)
{
    if (limit && unlikely(!limits_try_give(t, limit, bytes)))
        limits_give_slow(t, limit, bytes);
}

/* Whether bytes are held for an allocation in the thread's current context. */
HOT_INLINE bool limits_has_held(const struct thread *t)
{
    return t->n_held && t->held[t->n_held - 1].context == t->tag;
}

/* Uses the held bytes for an allocation of `usable` bytes, and gives the rest back. */
HOT_INLINE void limits_use(struct thread *t, uint64_t usable)
{
    const struct limit_held *h = &t->held[--t->n_held];
    if (unlikely(h->bytes > usable))
        limits_give(t, h->limit, h->bytes - usable);
}

/* Moves the charge of an object to another context. False: the limits of that context do not admit it. */
bool limits_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable);

/* ---- Outside of a section ---- */

enum limits_answer { LIMITS_NONE, LIMITS_HELD, LIMITS_REFUSED };

/* Charges an allocation in the context to its limit and all above it, and holds the bytes until limits_use() or
 * limits_drop(). LIMITS_NONE: there is no limit. A refusal is counted and reported, unless `quietly`. Takes LOCK_LIMITS
 * at times; allocates nothing. */
enum limits_answer limits_hold(struct thread *t, uint32_t context, size_t usable, bool quietly);

/* Gives back the bytes that were held last. */
void limits_drop(struct thread *t);

/* Begins a section and does limits_transfer(), if need be with bytes that other threads have in stock. False: refused,
 * and no section was begun. */
bool limits_begin_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable, uint32_t *section);

/* For the orphan, under LOCK_ORPHAN. limits_charge_orphan() releases that lock for a while if it has to look for room.
 * False: refused. */
bool limits_charge_orphan(uint32_t context, uint64_t usable);
void limits_uncharge_orphan(uint32_t context, uint64_t usable);

/* Charges what the calling thread, which is marked `limits_unsettled`, counted without a charge. The thread is in no
 * section. */
void limits_settle(struct thread *t);

/* Gives the stocks back, as the thread ends. */
void limits_leave_thread(struct thread *t);

/* Bytes in use by all members of the limit and of limits below. Any thread, without LOCK_LIMITS. */
uint64_t limits_inuse(uint32_t limit);
extern _Atomic uint64_t limits_refusals; /* of all limits, also of former ones */

/* True from the first limit on. `limits_first_use` is called once, before. */
extern _Atomic bool limits_are_used;
extern void (*limits_first_use)(void);

/* ---- Setting them: limits.c ---- */

/* Sets the bounds that are not NULL of a context's limit. Makes the limit if there is none, and removes it when both
 * bounds are 0. Any thread, no lock held. Returns 0, -EINVAL (no such context, or one that cannot have a limit; soft
 * above hard), -ENOSPC (max_limits) or -ENOMEM. */
int limits_set(uint32_t context, const uint64_t *soft, const uint64_t *hard);

/* The same if the context has that life (tree.h). -ESTALE: the number is another context's by now, or nobody's. */
int limits_set_of_life(uint32_t context, uint32_t life, const uint64_t *soft, const uint64_t *hard);

/* Figures of a context's own limit. */
struct limit_figures {
    struct limit_bounds bounds;
    uint64_t inuse_bytes, refusals;
    bool exists;
};

/* Returns 0 or -EINVAL (no such context). */
int limits_get(uint32_t context, struct limit_figures *figures);

/* context_policy.c calls this under LOCK_TREE for a new context that has its parent, site and labels. */
void limits_join(uint32_t context);

/* context_policy.c calls these under LOCK_TREE: the first one before contexts are recycled, the second for each, the
 * third at the end. LOCK_ORPHAN is held from the first to the third. */
void limits_begin_recycling(void);
void limits_leave(uint32_t context);
void limits_end_recycling(void);

struct limits_stats {
    uint64_t limits, refusals; /* limits that exist; refusals of all that ever existed */
    uint64_t lost;             /* limits of the configuration that were not made, because of max_limits */
};
struct limits_stats limits_stats(void);

/* The number behind the last limit that was ever used. */
uint32_t limits_end_index(void);

/* ---- Fork: limit_sections.c ---- */

/* Around fork(2), with all locks held. In the child, stocks and held bytes of threads that do not exist there go
 * back. */
void limits_before_fork(void);
void limits_after_fork_in_parent(void);
void limits_after_fork_in_child(void);

/* ---- Events, for report/limit_events.c: limit_admit.c, limit_conf.c ---- */

/* 1: there is an event to report. A thread waits for it by futex. */
extern _Atomic uint32_t limits_signal;
void limits_tell(void);

extern bool limits_are_configured;
extern _Atomic bool limits_have_soft; /* there is a soft limit, or was, or the configuration has one */

/* ---- For functions that count: limit_charge.c, limit_claims.c ---- */

/* Charges `bytes` to a limit and those above it, below `until` (0: all), even above a hard limit. */
void limits_charge_anyway(uint32_t limit, uint32_t until, uint64_t bytes);

/* Uncharges all frees in threads' buffers ahead of time. No thread is in a section. */
void limits_claim_all(void);

/* To be called if the buffered free at `i` will never be counted. */
void limits_unclaim(struct thread *t, uint32_t i);

#endif
