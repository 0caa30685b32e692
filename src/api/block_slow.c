/* SPDX-License-Identifier: BSD-2-Clause */
/* JESPAN() blocks, where something is in the way of the fast paths in block_api.c; and those with labels of any type.
 *
 * A cache of the thread leads from the current context and a site to the child context. If the cache has no entry, the thread
 * asks the tree. */
#include "api/block_slow.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "base/mailbox.h"
#include "base/meta.h"
#include "malloc/track.h"
#include "span/age.h"
#include "span/label_cache.h"
#include "span/labels.h"
#include "span/sampler.h"

/* ---- JESPAN(): the way from a site to a context ---- */

/* As block_line(), in a second cache for contexts with an allocation policy. So a context from the first cache has none. NULL:
 * the thread has no second cache yet, or with `makes`, there is no memory for it. */
static struct site_cache_line *policy_line(struct thread *t, uint32_t hash, bool makes)
{
    if (!t->policy_sites && makes)
        t->policy_sites = meta_alloc(SITE_CACHE_LINES * sizeof(struct site_cache_line));
    return t->policy_sites ? &t->policy_sites[hash % SITE_CACHE_LINES] : NULL;
}

/* The same for a site that has a NULL text, or a text that was cut. */
static COLD bool is_same_odd_site(const struct site *kept, const struct jespan_site *site)
{
    return kept->line == site->line && sites_is_kept_as(kept->name, site->name) &&
           sites_is_kept_as(kept->target, site->target) && sites_is_kept_as(kept->file, site->file);
}

/* Whether the site that the line was made for still has the same contents. */
HOT_INLINE bool is_same_site(const struct site_cache_line *line, const struct jespan_site *site)
{
    return likely(line->is_constant) || sites_is_whole_copy(line->kept, site) || is_same_odd_site(line->kept, site);
}

HOT_INLINE bool enter_cached(struct thread *t, const struct site_cache_line *line, uint64_t key, uint64_t now)
{
    struct counters *c = counters_find(t, line->context); /* made when the line was filled */
    own_add(&c->enters, 1);
    counters_moved(t, line->context);
    compiler_barrier();
    if (likely(load_relaxed(&context_heads[line->context].generation) == line->generation) &&
        likely(span_push_at(t, ENTRY_BLOCK, key, line->context, c, now) == 0))
        return true;
    span_undo_enter(c);
    return false;
}

/* The clock is read before the texts are compared: nothing waits for the result, but a reading would wait until they are
 * compared. See timing_switch_at(). */
HOT_INLINE bool enter_by_line(struct thread *t, const struct site_cache_line *line, const struct jespan_site *site,
                              uint64_t key)
{
    if (unlikely(!line_fits(t, line, site)))
        return false;
    uint64_t now = timing_now();
    return likely(is_same_site(line, site)) && likely(enter_cached(t, line, key, now));
}

/* Under LOCK_TREE. */
static int enter_block_locked(struct thread *t, uint64_t key, const struct jespan_site *site,
                              const struct label_set *labels)
{
    uint32_t parent = t->tag, context = tree_intern(parent, CONTEXT_SPAN, site, labels);
    context = age_period_of(context);
    struct counters *c = context ? span_count_enter(t, context) : NULL;
    if (!c)
        return ENOMEM;
    counters_use_more(c); /* stays in use, so enter_cached() need not ask */
    if (span_push(t, ENTRY_BLOCK, key, context, c)) {
        span_undo_enter(c);
        return ENOMEM;
    }
    if (tree_whole(context) == tree_parent_in(parent))
        t->entries[t->depth - 1].kind |= ENTRY_BORROWS;
    return 0;
}

/* The line that leads from `parent` to the current context, where nothing keeps it from being valid. Under LOCK_TREE. */
static bool line_to_current(struct site_cache_line *line, const struct thread *t, const struct jespan_site *site,
                            uint32_t parent)
{
    const struct context *c = &contexts[t->tag];
    *line = (struct site_cache_line){.site = site, .kept = c->site, .parent = parent, .context = t->tag,
                                     .generation = load_relaxed(&context_heads[t->tag].generation),
                                     .is_constant = sites_is_constant(site)};
    /* At max_contexts this is an ancestor, which must not stick. */
    return c->kind == CONTEXT_SPAN && t->tag != parent;
}

