/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans: enter and exit. */
#include <errno.h>
#include <stdbool.h>

#include "base/libc_calls.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "malloc/region_release.h"
#include "malloc/track.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/regions.h"
#include "span/age.h"
#include "span/handles.h"
#include "span/span.h"

/* Counts the enter before it checks the span, so that the context is not recycled meanwhile: tree.h. EAGAIN: the span
 * was closed, or moved to another context, meanwhile. */
static int enter_span(struct thread *t, jespan_span_t *span)
{
    struct open_span *record = handle_find(span);
    if (!record)
        return EINVAL;
    uint32_t own = load_relaxed(&record->context), context = age_period_of(own);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    compiler_barrier();
    bool stands = handle_is_open(record, span) && load_relaxed(&record->context) == own;
    int error = stands ? span_push(t, ENTRY_SPAN, (uintptr_t)span, context, c) : -EAGAIN;
    if (error)
        span_undo_enter(c);
    return -error;
}

/* LOCK_TREE keeps others from closing the span meanwhile. */
static COLD int enter_span_locked(struct thread *t, jespan_span_t *span)
{
    lock(LOCK_TREE);
    int error = enter_span(t, span);
    uint16_t region = error ? 0 : load_relaxed(&handle_find(span)->region);
    if (region) {
        t->entries[t->depth - 1].kind |= (unsigned)region << ENTRY_REGION_SHIFT;
        t->regions_entered++;
        regions_enter(t, region);
    }
    unlock(LOCK_TREE);
    return error;
}

/* The span is innermost. It belongs to the region that the thread is in if it was opened inside that region. */
static void note_where_it_was_opened(struct thread *t, jespan_span_t *span, uint64_t here)
{
    struct entry *e = &t->entries[t->depth - 1];
    const struct open_span *record = handle_at((uint32_t)(uintptr_t)span - 1);
    if (!entry_region(e) && load_relaxed(&record->inside) == here)
        e->kind |= ENTRY_INSIDE | (unsigned)(uint16_t)here << ENTRY_REGION_SHIFT;
}

/* What tells libc's calls from others looks at them in a region only. So jespan allocates as in the region meanwhile, in a context of
 * its own: the calls count neither for the region's context nor for its limits. If the thread was reviewed on the way, it may have
 * left the region, and the next enter tries again. */
static COLD void learn_libc_calls(struct thread *t)
{
    uint16_t region = t->region;
    if (span_enter_self(t))
        return;
    t->region = region;
    thread_fast_set(NULL, NULL, false, false);
    libc_calls_learn();
    libc_calls_are_learned(t->region == region);
    span_leave_self(t);
}

/* Enters a span with an allocation policy, a region, or a span that the fast way could not enter. */
static NOINLINE int enter_span_slow(struct thread *t, jespan_span_t *span)
{
    uint64_t here = arenas_place_in_time(t->region);
    int error = likely(tree_lockless && !handle_is_region(span)) ? enter_span(t, span) : EAGAIN;
    if (unlikely(error == EAGAIN))
        error = enter_span_locked(t, span);
    if (!error && unlikely(here))
        note_where_it_was_opened(t, span, here);
    if (!error)
        span_review_innermost(t);
    if (t->region && unlikely(!libc_calls_know()))
        learn_libc_calls(t);
    return error;
}

static NOINLINE int enter_span_by_policy(jespan_span_t *span)
{
    struct thread *t = track_thread();
    if (!t)
        return handle_context(span) ? ENOMEM : EINVAL;
    return enter_span_slow(t, span);
}

/* How the fast paths read the time: each has a copy of them. So those for the processor's counter and for no time at all call
 * other functions last, if at all, and keep no registers for their callers. */
enum time_read { TIME_RAW, TIME_NONE, TIME_OTHER };

HOT_INLINE uint64_t read_time(enum time_read how)
{
    return how == TIME_RAW ? clock_raw() : how == TIME_NONE ? 0 : timing_now();
}

/* Time passes for `to` from `now` on, and the exit from `left` is counted (NULL: none). Returns 0. */
HOT_INLINE int switch_fast(struct thread *t, struct counters *to, uint64_t now, struct counters *left, enum time_read how)
{
    if (how == TIME_OTHER || (how == TIME_RAW && unlikely(!cpu_clock_stands(&t->cpu))))
        return span_switch_slowly(t, to, now, left);
    if (how == TIME_RAW)
        timing_pass(t, to, now);
    if (left)
        span_count_exit(left);
    return 0;
}

