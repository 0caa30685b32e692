/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of a thread, and its current context, which follows from them. */
#include "span/span.h"

#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/counters.h"
#include "span/age.h"
#include "span/context_policy.h"
#include "span/stack_context.h"

/* An entry that was moved to other periods counts as entered in its first period only. */
static void count_exits(const struct entry *gone)
{
    if (gone->kind & ENTRY_MOVED) {
        span_undo_enter(gone->counters);
        span_count_exit(gone->former);
    } else {
        span_count_exit(gone->counters);
    }
}

static void show_innermost(struct thread *t)
{
    const struct entry *innermost = t->depth ? &t->entries[t->depth - 1] : NULL;
    t->tag = innermost ? innermost->context : t->base;
    t->current = innermost ? innermost->counters : t->base_counters;
}

NOINLINE int span_switch_slowly(struct thread *t, struct counters *to, uint64_t now, struct counters *left)
{
    timing_switch_at(t, to, now);
    if (left)
        span_count_exit(left);
    return 0;
}

/* To be called after entries changed. Finds the counters for which time passes from now on. Returns the time. */
static uint64_t resume_time(struct thread *t)
{
    struct counters *timed = t->base_counters;
    for (struct entry *e = t->entries; e < t->entries + t->depth; e++) {
        if (entry_kind(e) == ENTRY_CREDIT)
            e->timed = timed;
        timed = e->timed;
    }
    show_innermost(t);
    return timing_switch(t, timed);
}

/* LOCK_TREE is held, or the context cannot go away. */
static int replace_base(struct thread *t, uint32_t context)
{
    context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL, *former = t->base_counters;
    if (!c)
        return -ENOMEM;
    t->base = context;
    t->base_counters = c;
    if (former) {
        resume_time(t);
        span_count_exit(former);
    } else {
        show_innermost(t);
        timing_begin(t, c);
    }
    return 0;
}

/* A thread that is registering has no review yet. It gets one afterwards. */
static int set_base_locked(struct thread *t, uint32_t context)
{
    int error = replace_base(t, context);
    if (t == thread_current)
        span_review(t);
    return error;
}

int span_set_base(struct thread *t, uint32_t context)
{
    lock(LOCK_TREE);
    int error = set_base_locked(t, context);
    unlock(LOCK_TREE);
    return error;
}

COLD int span_set_base_by_name(struct thread *t, const char *name)
{
    char text[32] = "thread:";
    strncat(text, name, sizeof t->name - 1);
    const struct jespan_site site = {.name = text};
    lock(LOCK_TREE);
    int error = set_base_locked(t, tree_intern(CONTEXT_ID_ROOT, CONTEXT_THREAD, &site, NULL));
    unlock(LOCK_TREE);
    return error;
}

static bool entry_has_policy(const struct entry *e)
{
    return tree_has_policy(e->context) || entry_region(e);
}

/* Looks at the innermost entry first: entries inside a context with an allocation policy mostly have one, too. */
static bool has_policy(const struct thread *t)
{
    bool found = t->notes || tree_has_policy(t->base);
    for (uint32_t i = t->depth; i-- > 0 && !found;)
        found = entry_has_policy(&t->entries[i]);
    return found;
}

static bool has_arena_of_its_own(const struct entry *e)
{
    return policy_has_own_arena(tree_whole(e->context));
}

/* The region that new objects belong to: the innermost one. But objects do not belong to it inside an entry for another
 * owner, a span that was opened outside the region, perhaps in the same context, or a context with an arena of its
 * own. */
static uint16_t region_of(const struct thread *t)
{
    if (!t->regions_entered)
        return 0;
    uint16_t inside = 0; /* the region in which the entries above were opened */
    for (const struct entry *e = t->entries + t->depth; e-- > t->entries;) {
        uint16_t region = entry_region(e);
        if (region)
            return inside && inside != region ? 0 : region;
        if ((entry_kind(e) != ENTRY_BLOCK && !entry_inside(e)) || has_arena_of_its_own(e))
            break;
        if (inside && entry_inside(e) && inside != entry_inside(e))
            break;
        inside = entry_inside(e) ? entry_inside(e) : inside;
    }
    return 0;
}

/* Paired with thread_invalidate_all(): either it finds our answer and clears it, or we see that it was called. While
 * a guarded object is due, the next allocation takes the slow side and comes here again: alloc_policy.c. */
