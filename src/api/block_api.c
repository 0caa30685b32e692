/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks: JESPAN() and JESPAN_CREDIT(). The address of a block's struct jespan_block is its key.
 *
 * For JESPAN() a cache of the thread leads from the current context and a site to the child context: block_slow.c. */
#include <errno.h>

#include "api/block_slow.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "span/age.h"
#include "span/label_cache.h"
#include "span/sampler.h"
#include "span/span.h"

/* ---- Both kinds of blocks ---- */

/* Ends a block that is not innermost. The blocks inside it are over too, with what was attached in them. Spans that
 * were entered inside and not exited stay. */
static COLD void exit_outer(struct thread *t, enum entry_kind kind, uint64_t key)
{
    int64_t index = span_find(t, kind, key);
    for (int64_t i = (int64_t)t->depth - 1; index >= 0 && i >= index; i--)
        if (i == index || entry_is_block(&t->entries[i]))
            span_remove(t, (uint32_t)i);
}

/* For a thread that has entered something with an allocation policy, or has no block. */
static COLD void exit_by_policy(enum entry_kind kind, uint64_t key)
{
    struct thread *t = thread_current;
    if (!t)
        return;
    exit_outer(t, kind, key);
    span_review(t);
}

HOT_INLINE void exit_block(struct jespan_block *block, enum entry_kind kind)
{
    struct thread *t = load_relaxed(&thread_fast.other);
    if (unlikely(!block || !block->entered))
        return;
    if (unlikely(!t)) {
        exit_by_policy(kind, (uintptr_t)block);
        return;
    }
    uint64_t now = kind == ENTRY_CREDIT || !t->depth ? 0 : timing_now();
    if (likely(t->depth && span_is_entry(&t->entries[t->depth - 1], kind, (uintptr_t)block)))
        span_pop_at(t, kind, now);
    else
        exit_outer(t, kind, (uintptr_t)block);
}

/* ---- JESPAN(): the fast paths, for the processor's counter ----
 *
 * They call other functions last, if at all, so they save no registers. Where anything is in the way, they have changed nothing. */

/* The thread's block. NULL: something is in the way. */
HOT_INLINE struct thread *thread_for_block(const struct jespan_block *block, const struct jespan_site *site)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    if (unlikely(!t || !block || !site || !site->name || !timing_is_raw || sampler_is_used()))
        return NULL;
    bool may_be_dead = t->depth && t->entries[t->depth - 1].key == (uintptr_t)block;
    return likely(!may_be_dead) ? t : NULL;
}

/* As enter_cached(). */
HOT_INLINE bool enter_raw(struct thread *t, const struct site_cache_line *line, struct jespan_block *block, uint64_t now)
{
    struct counters *c = counters_find(t, line->context);
    if (unlikely(!span_has_room(t)))
        return false;
    own_add(&c->enters, 1);
    counters_moved(t, line->context);
    compiler_barrier();
    if (unlikely(load_relaxed(&context_heads[line->context].generation) != line->generation || !cpu_clock_stands(&t->cpu))) {
        span_undo_enter(c);
        return false;
    }
    span_put(t, ENTRY_BLOCK, (uintptr_t)block, line->context, c);
    block->entered = 1;
    timing_pass(t, c, now);
    timing_open_block(c, now);
    return true;
}

/* Whether the site is that of the line, and not an odd one. */
HOT_INLINE bool is_site_of(const struct site_cache_line *line, const struct jespan_site *site)
{
    return likely(line->is_constant) || sites_is_whole_copy(line->kept, site);
}

/* Gets the thread's block: thread_fast is not read twice, since another thread may clear it at any moment
 * (thread_invalidate_all()). */
static NOINLINE void enter_labels_raw(struct jespan_block *block, const struct jespan_site *site,
                                      const char *const *name_and_labels, size_t count, struct thread *t)
{
    const struct labels_given given = {name_and_labels + 1, NULL, (count - 1) / 2};
    if (unlikely(!name_and_labels || !t->label_cache)) {
        block_enter_slowly(block, site, name_and_labels, count);
        return;
    }
    const struct label_guess *guess = label_cache_guess(t, site, given);
    if (unlikely(!line_fits(t, &guess->way, site) || guess->has_policy)) {
        block_enter_slowly(block, site, name_and_labels, count);
        return;
    }
    uint64_t now = clock_raw();
    if (unlikely(!label_guess_is_right(guess, given) || !enter_raw(t, &guess->way, block, now)))
        block_enter_slowly(block, site, name_and_labels, count);
}

EXPORT void jespan_enter_block(struct jespan_block *block, const struct jespan_site *site,
                               const char *const *name_and_labels, size_t count)
{
    struct thread *t = thread_for_block(block, site);
    if (likely(t) && count > 1) {
        enter_labels_raw(block, site, name_and_labels, count, t);
        return;
    }
    const struct site_cache_line *line = likely(t) ? block_line(t, site) : NULL;
    if (unlikely(!line || !line_fits(t, line, site))) {
        block_enter_slowly(block, site, name_and_labels, count);
        return;
    }
    uint64_t now = clock_raw();
    if (unlikely(!is_site_of(line, site) || !enter_raw(t, line, block, now)))
        block_enter_slowly(block, site, name_and_labels, count);
}

static NOINLINE void exit_block_slowly(struct jespan_block *block)
{
    exit_block(block, ENTRY_BLOCK);
}

EXPORT void jespan_exit_block(struct jespan_block *block)
{
    struct thread *t = load_relaxed(&thread_fast.other);
    if (unlikely(!t || !block || !block->entered || !t->depth || !timing_is_raw)) {
        exit_block_slowly(block);
        return;
    }
    const struct entry *e = &t->entries[t->depth - 1];
    uint64_t now = clock_raw();
    if (unlikely(!span_is_entry(e, ENTRY_BLOCK, (uintptr_t)block) || !cpu_clock_stands(&t->cpu))) {
        exit_block_slowly(block);
        return;
    }
    struct counters *timed, *c = span_take(t, &timed);
    timing_pass(t, timed, now);
    timing_close_block(c, now);
    span_count_exit(c);
}

/* ---- JESPAN_CREDIT() ---- */

/* Counts the enter before it checks the context, so that the context is not recycled meanwhile: tree.h. */
static int enter_credit(struct thread *t, uint64_t key, jespan_context_t number)
{
    uint32_t context = age_period_of(span_context_named(t, number));
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    compiler_barrier();
    if (tree_is_live(context) && span_push(t, ENTRY_CREDIT, key, context, c) == 0) {
        if (unlikely(tree_has_policy(context) || t->region))
            span_review(t);
        return 0;
    }
    span_undo_enter(c);
    return EINVAL;
}

EXPORT void jespan_enter_credit(struct jespan_block *block, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (unlikely(!block))
        return;
    block->entered = 0;
    if (unlikely(!t))
        return;
    uint64_t key = (uintptr_t)block;
    span_drop_dead(t, key);
    if (likely(tree_lockless)) {
        block->entered = enter_credit(t, key, context) == 0;
        return;
    }
    lock(LOCK_TREE);
    block->entered = enter_credit(t, key, context) == 0;
    unlock(LOCK_TREE);
}

EXPORT void jespan_exit_credit(struct jespan_block *block)
{
    exit_block(block, ENTRY_CREDIT);
}
