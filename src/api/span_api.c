/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans: open and close; and JESPAN_REGION() blocks. Arguments are checked here, at the edge. Inside, errors
 * are negative errno values. The API returns positive ones. */
#include <errno.h>
#include <stdbool.h>

#include "base/libc_calls.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "jespan/jespan.h"
#include "malloc/boot.h"
#include "malloc/region_release.h"
#include "malloc/track.h"
#include "policy/arenas.h"
#include "policy/regions.h"
#include "span/age.h"
#include "span/arena_conf.h"
#include "span/handles.h"
#include "span/labels.h"
#include "span/sampler.h"
#include "span/span.h"

/* ---- Open and close ---- */

/* Returns the number of a live context, else 0. Under LOCK_TREE. */
static uint32_t resolve(const struct thread *t, jespan_context_t context)
{
    if (!t && (context == JESPAN_CURRENT || context == JESPAN_BASE))
        return CONTEXT_ID_ROOT;
    return t ? span_context_named(t, context) : tree_is_live(context) ? context : 0;
}

/* The site whose properties the span has. If it borrows the context of an ancestor, the context has another site. NULL: no
 * memory. Under LOCK_TREE. */
static const struct site *kept_site(uint32_t context, bool borrows, const struct jespan_site *site)
{
    return unlikely(borrows) ? site_intern(site) : contexts[context].site;
}

/* Whether a span that is opened below the parent belongs to the region that the thread is in. If the region's span
 * borrows the context of an ancestor, the number of a context cannot tell. Under LOCK_TREE. */
static bool is_in_region(const struct thread *t, jespan_context_t named, uint32_t parent)
{
    if (!t || !t->region)
        return false;
    return named == JESPAN_CURRENT || (tree_whole(parent) == tree_whole(t->tag) && arenas_is_home(t->region, parent));
}

/* Under LOCK_TREE. */
static int open_locked(jespan_span_t **span, struct thread *t, const struct jespan_site *site, jespan_context_t named,
                       const struct label_set *labels)
{
    uint32_t parent = resolve(t, named);
    if (!parent)
        return EINVAL;
    bool is_inside = is_in_region(t, named, parent);
    if (parent == CONTEXT_ID_UNSAMPLED && site->arena.flags & JESPAN_ARENA_REGION)
        parent = CONTEXT_ID_ROOT; /* the region frees its memory, so the memory must have an owner */
    parent = tree_parent_in(parent); /* before the next line, which may recycle a thread's context and return its number */
    uint32_t context = tree_intern(parent, CONTEXT_SPAN, site, labels);
    bool borrows = context == parent;
    const struct site *kept = context ? kept_site(context, borrows, site) : NULL;
    if (!kept)
        return ENOMEM;
    bool wants_region = kept->arena.flags & JESPAN_ARENA_REGION;
    uint16_t region = wants_region ? regions_open(t, kept, context, borrows) : 0;
    if (wants_region && !region)
        return ENOSPC;
    *span = handle_open(context, borrows, region);
    if (!*span && region)
        regions_cancel(region, context);
    if (!*span)
        return ENOMEM;
    if (is_inside)
        store_relaxed(&handle_find(*span)->inside, arenas_place_in_time(t->region));
    tree_open_span(context, timing_now());
    uint32_t period = age_period_of(context);
    if (period != context)
        handle_set_period(handle_find(*span), period);
    return 0;
}

