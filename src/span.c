/* SPDX-License-Identifier: BSD-2-Clause */
/* What is entered on a thread, and the context that follows from it. */
#include "span.h"

#include <errno.h>
#include <string.h>

#include "counters.h"
#include "lock.h"
#include "meta.h"

/* LOCK_TREE is held, or the context cannot go away. */
static int replace_base(struct thread *t, uint32_t context)
{
    struct counters *c = context ? span_count_enter(t, context) : NULL, *former = t->base_counters;
    if (!c)
        return -ENOMEM;
    t->base = context;
    t->base_counters = c;
    span_show_innermost(t);
    if (former)
        span_count_exit(former);
    return 0;
}

int span_set_base(struct thread *t, uint32_t context)
{
    lock(LOCK_TREE);
    int error = replace_base(t, context);
    unlock(LOCK_TREE);
    return error;
}

COLD int span_set_base_by_name(struct thread *t, const char *name)
{
    char text[32] = "thread:";
    strncat(text, name, sizeof t->name - 1);
    const struct jespan_site site = {.name = text};
    lock(LOCK_TREE);
    int error = replace_base(t, tree_intern(CONTEXT_ID_ROOT, CONTEXT_THREAD, &site, NULL));
    unlock(LOCK_TREE);
    return error;
}

COLD int span_make_room(struct thread *t)
{
    size_t bytes = t->capacity * sizeof *t->entries;
    struct entry *more = meta_map(2 * bytes);
    if (!more)
        return -ENOMEM;
    struct entry *old = t->entries;
    memcpy(more, old, bytes);
    t->entries = more; /* first, for a child that is forked meanwhile */
    t->capacity *= 2;
    if (old != t->entries_inline)
        meta_unmap(old, bytes);
    return 0;
}

void span_remove(struct thread *t, uint32_t index)
{
    struct entry gone = t->entries[index];
    memmove(&t->entries[index], &t->entries[index + 1], (t->depth - index - 1) * sizeof gone);
    t->entries[t->depth - 1] = gone;
    span_pop(t);
    /* Of two attachments that meet, the outer one can never show again. */
    if (index > 0 && index < t->depth && t->entries[index - 1].kind == ENTRY_ATTACHED &&
        t->entries[index].kind == ENTRY_ATTACHED)
        span_remove(t, index - 1);
}

int64_t span_find(const struct thread *t, enum entry_kind kind, uint64_t key)
{
    for (int64_t i = (int64_t)t->depth - 1; i >= 0; i--)
        if (t->entries[i].key == key && t->entries[i].kind == kind)
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
    return error;
}

COLD void span_leave_self(struct thread *t)
{
    span_remove(t, (uint32_t)span_find(t, ENTRY_SELF, 0));
}

COLD void span_leave_all(struct thread *t)
{
    while (t->depth)
        span_remove(t, t->depth - 1);
    if (t->entries != t->entries_inline) {
        struct entry *old = t->entries;
        size_t bytes = t->capacity * sizeof *old;
        t->entries = t->entries_inline;
        t->capacity = ENTRIES_INLINE;
        meta_unmap(old, bytes);
    }
    struct counters *c = t->base_counters;
    t->base = t->tag = 0;
    t->base_counters = t->current = NULL;
    if (c)
        span_count_exit(c);
}
