/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts temporary allocations. */
#include "malloc/temporary.h"

#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/pagemap.h"
#include "malloc/track.h"

_Atomic bool temporary_flushes_count;

/* The places that are in use. */
HOT_INLINE uint32_t n_places(void)
{
    return (uint32_t)conf.stacks_temporary + 1;
}

/* The place of the address; RECENT_MAX: it is not there. */
HOT_INLINE uint32_t find(const struct recent_objects *recent, const void *p)
{
    for (uint32_t i = 0; i < n_places(); i++)
        if (recent->p[i] == p)
            return i;
    return RECENT_MAX;
}

static void count(struct thread *t, uint32_t tag, uint64_t objects)
{
    struct counters *c = tag ? counters_find(t, tag & ~TAG_SURVIVOR) : NULL;
    if (!c)
        return;
    counters_add_temporary(c, objects);
    counters_moved(t, tag & ~TAG_SURVIVOR);
}

/* While the buffer is flushed, its entries are no longer those that `scanned` counts. */
HOT_INLINE void scan(struct thread *t)
{
    struct recent_objects *recent = &t->recent;
    uint32_t n = load_relaxed(&t->free_buffer_count), i = recent->scanned;
    if (unlikely(load_relaxed(&t->free_buffer_sequence) & 1))
        return;
    for (i = i > n ? 0 : i; i < n; i++) {
        uint32_t place = find(recent, load_relaxed(&t->free_buffer_object[i]));
        if (place == RECENT_MAX)
            continue;
        recent->p[place] = NULL;
        count(t, free_buffer_tag(t, i), 1);
    }
    recent->scanned = n;
}

static COLD void let_flushes_count(void)
{
    store_relaxed(&temporary_flushes_count, true);
    track_let_flush(FLUSH_TEMPORARY, true);
}

void temporary_count(struct thread *t, const void *p, uint32_t stack)
{
    if (unlikely(!load_relaxed(&temporary_flushes_count)))
        let_flushes_count();
    scan(t);
    struct recent_objects *recent = &t->recent;
    recent->p[recent->next] = stack ? p : NULL;
    recent->next = recent->next + 1 < n_places() ? recent->next + 1 : 0;
}

void temporary_before_flush(struct thread *t)
{
    if (conf.stacks_temporary || temporary_was_freed(t, load_relaxed(&t->free_buffer_count)))
        scan(t);
    t->recent.scanned = 0;
}

void temporary_free(struct thread *t, const void *p, uint32_t tag)
{
    uint32_t place = find(&t->recent, p);
    if (place == RECENT_MAX)
        return;
    t->recent.p[place] = NULL;
    count(t, tag, 1);
}

/* Counts before the object is gone, since its context may be recycled then. A failure takes that back, but the object is
 * no longer a recent one. */
uint32_t temporary_begin_resize(struct thread *t, const void *p)
{
    uint32_t tag = find(&t->recent, p) == RECENT_MAX ? 0 : track_context(p);
    if (tag)
        temporary_free(t, p, tag);
    return tag;
}

void temporary_end_resize(struct thread *t, uint32_t tag, const void *resized, uint32_t stack)
{
    if (unlikely(!resized))
        count(t, tag, (uint64_t)-1);
    temporary_after_alloc(t, resized, stack);
}