COLD void span_review(struct thread *t)
{
    bool is_due, is_renamed = !t->next_name_check; /* then the next allocation looks at the name */
    do {
        t->invalidations_seen = load_acquire(&thread_invalidations);
        store_release(&t->maybe_hot, false);
        t->region = region_of(t);
        stack_context_review(t);
        struct thread *other = has_policy(t) ? NULL : t;
        is_due = t->guard_due;
        struct thread *alloc = is_due || is_renamed ? NULL : other;
        bool is_sampling = stack_context_is_sampling(t);
        thread_fast_set(alloc, other, is_sampling, t->stacks && !is_sampling);
        atomic_thread_fence(memory_order_seq_cst);
    } while (unlikely(load_relaxed(&thread_invalidations) != t->invalidations_seen));
    t->invalidations_seen -= (uint32_t)is_due + is_renamed;
    if (unlikely(load_relaxed(&t->limits_unsettled)))
        policy_settle(t);
}

/* Whether objects of the innermost entry belong to the region of the thread so far, by the rules of region_of(). */
static bool is_part_of(const struct entry *e, uint16_t region)
{
    return (entry_kind(e) == ENTRY_BLOCK || entry_inside(e) == region) && !has_arena_of_its_own(e);
}

/* Entries below were reviewed when they were entered. If there was an invalidation since, all entries are reviewed. */
COLD void span_review_innermost(struct thread *t)
{
    const struct entry *e = &t->entries[t->depth - 1];
    if (unlikely(load_acquire(&thread_invalidations) != t->invalidations_seen)) {
        span_review(t);
        return;
    }
    if (entry_region(e))
        t->region = entry_region(e);
    else if (t->region && !is_part_of(e, t->region))
        t->region = 0;
    if (entry_has_policy(e))
        thread_fast_set(NULL, NULL, false, false);
}

static void move_innermost(struct thread *t, uint32_t period)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct entry *e = &t->entries[t->depth - 1];
    struct counters *c = span_count_enter(t, period), *former = e->counters;
    if (!c)
        return;
    e->context = period;
    e->counters = c;
    if (entry_kind(e) != ENTRY_CREDIT)
        e->timed = c;
    uint64_t now = resume_time(t);
    if (entry_kind(e) == ENTRY_BLOCK)
        timing_move_block(former, c, now);
    if (e->kind & ENTRY_MOVED) {
        span_undo_enter(former);
        return;
    }
    e->kind |= ENTRY_MOVED; /* so the fast paths do not find it */
    e->former = former;
}

COLD void span_grow_older(struct thread *t)
{
    lock(LOCK_TREE);
    uint32_t tag = tree_without_stack(t->tag), period = age_period_of(tag); /* an allocation may have entered a stack */
    if (period && period != tag && t->depth)
        move_innermost(t, period);
    else if (period && period != tag)
        replace_base(t, period);
    t->period_end = age_period_end();
    unlock(LOCK_TREE);
}

COLD int span_grow_entries(struct thread *t)
{
    size_t bytes = t->capacity * sizeof *t->entries;
    struct entry *more = meta_map(2 * bytes);
    if (!more)
        return -ENOMEM;
    struct entry *old = t->entries;
    memcpy(more, old, bytes);
    t->entries = more; /* before `capacity`, for a child that is forked meanwhile */
    t->capacity *= 2;
    if (old != t->entries_inline)
        meta_unmap(old, bytes);
    return 0;
}

void span_remove(struct thread *t, uint32_t index)
{
    jespan_assert(index < t->depth);
    struct entry gone = t->entries[index];
    memmove(&t->entries[index], &t->entries[index + 1], (t->depth - index - 1) * sizeof gone);
    t->depth--;
    t->regions_entered -= entry_region(&gone) != 0;
    uint64_t now = resume_time(t);
    if (entry_kind(&gone) == ENTRY_BLOCK)
        timing_close_block(gone.counters, now);
    count_exits(&gone);
    if (entry_kind(&gone) != ENTRY_ATTACHED && index < t->depth && entry_kind(&t->entries[index]) == ENTRY_ATTACHED)
        span_remove(t, index); /* the entry that was attached above it */
}