/* Enters the context if it is there already, without the lock, and writes the way to it. `labels` is a draft that has ended; NULL: none. */
static bool enter_found(struct thread *t, uint64_t key, const struct jespan_site *site, const struct label_set *labels,
                        struct site_cache_line *way)
{
    *way = (struct site_cache_line){.site = site, .kept = site_find(site), .parent = t->tag, .is_constant = true};
    way->context = way->kept ? tree_find(t->tag, way->kept, labels, &way->generation) : 0;
    struct counters *c = way->context ? counters_get(t, way->context) : NULL;
    if (!c)
        return false;
    counters_use_more(c);
    if (!enter_cached(t, way, key, timing_now()))
        return false;
    if (tree_has_policy(t->tag))
        span_review_innermost(t);
    return true;
}

/* Keeps the way to the current context. `hash` is that of block_hash() where the way begins. */
static void keep_way(struct thread *t, uint32_t hash, const struct site_cache_line *way)
{
    struct site_cache_line *line = tree_has_policy(t->tag) ? policy_line(t, hash, true) : &t->site_cache[hash % SITE_CACHE_LINES];
    if (line)
        *line = *way;
}

static COLD int enter_block(struct thread *t, uint64_t key, const struct jespan_site *site)
{
    mailbox_start_if_due();
    uint32_t parent = t->tag, hash = block_hash(t, site);
    struct site_cache_line way;
    if (enter_found(t, key, site, NULL, &way)) {
        keep_way(t, hash, &way);
        return 0;
    }
    lock(LOCK_TREE);
    int error = enter_block_locked(t, key, site, NULL);
    if (!error && line_to_current(&way, t, site, parent))
        keep_way(t, hash, &way);
    if (!error)
        span_review_innermost(t);
    unlock(LOCK_TREE);
    return error;
}

static NOINLINE int enter_block_uncached(struct thread *t, uint64_t key, const struct jespan_site *site)
{
    const struct site_cache_line *line = policy_line(t, block_hash(t, site), false);
    if (!line || !enter_by_line(t, line, site, key))
        return enter_block(t, key, site);
    span_review_innermost(t);
    return 0;
}

/* ---- JESPAN(): blocks ---- */

/* Leaves invalid labels out. */
static void compose(union label_draft *draft, const struct labels_given *given)
{
    int error = 0;
    labels_begin(draft);
    for (size_t i = 0; i < given->n && error != -ENOSPC; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        error = labels_add(draft, &label);
    }
}

static void keep_in_line(struct thread *t, struct label_cache_line *line, const struct site_cache_line *way,
                         const struct labels_given *given)
{
    line->way.site = NULL;
    if (label_cache_keep(t, line, given))
        line->way = *way;
    line->has_policy = tree_has_policy(t->tag);
}

static COLD int enter_new_labels(struct thread *t, uint64_t key, const struct jespan_site *site,
                                 const struct labels_given *given, uint32_t hash, bool is_cached)
{
    mailbox_start_if_due();
    struct label_cache_line *line = is_cached ? label_cache_line(t, hash, true) : NULL;
    union label_draft *draft = labels_draft_of(t);
    uint32_t parent = t->tag;
    struct site_cache_line way;
    if (!draft)
        return ENOMEM;
    compose(draft, given);
    if (enter_found(t, key, site, &draft->set, &way)) {
        if (line)
            keep_in_line(t, line, &way, given);
        return 0;
    }
    lock(LOCK_TREE);
    int error = enter_block_locked(t, key, site, &draft->set);
    if (!error && line && line_to_current(&way, t, site, parent))
        keep_in_line(t, line, &way, given);
    if (!error)
        span_review_innermost(t);
    unlock(LOCK_TREE);
    return error;
}

static bool enter_by_label_line(struct thread *t, const struct label_cache_line *line, const struct jespan_site *site,
                                const struct labels_given *given, uint64_t key)
{
    if (!line_fits(t, &line->way, site) || !is_same_site(&line->way, site) || !label_cache_has(line, given) ||
        !enter_cached(t, &line->way, key, timing_now()))
        return false;
    if (unlikely(line->has_policy))
        span_review_innermost(t);
    return true;
}

