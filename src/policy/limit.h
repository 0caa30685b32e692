/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: how many bytes a context and all below it may have in use.
 *
 * A limit stands on a context. Each context below it, itself included, is a *member* of the nearest one, and limits
 * form a tree. "(jespan)" and the contexts below it are nobody's members.
 *
 * Each limit has a counter, `charged`. An allocation is charged to the nearest limit and to all above it before it is
 * made; a charge that would pass a hard limit fails. A free is uncharged when it is counted. A thread keeps a *stock* of
 * charged bytes for the limits that it works in, so that it seldom touches the counters. Nobody is refused before the
 * stocks of all threads were looked at. At any moment
 *
 *     charged = what members have in use + charged of the limits right below + stocks + what is held for allocations
 *               that are being made
 *
 * where a free counts as in use until its thread has counted it, unless it was *claimed*: uncharged ahead of time.
 *
 * A thread changes its counters, its stocks and `charged` within a section, between limits_begin() and limits_end(),
 * where it takes no lock and does not call jemalloc. A thread that changes what limits there are, or takes other
 * threads' stocks, stops the others first: it sets a flag, lets every thread see that (membarrier), and waits until
 * nobody is in a section. So the threads need no locked instruction.
 *
 * What is in here changes under LOCK_TREE and LOCK_LIMITS, but for figures. */
#ifndef JESPAN_LIMIT_H
#define JESPAN_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/classes.h"
#include "heap/thread.h"
#include "span/tree.h"

#define LIMITS_MAX 65535u
#define LIMITS_PER_CHUNK_BITS 8
#define LIMITS_STOCK_BYTES 65536u /* that a thread takes at once, at most; or this part of a larger limit: */
#define LIMITS_STOCK_SHARE 4096u

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

/* The one before the first, 0, is none: it has no bounds, and those without a parent are its children. */
HOT_INLINE struct limit *limit_at(uint32_t index)
{
    return &load_acquire(&limits_chunks[index >> LIMITS_PER_CHUNK_BITS])[index & ((1u << LIMITS_PER_CHUNK_BITS) - 1)];
}

/* Reads the configuration. Once, before the first context is made. Returns 0 or -ENOMEM. */
int limits_boot(void);

/* ---- Sections: limit_admit.c ---- */

extern _Atomic bool limits_stopped;
uint32_t limits_begin_slow(struct thread *t);

/* The calling thread begins a section, and gets what limits_end() is to be given. A signal handler may come into one: what
 * it begins is part of that. */
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

/* Ends a section of limits_try_begin()'s. */
HOT_INLINE void limits_end_tried(struct thread *t, uint32_t section)
{
    store_release(&t->limits_sequence, section + 2);
}

/* As limits_begin(), without ever waiting. False: the thread is in a section, or would have to wait, and nothing was begun. */
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
    return load_relaxed(&contexts[context].limit);
}

/* Where the thread keeps stock of the limit, if not of another. */
HOT_INLINE struct limit_stock *limits_stock(struct thread *t, size_t limit)
{
    return &t->stocks[limit % LIMIT_STOCKS];
}

/* Takes so much for an allocation from the thread's stock. False: there is not so much of that limit in stock. */
HOT_INLINE bool limits_take(struct thread *t, uint32_t limit, uint64_t usable)
{
    struct limit_stock *s = limits_stock(t, limit);
    uint64_t stock = load_relaxed(&s->bytes);
    if (unlikely(load_relaxed(&s->limit) != limit || stock < usable))
        return false;
    store_relaxed(&s->bytes, stock - usable);
    return true;
}

/* Puts so much into the thread's stock. False: it keeps none of that limit, or not so much. */
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

/* So much, which was charged to the limit, is not in use any more. */
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

/* The allocation that they were held for is counted, with so many bytes. */
HOT_INLINE void limits_use(struct thread *t, uint64_t usable)
{
    const struct limit_held *h = &t->held[--t->n_held];
    if (unlikely(h->bytes > usable))
        limits_give(t, h->limit, h->bytes - usable);
}

/* An object of so many bytes becomes another context's. False: the limits of that do not admit it. */
bool limits_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable);

/* ---- Outside of one ---- */

enum limits_answer { LIMITS_NONE, LIMITS_HELD, LIMITS_REFUSED };

/* Charges an allocation in the context to its limit and all above it, and holds the bytes until limits_use() or
 * limits_drop(). LIMITS_NONE: no limit is above it. What is refused was counted and told, but if `quietly`. Takes
 * LOCK_LIMITS at times; allocates nothing. */
enum limits_answer limits_hold(struct thread *t, uint32_t context, size_t usable, bool quietly);

/* What is held was not needed. */
void limits_drop(struct thread *t);

/* Takes from all threads what they keep below `top`, and keeps them out of sections. `self`, NULL where the caller has no block, is
 * outside one, but may begin one. No lock from LOCK_LIMITS on is held. */
void limits_begin_alone(struct thread *self, uint32_t top);
void limits_end_alone(void);

/* Begins a section and does limits_transfer(), where need be with what other threads keep in stock. False: refused, and
 * there is no section. */
bool limits_begin_transfer(struct thread *t, uint32_t from, uint32_t to, uint64_t usable, uint32_t *section);

/* For the orphan, under LOCK_ORPHAN, which the first gives up for a while where it has to look for room. False: refused. */
bool limits_charge_orphan(uint32_t context, uint64_t usable);
void limits_uncharge_orphan(uint32_t context, uint64_t usable);