void span_remove_left(struct thread *t, uint32_t index, uintptr_t stack, uintptr_t bytes)
{
    for (int64_t i = (int64_t)t->depth - 1; i > (int64_t)index; i--)
        if (span_is_left(&t->entries[i], stack, bytes))
            span_remove(t, (uint32_t)i);
}

COLD void span_remove_dead(struct thread *t, uint64_t key, uintptr_t stack)
{
    uint32_t i = 0;
    while (i < t->depth && (t->entries[i].key != key || !entry_is_block(&t->entries[i])))
        i++;
    if (i == t->depth)
        return;
    span_remove_left(t, i, stack, DEAD_STACK_BYTES);
    while (i < t->depth)
        if (t->entries[i].key == key && entry_is_block(&t->entries[i]))
            span_remove(t, i);
        else
            i++;
}

COLD void span_move(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context, struct counters *c)
{
    jespan_assert(lock_is_held(LOCK_TREE)); /* so no context is recycled */
    struct counters *former = NULL;
    uint32_t left = 0;
    for (struct entry *e = t->entries; e < t->entries + t->depth; e++) {
        if (e->key != key || entry_kind(e) != kind)
            continue;
        former = e->counters;
        left = e->context;
        own_add(&c->enters, 1);
        counters_moved(t, context);
        count_exits(e);
        e->counters = e->timed = c;
        e->context = context;
        e->kind &= ~ENTRY_MOVED;
    }
    if (!former)
        return;
    uint64_t now = resume_time(t);
    if (kind == ENTRY_BLOCK) {
        timing_close_block(former, now);
        counters_use_more(c);
        timing_open_block(c, now);
    }
    counters_moved(t, left); /* its time ended after its exit was counted */
    span_review(t);
}

int64_t span_find(const struct thread *t, enum entry_kind kind, uint64_t key)
{
    for (int64_t i = (int64_t)t->depth - 1; i >= 0; i--)
        if (t->entries[i].key == key && entry_kind(&t->entries[i]) == kind)
            return i;
    return -1;
}

COLD int span_enter_self(struct thread *t)
{
    struct counters *c = span_count_enter(t, CONTEXT_ID_SELF);
    if (!c)
        return -ENOMEM;
    int error = span_push(t, ENTRY_SELF, 0, CONTEXT_ID_SELF, c);
    if (error)
        span_count_exit(c);
    if (unlikely(t->region))
        span_review(t);
    return error;
}

COLD void span_leave_self(struct thread *t)
{
    span_remove(t, (uint32_t)span_find(t, ENTRY_SELF, 0));
    if (unlikely(has_policy(t)))
        span_review(t);
}

/* The thread's time has ended already. JESPAN() blocks that are still open end now. */
static void leave_entries(struct thread *t)
{
    uint64_t now = timing_now();
    while (t->depth) {
        struct entry gone = t->entries[--t->depth];
        t->regions_entered -= entry_region(&gone) != 0;
        show_innermost(t);
        if (entry_kind(&gone) == ENTRY_BLOCK)
            timing_close_block(gone.counters, now);
        count_exits(&gone);
    }
}

static void leave_base(struct thread *t)
{
    leave_entries(t);
    if (t->entries != t->entries_inline) {
        struct entry *old = t->entries;
        size_t bytes = t->capacity * sizeof *old;
        t->entries = t->entries_inline;
        t->capacity = ENTRIES_INLINE;
        meta_unmap(old, bytes);
    }
    stack_context_leave_thread(t);
    struct counters *c = t->base_counters;
    t->base = t->tag = 0;
    t->base_counters = t->current = NULL;
    if (c)
        span_count_exit(c);
}

COLD void span_leave_all(struct thread *t)
{
    timing_end(t);
    leave_base(t);
}

/* The thread ran on while fork(2) copied its memory page by page. So its entries and its counters may not fit together.
 * Each counter has a value that it had at some moment. The thread is inside no context now. */
COLD void span_abandon_all(struct thread *t)
{
    cpu_clock_set_last(&t->cpu, t->cpu_at_fork);
    for (uint32_t id = 0, end = tree_end(); id < end; id++) {
        struct counters *c = counters_find(t, id);
        if (c) {
            timing_abandon(t, c);
            store_relaxed(&c->exits, load_relaxed(&c->enters));
        } else {
            id |= COUNTERS_PER_CHUNK - 1;
        }
    }
    t->depth = t->regions_entered = 0;
    t->timed = t->base_counters = NULL;
    leave_base(t);
}
