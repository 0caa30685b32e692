/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts: the current one, credit, limits, alerts, and samplers. */
#include <errno.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "jespan/alert.h"
#include "jespan/jespan.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "policy/limits.h"
#include "report/alert_watch.h"
#include "report/limit_events.h"
#include "span/age.h"
#include "span/sampler.h"
#include "span/span.h"

/* ---- Current and attach ---- */

EXPORT jespan_context_t jespan_current(void)
{
    struct thread *t = track_thread();
    uint32_t context = t ? t->tag : CONTEXT_ID_ROOT;
    return unlikely(age_is_on) ? tree_whole(context) : context;
}

/* The thread may have been renamed since something was attached. What was its own context then is another thread's now, or none, but it
 * is meant to go back. */
static uint32_t own_if_former(const struct thread *t, uint32_t context)
{
    bool was_own = context == t->attached_on && load_relaxed(&context_heads[context].generation) == t->attached_on_generation;
    return was_own ? tree_whole(t->base) : context;
}

static void note_own(struct thread *t)
{
    t->attached_on = tree_whole(t->base);
    t->attached_on_generation = load_relaxed(&context_heads[t->attached_on].generation);
}

/* Replaces an attachment that is innermost. Removes it if the context below it is the wanted one. Under LOCK_TREE. */
static int attach_locked(struct thread *t, jespan_context_t context)
{
    context = span_context_named(t, context);
    if (!context)
        return EINVAL;
    bool replaces = t->depth && entry_kind(&t->entries[t->depth - 1]) == ENTRY_ATTACHED;
    uint32_t below_depth = t->depth - replaces;
    if (replaces && !below_depth)
        context = own_if_former(t, context);
    else if (!below_depth)
        note_own(t);
    context = age_period_of(context);
    uint32_t below = below_depth ? t->entries[below_depth - 1].context : t->base;
    if (context != below) {
        struct counters *c = context ? span_count_enter(t, context) : NULL;
        if (!c)
            return ENOMEM;
        if (span_push(t, ENTRY_ATTACHED, 0, context, c)) {
            span_undo_enter(c);
            return ENOMEM;
        }
    }
    if (replaces)
        span_remove(t, below_depth);
    span_review(t);
    return 0;
}

EXPORT jespan_context_t jespan_attach(jespan_context_t context)
{
    struct thread *t = track_thread();
    if (!t) {
        errno = context == JESPAN_INVALID ? EINVAL : ENOMEM;
        return JESPAN_INVALID;
    }
    jespan_context_t previous = jespan_current();
    if (context == JESPAN_CURRENT)
        return previous;
    lock(LOCK_TREE);
    int error = attach_locked(t, context);
    unlock(LOCK_TREE);
    if (!error)
        return previous;
    errno = error;
    return JESPAN_INVALID;
}

/* ---- Credit ---- */

static int credit(struct thread *t, void *p, jespan_context_t number)
{
    uint32_t context = span_context_named(t, number);
    if (!context)
        return EINVAL;
    context = age_period_of(context);
    return context ? -track_credit(t, p, context) : ENOMEM;
}

EXPORT int jespan_credit(void *p, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (!p)
        return 0;
    if (!t)
        return ENOMEM;
    if (likely(tree_lockless))
        return credit(t, p, context);
    lock(LOCK_TREE);
    int error = credit(t, p, context);
    unlock(LOCK_TREE);
    return error;
}

/* ---- Limits ---- */

/* The number of the context, not of a period of it. The calling thread keeps the context in use. */
static uint32_t number_of(const struct thread *t, jespan_context_t context)
{
    return context == JESPAN_CURRENT || context == JESPAN_BASE ? tree_whole(span_context_named(t, context)) : context;
}

EXPORT int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes)
{
    int saved = errno;
    if (hard_bytes && soft_bytes > hard_bytes)
        return EINVAL;
    struct thread *t = track_thread(); /* boots jespan if nothing was allocated yet */
    if (!t)
        return ENOMEM;
    int error = limits_set(number_of(t, context), &soft_bytes, &hard_bytes);
    if (!error)
        limit_events_start(); /* if it fails, the limit holds and nothing is reported */
    errno = saved;
    return -error;
}

EXPORT int jespan_set_limit_callback(jespan_limit_callback_t *callback, void *user)
{
    int saved = errno;
    int error = track_thread() ? limit_events_set_callback(callback, user) : -ENOMEM;
    errno = saved;
    return -error;
}

/* ---- Alerts ---- */

EXPORT int jespan_set_alert_callback(jespan_alert_callback_t *callback, void *user)
{
    int saved = errno;
    int error = track_thread() ? alert_watch_set_callback(callback, user) : -ENOMEM;
    errno = saved;
    return -error;
}

/* ---- Samplers ---- */

EXPORT void jespan_set_sampler(jespan_sampler_t *decide, void *user)
{
    track_thread(); /* which reads the configuration, where nothing did before */
    sampler_set(decide, user);
}
