/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API: labels that are added to an open span, which thereby moves to another context. */
#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "policy/regions.h"
#include "span/age.h"
#include "span/handles.h"
#include "span/labels.h"
#include "span/span.h"
#include "span/tree.h"

/* What gets the label: an open span, or a JESPAN() block of the calling thread. */
struct subject {
    struct open_span *record; /* NULL: a block */
    enum entry_kind kind;
    uint64_t key;
    uint32_t context;
    bool borrows; /* it has its ancestor's context, for want of room, and no site to make its own from */
};

static struct subject subject_of_block(const struct thread *t, int64_t index)
{
    const struct entry *e = &t->entries[index];
    uint32_t context = tree_whole(e->context), below = tree_parent_in(index ? e[-1].context : t->base);
    return (struct subject){NULL, entry_kind(e), e->key, context, context == below};
}

static struct subject subject_of_span(jespan_span_t *span, struct open_span *record)
{
    return (struct subject){record, ENTRY_SPAN, (uintptr_t)span, load_relaxed(&record->context), record->borrows};
}

/* What was entered last, JESPAN_FOR() aside, as an index; −1 where that is no span. */
static int64_t last_entered(const struct thread *t)
{
    int64_t last = (int64_t)t->depth - 1;
    while (last >= 0 && entry_kind(&t->entries[last]) == ENTRY_OWNER)
        last--;
    enum entry_kind kind = last < 0 ? ENTRY_SELF : entry_kind(&t->entries[last]);
    return kind == ENTRY_SPAN || kind == ENTRY_SCOPE ? last : -1;
}

/* Under LOCK_TREE. */
static int find_subject(struct subject *s, const struct thread *t, jespan_span_t *span)
{
    if (!span) {
        int64_t last = last_entered(t);
        if (last < 0)
            return EPERM;
        *s = subject_of_block(t, last);
        if (s->kind == ENTRY_SCOPE)
            return 0;
        span = (jespan_span_t *)(uintptr_t)s->key;
    }
    struct open_span *record = handle_find(span);
    if (!record)
        return EINVAL;
    *s = subject_of_span(span, record);
    return 0;
}

/* Under LOCK_TREE. The context `from` with the label; `from` itself where it stays or there is no room for another. */
static int labelled_context(uint32_t *to, struct thread *t, const struct subject *s, const struct jespan_label *label)
{
    const struct context *from = &contexts[s->context];
    union label_draft *draft = labels_draft_of(t);
    if (!draft)
        return ENOMEM;
    int error = labels_draft_with(draft, from->labels, label);
    *to = s->context;
    if (error || s->borrows)
        return -error;
    const struct jespan_site site = {from->site->name, from->site->target, from->site->file, from->site->line};
    uint32_t id = tree_intern(from->parent, from->kind, &site, &draft->set);
    if (id != from->parent)
        *to = id;
    return id ? 0 : ENOMEM;
}

/* Under LOCK_TREE, so that nothing is recycled while a context seems out of use. */
static int move_subject(struct thread *t, const struct subject *s, uint32_t to)
{
    uint32_t period = age_period_of(to);
    struct counters *c = period ? counters_get(t, period) : NULL;
    if (!c)
        return ENOMEM;
    if (s->record) {
        uint64_t now = timing_now();
        tree_open_span(to, now);
        handle_set_context(s->record, to);
        if (s->record->region)
            regions_move(s->record->region, s->context, to);
        tree_close_span(s->context, now);
        handle_set_period(s->record, period == to ? 0 : period);
    }
    span_move(t, s->kind, s->key, period, c);
    return 0;
}

static int add_label_locked(struct thread *t, jespan_span_t *span, const struct jespan_label *label)
{
    struct subject s;
    uint32_t to;
    int error = find_subject(&s, t, span);
    if (!error)
        error = labelled_context(&to, t, &s, label);
    return error || to == s.context ? error : move_subject(t, &s, to);
}

EXPORT int jespan_add_label(jespan_span_t *span, const struct jespan_label *label)
{
    struct thread *t = track_thread();
    if (!label || (span && !handle_context(span)))
        return EINVAL;
    if (!t)
        return span ? ENOMEM : EPERM;
    lock(LOCK_TREE);
    int error = add_label_locked(t, span, label);
    unlock(LOCK_TREE);
    return error;
}