/* Finds the line by the contents of the labels, and guesses it the next time. */
static NOINLINE int enter_labelled_by_hash(struct thread *t, uint64_t key, const struct jespan_site *site,
                                           struct labels_given labels)
{
    const struct labels_given *given = &labels;
    uint32_t hash = block_hash(t, site);
    bool is_cached = label_cache_hash(&hash, given);
    struct label_cache_line *line = is_cached ? label_cache_line(t, hash, false) : NULL;
    struct label_guess *guess = line ? label_cache_guess(t, site, *given) : NULL;
    if (!line || !enter_by_label_line(t, line, site, given, key))
        return enter_new_labels(t, key, site, given, hash, is_cached);
    label_guess_keep(t->label_cache, guess, line, given);
    return 0;
}

HOT_INLINE int enter_labelled(struct thread *t, uint64_t key, const struct jespan_site *site, struct labels_given given)
{
    struct label_guess *guess = likely(t->label_cache) ? label_cache_guess(t, site, given) : NULL;
    if (unlikely(!guess || !line_fits(t, &guess->way, site)))
        return enter_labelled_by_hash(t, key, site, given);
    uint64_t now = timing_now(); /* as in enter_by_line() */
    if (unlikely(!label_guess_is_right(guess, given) || !enter_cached(t, &guess->way, key, now))) {
        label_guess_was_wrong(guess);
        return enter_labelled_by_hash(t, key, site, given);
    }
    if (unlikely(guess->has_policy))
        span_review_innermost(t);
    return 0;
}

/* False: the block cannot be entered. */
HOT_INLINE bool begin_block(struct thread *t, struct jespan_block *block, const struct jespan_site *site)
{
    if (unlikely(!block))
        return false;
    block->entered = 0;
    if (unlikely(!t || !site || !site->name))
        return false;
    span_drop_dead(t, (uintptr_t)block);
    return true;
}

/* Asks the sampler. If it declines the block, enters the context of all unsampled spans and returns true. */
static COLD bool enter_unsampled(struct thread *t, struct jespan_block *block, const struct jespan_site *site,
                                 struct labels_given given)
{
    struct jespan_label labels[JESPAN_MAX_LABELS];
    size_t n = 0;
    for (; n < given.n && n < JESPAN_MAX_LABELS; n++)
        labels[n] = labels_given_at(&given, n);
    if (!sampler_declines(t, JESPAN_CURRENT, site, labels, n))
        return false;
    struct counters *c = span_count_enter(t, CONTEXT_ID_UNSAMPLED);
    if (c)
        counters_use_more(c);
    if (c && span_push(t, ENTRY_BLOCK, (uintptr_t)block, CONTEXT_ID_UNSAMPLED, c))
        span_undo_enter(c);
    else
        block->entered = c != NULL;
    return true;
}

NOINLINE void block_enter_slowly(struct jespan_block *block, const struct jespan_site *site,
                                        const char *const *name_and_labels, size_t count)
{
    struct thread *t = track_thread();
    uint64_t key = (uintptr_t)block;
    if (unlikely(!begin_block(t, block, site)))
        return;
    const struct labels_given given = {name_and_labels + 1, NULL, name_and_labels && count ? (count - 1) / 2 : 0};
    if (unlikely(sampler_is_used()) && enter_unsampled(t, block, site, given))
        return;
    if (count > 1 && name_and_labels)
        block->entered = enter_labelled(t, key, site, given) == 0;
    else
        block->entered = enter_by_line(t, block_line(t, site), site, key) || enter_block_uncached(t, key, site) == 0;
}

EXPORT void jespan_enter_block_labels(struct jespan_block *block, const struct jespan_site *site,
                                      const struct jespan_label *labels, size_t n_labels)
{
    struct thread *t = track_thread();
    const struct labels_given given = {NULL, labels, labels ? n_labels : 0};
    if (!begin_block(t, block, site))
        return;
    if (unlikely(sampler_is_used()) && enter_unsampled(t, block, site, given))
        return;
    block->entered = enter_labelled(t, (uintptr_t)block, site, given) == 0;
}
