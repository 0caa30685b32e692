/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: how many bytes a context and all below it may have in use.
 *
 * A limit stands on a context. Each context below it, itself included, is a *member* of the nearest one, and limits
 * form a tree: what is in use of a limit is the sum over its members and those of all limits below it. "(jespan)"
 * and what is below is nobody's member.
 *
 * Nothing is counted for limits: who wants to allocate sums the counters that there are. So that this is rare, each
 * thread has a *budget* per limit, which it may use up before it sums again: grant() in limit_admit.c has the bound.
 * A sum sees every free that has returned, whichever thread called it, so that a refusal is true when it is made.
 *
 * What is in here changes under LOCK_TREE and LOCK_LIMITS, but for figures. Sums are made without a lock: `shape` is
 * odd while lists below the limit change, and another afterwards. */
#ifndef JESPAN_LIMIT_H
#define JESPAN_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"
#include "thread.h"

#define LIMITS_MAX 65535u
#define LIMITS_PER_CHUNK_BITS 8
#define LIMITS_BUDGET_BYTES 65536u /* of a thread at most, or this part of a larger limit: */
#define LIMITS_BUDGET_SHARE 4096u

struct limit {
    /* Read with each allocation. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t generation; /* of the budgets that are valid; never the same again */
    _Atomic uint16_t parent, first_child, next_sibling;     /* limits; 0: none */
    _Atomic uint16_t depth;                                 /* 0: no limit above */
    _Atomic uint64_t soft, hard;                            /* bytes; 0: none */
    _Atomic uint32_t context;                               /* 0: the limit is free */
    bool pinned;                                            /* the context stays as long as the limit does */
    uint16_t next_free;

    /* Written by anyone. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t shape;
    _Atomic uint32_t first_member; /* contexts, linked through limit_next; a limit has one at least, its own */
    _Atomic uint64_t room;         /* that there was when budgets were last called back; see limit_admit.c */
    _Atomic uint64_t spare;        /* to be handed out without another sum: likewise */
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

/* ---- Admission: limit_admit.c ---- */

/* Whether the calling thread may allocate that much under the limit, and all above it, in its current context. If
 * so, what it then allocates must be counted, and limits_settle() called, counted or failed, before the next call
 * here. Takes LOCK_LIMITS at times; allocates nothing. */
bool limits_admit(struct thread *t, uint16_t limit, size_t usable);

/* The allocation that was admitted is counted, or did not come about. */
HOT_INLINE void limits_settle(struct thread *t)
{
    store_release(&t->reserved_bytes, 0);
}

/* So much has come into a context of the limit without being admitted. Nothing that was handed out before is used for it. */
void limits_came_in(uint16_t limit, size_t usable);

/* Nothing may be handed out without another sum. */
void limits_void_spare(struct limit *l);

/* What is in use under the limit. Any thread, without LOCK_LIMITS. */
uint64_t limits_inuse(uint32_t limit);
extern _Atomic uint64_t limits_refusals; /* of all that there ever were */

/* ---- Setting them: limit.c ---- */

struct limit_bounds {
    uint64_t soft, hard;
};

/* Sets what is not NULL of a context's limit, which is made where it is missing, and removed when both are 0. Any
 * thread, no lock held. Returns 0, -EINVAL (no such context, or one that cannot have a limit), -ENOSPC (max_limits)
 * or -ENOMEM. */
int limits_set(uint32_t context, const uint64_t *soft, const uint64_t *hard);

/* What a context's own limit is. */
struct limit_figures {
    struct limit_bounds bounds;
    uint64_t inuse_bytes, refusals;
    bool exists;
};

/* Returns 0 or -EINVAL (no such context). */
int limits_get(uint32_t context, struct limit_figures *figures);

/* For tree.c and recycle.c, under LOCK_TREE: a context was made (its parent, site and labels are set), or is given
 * up. */
void limits_join(uint32_t context);
void limits_leave(uint32_t context);

struct limits_stats {
    uint64_t limits, refusals; /* there are; of all there ever were */
    uint64_t lost;             /* that max_limits was in the way of */
};
struct limits_stats limits_stats(void);

/* Ends with what follows the last that was ever used. */
uint32_t limits_end(void);

/* In a forked child: what threads that do not exist here had reserved. */
void limits_after_fork(void);

/* ---- Who is told: limit_events.c ---- */

/* 1: there is something to be told; waited for by futex. */
extern _Atomic uint32_t limits_signal;
void limits_tell(void);

/* ---- Within ---- */

/* Under LOCK_LIMITS: the next limit of `top`'s tree in order, `top` first; 0: that was the last. */
uint32_t limits_walk(uint32_t top, uint32_t at);

/* `limit` is `top` or below it. */
bool limits_is_within(uint32_t limit, uint32_t top);

/* The bounds that the configuration has for a context with this name and these labels; false: none. limit_conf.c */
struct context;
bool limits_configured(const struct context *c, struct limit_bounds *bounds);
void limits_conf_boot(void);
extern bool limits_are_configured;
extern _Atomic bool limits_have_soft; /* there is, or was, or will be a soft limit */

#endif