/* As enter_span(), where nothing is in the way. The clock is read in the middle: timing_switch_at() says why. */
HOT_INLINE int enter_fast(struct thread *t, jespan_span_t *span, enum time_read how)
{
    struct open_span *record = handle_at((uint32_t)(uintptr_t)span - 1);
    if (unlikely(!tree_lockless || !record || !handle_is_free(record, span)))
        return enter_span_slow(t, span);
    uint32_t context = load_relaxed(&record->context); /* there are no periods */
    uint64_t now = read_time(how);
    struct counters *c = counters_find(t, context);
    if (unlikely(!c || !span_has_room(t)))
        return enter_span_slow(t, span);
    own_add(&c->enters, 1);
    counters_moved(t, context);
    compiler_barrier();
    if (unlikely(!handle_is_free(record, span) || load_relaxed(&record->context) != context)) {
        span_undo_enter(c);
        return enter_span_slow(t, span);
    }
    span_put(t, ENTRY_SPAN, (uintptr_t)span, context, c);
    return switch_fast(t, c, now, NULL, how);
}

static NOINLINE int enter_timed_otherwise(struct thread *t, jespan_span_t *span)
{
    return enter_fast(t, span, TIME_OTHER);
}

static NOINLINE int enter_untimed(struct thread *t, jespan_span_t *span)
{
    return timing_is_on ? enter_timed_otherwise(t, span) : enter_fast(t, span, TIME_NONE);
}

EXPORT int jespan_enter(jespan_span_t *span)
{
    struct thread *t = load_relaxed(&thread_fast.other);
    if (unlikely(!t))
        return enter_span_by_policy(span);
    return likely(timing_is_raw) ? enter_fast(t, span, TIME_RAW) : enter_untimed(t, span);
}

static void leave_region(struct thread *t, uint16_t region)
{
    regions_begin();
    lock(LOCK_TREE);
    bool ends = regions_leave(t, region);
    unlock(LOCK_TREE);
    if (ends)
        regions_release(t, region);
    regions_end();
}

/* For a span that is not innermost, or a thread that has entered something with an allocation policy. */
static NOINLINE int exit_slow(jespan_span_t *span)
{
    struct thread *t = track_thread();
    int64_t index = t ? span_find(t, ENTRY_SPAN, (uintptr_t)span) : -1;
    if (index < 0)
        return handle_context(span) ? EPERM : EINVAL;
    uint16_t region = entry_region(&t->entries[index]);
    span_remove_left(t, (uint32_t)index, span_end_of_caller(), LEFT_STACK_BYTES);
    span_remove(t, (uint32_t)index);
    if (!load_relaxed(&thread_fast.other)) /* else nothing entered has an allocation policy, before and now */
        span_review(t);
    if (region)
        leave_region(t, region);
    return 0;
}

HOT_INLINE int exit_fast(struct thread *t, jespan_span_t *span, enum time_read how)
{
    if (unlikely(!t->depth))
        return exit_slow(span);
    const struct entry *e = &t->entries[t->depth - 1];
    uint64_t now = read_time(how);
    if (unlikely(!span_is_entry(e, ENTRY_SPAN, (uintptr_t)span)))
        return exit_slow(span);
    struct counters *timed, *left = span_take(t, &timed);
    return switch_fast(t, timed, now, left, how);
}

static NOINLINE int exit_timed_otherwise(struct thread *t, jespan_span_t *span)
{
    return exit_fast(t, span, TIME_OTHER);
}

static NOINLINE int exit_untimed(struct thread *t, jespan_span_t *span)
{
    return timing_is_on ? exit_timed_otherwise(t, span) : exit_fast(t, span, TIME_NONE);
}

EXPORT int jespan_exit(jespan_span_t *span)
{
    struct thread *t = load_relaxed(&thread_fast.other);
    if (unlikely(!t))
        return exit_slow(span);
    return likely(timing_is_raw) ? exit_fast(t, span, TIME_RAW) : exit_untimed(t, span);
}
