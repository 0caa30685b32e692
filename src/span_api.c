/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API: arguments checked here, at the edge; errors become errno's conventions. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "age.h"
#include "handles.h"
#include "jespan/jespan.h"
#include "labels.h"
#include "lock.h"
#include "sampler.h"
#include "span.h"
#include "track.h"

/* ---- Open and close ---- */

/* Under LOCK_TREE. The id of a live context, else 0. */
static uint32_t resolve(const struct thread *t, jespan_context_t context)
{
    if (context == JESPAN_CURRENT)
        return t ? t->tag : CONTEXT_ID_ROOT;
    return tree_is_live(context) ? context : 0;
}

/* Under LOCK_TREE. */
static int open_locked(jespan_span_t **span, const struct thread *t, const struct jespan_site *site, uint32_t parent,
                       const struct label_set *labels)
{
    parent = resolve(t, parent);
    if (!parent)
        return EINVAL;
    uint32_t context = tree_intern(parent, CONTEXT_SPAN, site, labels);
    *span = context ? handle_open(context, context == tree_parent_in(parent)) : NULL;
    if (!*span)
        return ENOMEM;
    tree_open_span(context, timing_now());
    uint32_t period = age_period_of(context);
    if (period != context)
        handle_set_period(handle_slot(*span), period);
    return 0;
}

static int open_span(jespan_span_t **span, const struct jespan_site *site, jespan_context_t parent,
                     const struct jespan_label *labels, size_t n_labels)
{
    struct thread *t = track_thread();
    union label_draft *draft = n_labels ? labels_draft_of(t) : NULL;
    if (!site || !site->name || (n_labels && !labels))
        return EINVAL;
    if (n_labels && !draft)
        return ENOMEM;
    if (n_labels && labels_draft(draft, labels, n_labels))
        return EINVAL;
    if (unlikely(sampler_is_used())) {
        if (sampler_declines(t, parent, site, labels, n_labels))
            parent = CONTEXT_ID_UNSAMPLED;
        else if (n_labels)
            labels_draft(draft, labels, n_labels); /* again: the program's sampler may have opened spans with labels */
    }
    lock(LOCK_TREE);
    int error = open_locked(span, t, site, parent, n_labels ? &draft->set : NULL);
    unlock(LOCK_TREE);
    return error;
}

EXPORT jespan_span_t *jespan_open(const struct jespan_site *site, jespan_context_t parent,
                                  const struct jespan_label *labels, size_t n_labels)
{
    jespan_span_t *span = NULL;
    int error = open_span(&span, site, parent, labels, n_labels);
    if (error)
        errno = error;
    return span;
}

/* Under LOCK_TREE, when the handle was closed. 0: it was none. */
static void end_span(jespan_span_t *span, uint32_t context)
{
    if (!context)
        return;
    tree_close_span(context, timing_now());
    handle_set_period(handle_slot_at((uint32_t)(uintptr_t)span - 1), 0);
}

EXPORT int jespan_close(jespan_span_t *span)
{
    if (!span)
        return 0;
    lock(LOCK_TREE);
    uint32_t context = handle_close(span);
    end_span(span, context);
    unlock(LOCK_TREE);
    return context ? 0 : EINVAL;
}

EXPORT int jespan_ref(jespan_span_t *span)
{
    lock(LOCK_TREE);
    int error = handle_ref(span);
    unlock(LOCK_TREE);
    return -error;
}

EXPORT int jespan_unref(jespan_span_t *span)
{
    uint32_t context = 0;
    lock(LOCK_TREE);
    int error = handle_unref(span, &context);
    end_span(span, context);
    unlock(LOCK_TREE);
    return -error;
}

/* ---- Enter and exit ---- */

/* Counts first, looks afterwards: see tree.h. EAGAIN: the span was closed, or moved to another context, meanwhile. */
HOT_INLINE int enter_span(struct thread *t, jespan_span_t *span)
{
    struct slot *slot = handle_slot(span);
    if (unlikely(!slot))
        return EINVAL;
    uint32_t own = load_relaxed(&slot->context), context = age_period_of(own);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (unlikely(!c))
        return ENOMEM;
    compiler_barrier();
    bool stands = handle_is_open(slot, span) && load_relaxed(&slot->context) == own;
    int error = likely(stands) ? span_push(t, ENTRY_SPAN, (uintptr_t)span, context, c) : -EAGAIN;
    if (unlikely(error))
        span_undo_enter(c);
    return -error;
}

static COLD int enter_span_locked(struct thread *t, jespan_span_t *span)
{
    lock(LOCK_TREE);
    int error = enter_span(t, span);
    unlock(LOCK_TREE);
    return error;
}

EXPORT int jespan_enter(jespan_span_t *span)
{
    struct thread *t = track_thread();
    if (!t)
        return handle_context(span) ? ENOMEM : EINVAL;
    int error = likely(tree_lockless) ? enter_span(t, span) : EAGAIN;
    return unlikely(error == EAGAIN) ? enter_span_locked(t, span) : error;
}

static COLD int exit_outer(struct thread *t, jespan_span_t *span)
{
    int64_t index = t ? span_find(t, ENTRY_SPAN, (uintptr_t)span) : -1;
    if (index < 0)
        return handle_context(span) ? EPERM : EINVAL;
    span_remove(t, (uint32_t)index);
    return 0;
}

EXPORT int jespan_exit(jespan_span_t *span)
{
    struct thread *t = track_thread();
    if (likely(t && span_is_innermost(t, ENTRY_SPAN, (uintptr_t)span))) {
        span_pop(t, ENTRY_SPAN);
        return 0;
    }
    return exit_outer(t, span);
}

/* ---- Current and attach ---- */

EXPORT jespan_context_t jespan_current(void)
{
    struct thread *t = track_thread();
    uint32_t context = t ? t->tag : CONTEXT_ID_ROOT;
    return unlikely(age_is_on) ? tree_whole(context) : context;
}

/* Under LOCK_TREE. An attachment on top is replaced; one that shows what is below it anyway is taken away. */
static int attach_locked(struct thread *t, jespan_context_t context)
{
    if (context == JESPAN_ROOT)
        context = t->base;
    if (!tree_is_live(context))
        return EINVAL;
    context = age_period_of(context);
    bool replaces = t->depth && entry_kind(&t->entries[t->depth - 1]) == ENTRY_ATTACHED;
    uint32_t below_depth = t->depth - replaces;
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

/* ---- Samplers ---- */

EXPORT void jespan_set_sampler(jespan_sampler_t *decide, void *user)
{
    track_thread(); /* which reads the configuration, where nothing did before */
    sampler_set(decide, user);
}