static int open_span(jespan_span_t **span, const struct jespan_site *site, jespan_context_t parent,
                     const struct jespan_label *labels, size_t n_labels)
{
    struct thread *t = track_thread();
    mailbox_start_if_due();
    union label_draft *draft = n_labels ? labels_draft_of(t) : NULL;
    if (!site || !site->name || !arena_is_valid(&site->arena) || (n_labels && !labels))
        return EINVAL;
    if ((n_labels && !draft) || (!t && !boot_is_done()))
        return ENOMEM;
    if (n_labels && labels_draft(draft, labels, n_labels))
        return EINVAL;
    if (unlikely(sampler_is_used()) && !(site->arena.flags & JESPAN_ARENA_REGION)) {
        if (sampler_declines(t, parent, site, labels, n_labels))
            parent = CONTEXT_ID_UNSAMPLED;
        else if (n_labels)
            labels_draft(draft, labels, n_labels); /* again: the program's sampler may have opened spans with labels */
    }
    if (unlikely(site->arena.flags & JESPAN_ARENA_REGION) && t) {
        if (!libc_calls_find())
            return ENOMEM;
        regions_tidy(t);
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

/* The handle was closed, and this was its context; 0: the handle was invalid. Under LOCK_TREE. */
static void end_span(jespan_span_t *span, uint32_t context)
{
    if (!context)
        return;
    tree_close_span(context, timing_now());
    handle_set_period(handle_at((uint32_t)(uintptr_t)span - 1), 0);
}

/* The arena of the region if closing it ends the arena's use: no other span has the arena, no thread is inside, and
 * with `counts` this is the last reference. Else 0. Under LOCK_TREE. */
static uint16_t last_region(jespan_span_t *span, bool counts)
{
    const struct open_span *record = handle_find(span);
    uint16_t region = record && !(counts && record->references > 1) ? load_relaxed(&record->region) : 0;
    return region && arenas[region].users == 1 && !arenas[region].inside ? region : 0;
}

/* Whether the region cannot be closed because of its survivors. Under LOCK_TREE. */
static COLD bool is_kept_open(struct thread *t, jespan_span_t *span, bool counts)
{
    uint16_t region = last_region(span, counts);
    return region && regions_refuses(t, region);
}

/* Closes the span by `close`, which returns its context; 0: the span stays open. */
static int close_span(jespan_span_t *span, int (*close)(jespan_span_t *, uint32_t *))
{
    uint32_t context = 0;
    lock(LOCK_TREE);
    int error = close(span, &context);
    end_span(span, context);
    unlock(LOCK_TREE);
    return -error;
}

/* The same for a region. *ends is the arena to release; 0: none. Under LOCK_TREE. */
static int close_region_locked(struct thread *t, jespan_span_t *span, int (*close)(jespan_span_t *, uint32_t *),
                               bool may_refuse, uint16_t *ends)
{
    const struct open_span *record = handle_find(span);
    uint16_t region = record ? load_relaxed(&record->region) : 0;
    uint32_t context = 0;
    if (may_refuse && is_kept_open(t, span, close == handle_unref))
        return EBUSY;
    int error = close(span, &context);
    end_span(span, context);
    *ends = region && context && regions_close(t, region, context) ? region : 0;
    return -error;
}

static COLD int close_region(jespan_span_t *span, int (*close)(jespan_span_t *, uint32_t *), bool may_refuse)
{
    struct thread *t = track_thread();
    uint16_t ends = 0;
    regions_begin();
    lock(LOCK_TREE);
    int error = close_region_locked(t, span, close, may_refuse, &ends);
    unlock(LOCK_TREE);
    if (ends)
        regions_release(t, ends);
    regions_end();
    return error;
}

static int close_all(jespan_span_t *span, uint32_t *context)
{
    *context = handle_close(span);
    return *context ? 0 : -EINVAL;
}

EXPORT int jespan_close(jespan_span_t *span)
{
    if (unlikely(span && handle_is_region(span)))
        return close_region(span, close_all, true);
    return span ? close_span(span, close_all) : 0;
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
    return unlikely(handle_is_region(span)) ? close_region(span, handle_unref, true) : close_span(span, handle_unref);
}

/* ---- JESPAN_REGION(): a span that is opened and entered, exited and closed ---- */

/* If no arena is left, opens a span without a region, which is better than none. Its site gets line 0, because equal
 * sites are interned as one. */
static jespan_span_t *open_or_plain(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, NULL, 0);
    if (span)
        return span;
    struct jespan_site plain = *site;
    plain.line = 0;
    plain.arena = (struct jespan_arena){0};
    regions_count_lost();
    return jespan_open(&plain, JESPAN_CURRENT, NULL, 0);
}

EXPORT void jespan_enter_region(struct jespan_block *block, const struct jespan_site *site)
{
    int saved = errno;
    if (!block)
        return;
    jespan_span_t *span = site ? open_or_plain(site) : NULL;
    if (span && jespan_enter(span)) {
        jespan_close(span);
        span = NULL;
    }
    if (span)
        thread_current->entries[thread_current->depth - 1].kind |= ENTRY_REGION_BLOCK;
    block->entered = (uintptr_t)span;
    errno = saved;
}

/* A block cannot refuse to end: a region with survivors is set aside. */
EXPORT void jespan_exit_region(struct jespan_block *block)
{
    jespan_span_t *span = block ? (jespan_span_t *)(uintptr_t)block->entered : NULL;
    int saved = errno;
    if (!span)
        return;
    jespan_exit(span);
    if (handle_is_region(span))
        close_region(span, close_all, false);
    else
        close_span(span, close_all);
    errno = saved;
}
