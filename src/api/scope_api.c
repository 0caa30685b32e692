/* SPDX-License-Identifier: BSD-2-Clause */
/* JESPAN() blocks: a cache leads from where a thread is and a site to the context; the tree is asked for the rest. */
#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "base/lock.h"
#include "base/meta.h"
#include "malloc/track.h"
#include "span/age.h"
#include "span/labels.h"
#include "span/sampler.h"

static uint32_t cache_hash(const struct thread *t, const struct jespan_site *site)
{
    return ((uint32_t)((uintptr_t)site >> 3) * 2654435761u ^ t->tag * 2246822519u) >> 16;
}

static struct site_cache_line *cache_line(struct thread *t, const struct jespan_site *site)
{
    return &t->site_cache[cache_hash(t, site) % SITE_CACHE_LINES];
}

/* The same for contexts with an allocation policy, apart, so that who finds one in the first cache need not ask. NULL: there is none, for
 * want of memory where `makes`. */
static struct site_cache_line *policy_line(struct thread *t, uint32_t hash, bool makes)
{
    if (!t->policy_sites && makes)
        t->policy_sites = meta_alloc(SITE_CACHE_LINES * sizeof(struct site_cache_line));
    return t->policy_sites ? &t->policy_sites[hash % SITE_CACHE_LINES] : NULL;
}

HOT_INLINE bool is_same_text(const char *kept, const char *text)
{
    return *kept == *text && (!*text || likely(!strcmp(kept, text)));
}

/* One of its texts is NULL, or may have been cut. */
static COLD bool is_same_odd_site(const struct site *kept, const struct jespan_site *site)
{
    return kept->line == site->line && sites_is_kept_as(kept->name, site->name) &&
           sites_is_kept_as(kept->target, site->target) && sites_is_kept_as(kept->file, site->file);
}

/* Where a plugin was, there may be another now, with another site at the same address; made from the same template, it has the
 * same line and name. */
HOT_INLINE bool is_same_site(const struct site *kept, const struct jespan_site *site)
{
    return (likely(site->target && site->file) && likely(kept->line == site->line) && is_same_text(kept->name, site->name) &&
            is_same_text(kept->target, site->target) && is_same_text(kept->file, site->file)) ||
           is_same_odd_site(kept, site);
}

HOT_INLINE bool enter_cached(struct thread *t, const struct site_cache_line *line, uint64_t key)
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

HOT_INLINE bool line_fits(const struct thread *t, const struct site_cache_line *line, const struct jespan_site *site)
{
    return tree_lockless && line->site == site && line->parent == t->tag && is_same_site(line->kept, site);
}

/* Under LOCK_TREE. */
static int enter_scope_locked(struct thread *t, uint64_t key, const struct jespan_site *site,
                              const struct label_set *labels)
{
    uint32_t parent = t->tag, context = tree_intern(parent, CONTEXT_SPAN, site, labels);
    context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    counters_use_more(c); /* for good: so a cached one has it in use */
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
                           fresh = {.site = site, .parent = t->tag};
    uint32_t hash = cache_hash(t, site);
    lock(LOCK_TREE);
    int error = enter_scope_locked(t, key, site, labels);
    if (line && tree_has_policy(t->tag))
        line = policy_line(t, hash, true);
    if (!error && line) {
        fresh.context = t->tag;
        fresh.generation = load_relaxed(&contexts[t->tag].generation);
        fresh.kept = contexts[t->tag].site;
        /* At max_contexts this is an ancestor, which must not stick. */
        if (contexts[t->tag].kind == CONTEXT_SPAN && fresh.context != fresh.parent)
            *line = fresh;
    }
    if (!error)
        span_review_innermost(t);
    unlock(LOCK_TREE);
    return error;
}

static NOINLINE int enter_scope_uncached(struct thread *t, uint64_t key, const struct jespan_site *site)
{
    const struct site_cache_line *line = policy_line(t, cache_hash(t, site), false);
    if (!line || !line_fits(t, line, site) || !enter_cached(t, line, key))
        return enter_scope(t, key, site, NULL);
    span_review_innermost(t);
    return 0;
}

/* What a caller gives: pairs of strings, or labels. */
struct given {
    const char *const *pairs;
    const struct jespan_label *labels; /* NULL: pairs */
    size_t n;
};

static struct jespan_label label_given(const struct given *given, size_t i)
{
    if (given->labels)
        return given->labels[i];
    return (struct jespan_label)JESPAN_LABEL(given->pairs[2 * i], given->pairs[2 * i + 1]);
}

/* What is no valid label is left out. */
static COLD int enter_labelled(struct thread *t, uint64_t key, const struct jespan_site *site, const struct given *given)
{
    union label_draft *draft = labels_draft_of(t);
    int error = 0;
    if (!draft)
        return ENOMEM;
    labels_begin(draft);
    for (size_t i = 0; i < given->n && error != -ENOSPC; i++) {
        const struct jespan_label label = label_given(given, i);
        error = labels_add(draft, &label);
    }
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
    block_drop_dead(t, (uintptr_t)scope);
    return true;
}

/* Whether the sampler is against this scope; then enters the context of all such. */
static COLD bool enter_unsampled(struct thread *t, struct jespan_scope *scope, const struct jespan_site *site,
                                 const struct given *given)
{
    struct jespan_label labels[JESPAN_MAX_LABELS];
    size_t n = 0;
    for (size_t i = 0; i < given->n && n < JESPAN_MAX_LABELS; i++) {
        labels[n] = label_given(given, i);
        n += labels_is_valid(&labels[n]);
    }
    if (!sampler_declines(t, JESPAN_CURRENT, site, labels, n))
        return false;
    struct counters *c = span_count_enter(t, CONTEXT_ID_UNSAMPLED);
    if (c)
        counters_use_more(c);
    if (c && span_push(t, ENTRY_SCOPE, (uintptr_t)scope, CONTEXT_ID_UNSAMPLED, c))
        span_undo_enter(c);
    else
        scope->entered = c != NULL;
    return true;
}

EXPORT void jespan_scope_enter(struct jespan_scope *scope, const struct jespan_site *site,
                               const char *const *name_and_labels, size_t count)
{
    struct thread *t = track_thread();
    uint64_t key = (uintptr_t)scope;
    if (unlikely(!begin_scope(t, scope, site)))
        return;
    const struct given given = {name_and_labels + 1, NULL, name_and_labels && count ? (count - 1) / 2 : 0};
    if (unlikely(sampler_is_used()) && enter_unsampled(t, scope, site, &given))
        return;
    if (unlikely(count > 1 && name_and_labels)) {
        scope->entered = enter_labelled(t, key, site, &given) == 0;
        return;
    }
    const struct site_cache_line *line = cache_line(t, site);
    if (likely(line_fits(t, line, site)) && likely(enter_cached(t, line, key)))
        scope->entered = 1;
    else
        scope->entered = enter_scope_uncached(t, key, site) == 0;
}

EXPORT void jespan_scope_enter_labels(struct jespan_scope *scope, const struct jespan_site *site,
                                      const struct jespan_label *labels, size_t n_labels)
{
    struct thread *t = track_thread();
    const struct given given = {NULL, labels, labels ? n_labels : 0};
    if (!begin_scope(t, scope, site))
        return;
    if (unlikely(sampler_is_used()) && enter_unsampled(t, scope, site, &given))
        return;
    scope->entered = enter_labelled(t, (uintptr_t)scope, site, &given) == 0;
}

EXPORT void jespan_scope_exit(struct jespan_scope *scope)
{
    block_exit(scope, ENTRY_SCOPE);
}
