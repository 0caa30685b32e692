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

/* Under LOCK_TREE. The period in which a span was opened stays until it is closed, so that what is born since cannot be
 * taken for memory that outlived it. */
static COLD void pin_period(jespan_span_t *span, uint32_t context)
{
    uint32_t period = age_period_of(context);
    if (!period || period == context)
        return;
    handle_slot(span)->born = period;
    contexts[period].open_spans++;
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
    tree_open_span(context, timing_is_on ? clock_ticks() : 0);
    if (unlikely(age_is_on))
        pin_period(*span, context);
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
    tree_close_span(context, timing_is_on ? clock_ticks() : 0);
    uint32_t born = handle_slot_at((uint32_t)(uintptr_t)span - 1)->born;
    if (born)
        contexts[born].open_spans--;
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

HOT_INLINE bool is_entry(const struct entry *entry, enum entry_kind kind, uint64_t key)
{
    return entry->key == key && entry->kind == kind;
}

/* Counts first, looks afterwards: see tree.h. EAGAIN: the span was closed, or moved to another context, meanwhile. */
HOT_INLINE int enter_span(struct thread *t, jespan_span_t *span)
{
    struct slot *slot = handle_slot(span);
    if (unlikely(!slot))
        return EINVAL;
    uint32_t own = load_relaxed(&slot->context), context = own;
    if (unlikely(age_is_on))
        context = age_period_of(own);
    struct counters *c = span_count_enter(t, context);
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
    if (likely(t && t->depth && is_entry(&t->entries[t->depth - 1], ENTRY_SPAN, (uintptr_t)span))) {
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
    if (unlikely(age_is_on) && contexts[context].kind == CONTEXT_PERIOD)
        return contexts[context].parent;
    return context;
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

/* ---- Ownership ---- */

/* What a caller means by a number: 0 when no such context exists. Without the lock, so the next moment it may not. */
static uint32_t named_context(const struct thread *t, jespan_context_t context)
{
    if (context == JESPAN_CURRENT)
        return t->tag;
    if (context == JESPAN_ROOT)
        return t->base;
    return tree_is_live(context) ? context : 0;
}

static int retag(struct thread *t, void *p, jespan_context_t number)
{
    uint32_t context = named_context(t, number);
    if (unlikely(age_is_on))
        context = age_period_of(context);
    return context ? -track_retag(t, p, context) : EINVAL;
}

EXPORT int jespan_retag(void *p, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (!p)
        return 0;
    if (!t)
        return ENOMEM;
    if (likely(tree_lockless))
        return retag(t, p, context);
    lock(LOCK_TREE);
    int error = retag(t, p, context);
    unlock(LOCK_TREE);
    return error;
}

/* Counts first, looks afterwards: see tree.h. */
static int enter_owner(struct thread *t, uint64_t key, jespan_context_t number)
{
    uint32_t context = named_context(t, number);
    if (unlikely(age_is_on))
        context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    compiler_barrier();
    if (tree_is_live(context) && span_push(t, ENTRY_OWNER, key, context, c) == 0)
        return 0;
    span_undo_enter(c);
    return EINVAL;
}

/* ---- Scopes ---- */

static struct site_cache_line *cache_line(struct thread *t, const struct jespan_site *site)
{
    uint32_t hash = (uint32_t)((uintptr_t)site >> 3) * 2654435761u ^ t->tag * 2246822519u;
    return &t->site_cache[(hash >> 16) % SITE_CACHE_LINES];
}

/* Of JESPAN() or JESPAN_FOR(). */
static bool is_block(const struct entry *entry)
{
    return entry_kind(entry) == ENTRY_SCOPE || entry_kind(entry) == ENTRY_OWNER;
}

/* A scope at this address was left without its end (longjmp): it cannot be entered twice. */
HOT_INLINE void drop_dead_scope(struct thread *t, uint64_t key)
{
    while (t->depth && unlikely(t->entries[t->depth - 1].key == key) && is_block(&t->entries[t->depth - 1]))
        span_remove(t, t->depth - 1);
}

/* Where a plugin was, there may be another now, with another site at the same address. */
static bool is_same_site(const struct site_cache_line *line, const struct jespan_site *site)
{
    return line->line == site->line && !strcmp(line->name, site->name);
}

static bool enter_cached(struct thread *t, const struct site_cache_line *line, uint64_t key)
{
    struct counters *c = counters_find(t, line->context); /* there since the line was filled */
    own_add(&c->enters, 1);
    compiler_barrier();
    if (likely(load_relaxed(&contexts[line->context].generation) == line->generation) &&
        likely(span_push(t, ENTRY_SCOPE, key, line->context, c) == 0))
        return true;
    span_undo_enter(c);
    return false;
}

/* Under LOCK_TREE. */
static int enter_scope_locked(struct thread *t, uint64_t key, const struct jespan_site *site,
                              const struct label_set *labels)
{
    uint32_t parent = t->tag, context = tree_intern(parent, CONTEXT_SPAN, site, labels);
    if (unlikely(age_is_on))
        context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    if (span_push(t, ENTRY_SCOPE, key, context, c)) {
        span_undo_enter(c);
        return ENOMEM;
    }
    return 0;
}

static COLD int enter_scope(struct thread *t, uint64_t key, const struct jespan_site *site,
                            const struct label_set *labels)
{
    struct site_cache_line *line = labels ? NULL : cache_line(t, site),
                           fresh = {site, NULL, site->line, t->tag, 0, 0};
    lock(LOCK_TREE);
    int error = enter_scope_locked(t, key, site, labels);
    if (!error && line) {
        fresh.context = t->tag;
        fresh.generation = load_relaxed(&contexts[t->tag].generation);
        fresh.name = contexts[t->tag].site->name;
        /* At max_contexts this is an ancestor, which must not stick. */
        if (contexts[t->tag].kind == CONTEXT_SPAN && fresh.context != fresh.parent)
            *line = fresh;
    }
    unlock(LOCK_TREE);
    return error;
}

/* What is no valid pair or label is left out. */
static COLD int enter_pairs(struct thread *t, uint64_t key, const struct jespan_site *site, const char *const *pairs,
                            size_t count)
{
    union label_draft *draft = labels_draft_of(t);
    int error = 0;
    if (!draft)
        return ENOMEM;
    labels_begin(draft);
    for (size_t i = 0; i + 1 < count && error != -ENOSPC; i += 2) {
        const struct jespan_label label = JESPAN_LABEL(pairs[i], pairs[i + 1]);
        error = labels_add(draft, &label);
    }
    labels_end(draft);
    return enter_scope(t, key, site, &draft->set);
}

static COLD int enter_labels(struct thread *t, uint64_t key, const struct jespan_site *site,
                             const struct jespan_label *labels, size_t n)
{
    union label_draft *draft = labels_draft_of(t);
    int error = 0;
    if (!draft)
        return ENOMEM;
    labels_begin(draft);
    for (size_t i = 0; i < n && error != -ENOSPC; i++)
        error = labels_add(draft, &labels[i]);
    labels_end(draft);
    return enter_scope(t, key, site, &draft->set);
}

/* False: nothing can be entered. */
HOT_INLINE bool begin_scope(struct thread *t, struct jespan_scope *scope, const struct jespan_site *site)
{
    if (unlikely(!scope))
        return false;
    scope->entered = 0;
    if (unlikely(!t || !site || !site->name))
        return false;
    drop_dead_scope(t, (uintptr_t)scope);
    return true;
}

/* Whether the sampler is against this scope; then enters the context of all such. */
static COLD bool enter_unsampled(struct thread *t, struct jespan_scope *scope, const struct jespan_site *site,
                                 const struct jespan_label *labels, size_t n)
{
    if (!sampler_declines(t, JESPAN_CURRENT, site, labels, n))
        return false;
    struct counters *c = span_count_enter(t, CONTEXT_ID_UNSAMPLED);
    if (c && span_push(t, ENTRY_SCOPE, (uintptr_t)scope, CONTEXT_ID_UNSAMPLED, c))
        span_undo_enter(c);
    else
        scope->entered = c != NULL;
    return true;
}

static COLD bool enter_unsampled_pairs(struct thread *t, struct jespan_scope *scope, const struct jespan_site *site,
                                       const char *const *name_and_labels, size_t count)
{
    struct jespan_label labels[JESPAN_MAX_LABELS];
    size_t n = 0;
    for (size_t i = 1; name_and_labels && i + 1 < count && n < JESPAN_MAX_LABELS; i += 2)
        if (name_and_labels[i] && name_and_labels[i + 1])
            labels[n++] = (struct jespan_label){.key = name_and_labels[i], .value = name_and_labels[i + 1]};
    return enter_unsampled(t, scope, site, labels, n);
}

static COLD bool enter_unsampled_labels(struct thread *t, struct jespan_scope *scope, const struct jespan_site *site,
                                        const struct jespan_label *given, size_t n_given)
{
    struct jespan_label labels[JESPAN_MAX_LABELS];
    size_t n = 0;
    for (size_t i = 0; i < n_given && n < JESPAN_MAX_LABELS; i++)
        if (given[i].key && (given[i].value || given[i].type == JESPAN_INTEGER))
            labels[n++] = given[i];
    return enter_unsampled(t, scope, site, labels, n);
}

EXPORT void jespan_scope_enter(struct jespan_scope *scope, const struct jespan_site *site,
                               const char *const *name_and_labels, size_t count)
{
    struct thread *t = track_thread();
    uint64_t key = (uintptr_t)scope;
    if (unlikely(!begin_scope(t, scope, site)))
        return;
    if (unlikely(sampler_is_used()) && enter_unsampled_pairs(t, scope, site, name_and_labels, count))
        return;
    if (unlikely(count > 1 && name_and_labels)) {
        scope->entered = enter_pairs(t, key, site, name_and_labels + 1, count - 1) == 0;
        return;
    }
    const struct site_cache_line *line = cache_line(t, site);
    if (likely(tree_lockless && line->site == site && line->parent == t->tag && is_same_site(line, site)) &&
        likely(enter_cached(t, line, key)))
        scope->entered = 1;
    else
        scope->entered = enter_scope(t, key, site, NULL) == 0;
}

EXPORT void jespan_scope_enter_labels(struct jespan_scope *scope, const struct jespan_site *site,
                                      const struct jespan_label *labels, size_t n_labels)
{
    struct thread *t = track_thread();
    n_labels = labels ? n_labels : 0;
    if (!begin_scope(t, scope, site))
        return;
    if (unlikely(sampler_is_used()) && enter_unsampled_labels(t, scope, site, labels, n_labels))
        return;
    scope->entered = enter_labels(t, (uintptr_t)scope, site, labels, n_labels) == 0;
}

/* Scopes inside this one are over too, however they were left; spans entered inside and not exited stay. */
static COLD void exit_outer_scope(struct thread *t, enum entry_kind kind, uint64_t key)
{
    int64_t index = span_find(t, kind, key);
    for (int64_t i = (int64_t)t->depth - 1; index >= 0 && i >= index; i--)
        if (i == index || is_block(&t->entries[i]))
            span_remove(t, (uint32_t)i);
}

HOT_INLINE void exit_block(struct jespan_scope *scope, enum entry_kind kind)
{
    struct thread *t = thread_self;
    if (unlikely(!scope || !scope->entered || !t))
        return;
    if (likely(t->depth && is_entry(&t->entries[t->depth - 1], kind, (uintptr_t)scope)))
        span_pop(t, kind);
    else
        exit_outer_scope(t, kind, (uintptr_t)scope);
}

EXPORT void jespan_scope_exit(struct jespan_scope *scope)
{
    exit_block(scope, ENTRY_SCOPE);
}

EXPORT void jespan_owner_enter(struct jespan_scope *scope, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (unlikely(!scope))
        return;
    scope->entered = 0;
    if (unlikely(!t))
        return;
    uint64_t key = (uintptr_t)scope;
    drop_dead_scope(t, key);
    if (likely(tree_lockless)) {
        scope->entered = enter_owner(t, key, context) == 0;
        return;
    }
    lock(LOCK_TREE);
    scope->entered = enter_owner(t, key, context) == 0;
    unlock(LOCK_TREE);
}

EXPORT void jespan_owner_exit(struct jespan_scope *scope)
{
    exit_block(scope, ENTRY_OWNER);
}

/* ---- Samplers ---- */

EXPORT void jespan_set_sampler(jespan_sampler_t *decide, void *user)
{
    track_thread(); /* which reads the configuration, where nothing did before */
    sampler_set(decide, user);
}