/* The calling thread was marked as `limits_unsettled`, and is in the middle of nothing now. */
void limits_settle(struct thread *t);

/* The thread ends: its stocks go back. */
void limits_leave_thread(struct thread *t);

/* What is in use under the limit. Any thread, without LOCK_LIMITS. */
uint64_t limits_inuse(uint32_t limit);
extern _Atomic uint64_t limits_refusals; /* of all that there ever were */

/* From the first limit on, for good; `limits_first_use` is called once, before. */
extern _Atomic bool limits_are_used;
extern void (*limits_first_use)(void);

/* Nobody is in a section from here to limits_go(), but for the caller. Under LOCK_LIMITS. */
void limits_stop(struct thread *self);
void limits_go(void);

/* ---- Setting them: limit.c ---- */

struct limit_bounds {
    uint64_t soft, hard;
};

/* Sets what is not NULL of a context's limit, which is made where it is missing, and removed when both are 0. Any
 * thread, no lock held. Returns 0, -EINVAL (no such context, or one that cannot have a limit; soft above hard), -ENOSPC
 * (max_limits) or -ENOMEM. */
int limits_set(uint32_t context, const uint64_t *soft, const uint64_t *hard);

/* What a context's own limit is. */
struct limit_figures {
    struct limit_bounds bounds;
    uint64_t inuse_bytes, refusals;
    bool exists;
};

/* Returns 0 or -EINVAL (no such context). */
int limits_get(uint32_t context, struct limit_figures *figures);

/* For tree.c, under LOCK_TREE: a context was made (its parent, site and labels are set). */
void limits_join(uint32_t context);

/* For recycle.c, under LOCK_TREE: contexts that have nothing in use are given up, in between. */
void limits_begin_recycling(void);
void limits_leave(uint32_t context);
void limits_end_recycling(void);

struct limits_stats {
    uint64_t limits, refusals; /* there are; of all there ever were */
    uint64_t lost;             /* that max_limits was in the way of */
};
struct limits_stats limits_stats(void);

/* Ends with what follows the last that was ever used. */
uint32_t limits_end_index(void);

/* fork(2), with all locks held; in the child, what threads had that do not exist there goes back. */
void limits_before_fork(void);
void limits_after_fork_in_parent(void);
void limits_after_fork_in_child(void);

/* ---- Who is told: limit_events.c ---- */

/* 1: there is something to be told; waited for by futex. */
extern _Atomic uint32_t limits_signal;
void limits_tell(void);

/* ---- Charging: limit_charge.c ---- */

/* `limit` is `top` or below it. */
bool limits_is_within(uint32_t limit, uint32_t top);

/* Charges so much to a limit and those above it, below `until` (0: all). Returns the limit that is in the way, 0 where
 * none is; then nothing is charged. */
uint32_t limits_charge(uint32_t limit, uint32_t until, uint64_t bytes);
void limits_charge_anyway(uint32_t limit, uint32_t until, uint64_t bytes);
void limits_uncharge(uint32_t limit, uint32_t until, uint64_t bytes);

/* What a thread may keep in stock, as far as the limit is away. */
uint32_t limits_share(uint32_t limit);

/* Takes all stocks of the limit and those below it, and what waits in buffers, off what is charged; of threads that are
 * in a section for long, not. */
void limits_drain(struct thread *self, uint32_t top);

/* The frees in a thread's buffer that are neither counted nor claimed: calls `each` for their limits. Returns how many the
 * buffer holds. */
uint32_t limits_each_waiting(struct thread *t, void (*each)(void *to, uint32_t limit, uint32_t bytes), void *to);

/* While nobody is in a section: uncharges all frees that wait in threads' buffers. */
void limits_claim_all(void);

void limits_await_buffers(void);

/* What counts for the limit of a context, all threads together: in use, but for what is claimed; held; and what may be
 * under way. Nobody is in a section. */
uint64_t limits_charge_of(uint32_t context);

/* The context is going to have a limit above it where it had none. Threads that are inside may be about to count an
 * allocation that nobody admitted: so much is charged for each of them, until it comes by. Returns 0 or -ENOMEM. */
#define LIMITS_UNSEEN_BYTES HEADER_PAGE_BYTES
int limits_watch_inside(uint32_t context);
uint64_t limits_unseen(uint32_t top); /* so much is charged for that */

/* The free at `i` will never be counted. */
void limits_unclaim(struct thread *t, uint32_t i);

/* The context has this limit, 0 for none, with what is held for it. Nobody is in a section. */
void limits_set_member(uint32_t context, uint32_t limit);

/* The limit is removed. Nobody is in a section. */
void limits_hand_stocks_up(uint32_t limit, uint32_t parent);

/* Those of the limit and of all below it. Nobody is in a section. */
void limits_empty_stocks(uint32_t top);

/* Every thread sees what this one wrote, and this one what others wrote before that. */
void limits_show_all(void);

extern _Atomic uint32_t limits_shape; /* odd while limits change their places */

/* The bounds that the configuration has for a context with this name and these labels; false: none. limit_conf.c */
struct context;
bool limits_configured(const struct context *c, struct limit_bounds *bounds);
void limits_conf_boot(void);
extern bool limits_are_configured;
extern _Atomic bool limits_have_soft; /* there is, or was, or will be a soft limit */

#endif
