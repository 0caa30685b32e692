/* SPDX-License-Identifier: BSD-2-Clause */
/* What is entered on a thread, and the context that follows from it. */
#include "span.h"

#include <errno.h>
#include <string.h>

#include "counters.h"
#include "lock.h"
#include "meta.h"

/* Counters of every entered context exist: entering counted there. */
static void set_current(struct thread *t)
{
    t->tag = t->depth ? t->entries[t->depth - 1].context : t->base;
    t->current = counters_find(t, t->tag);
}

static void count_exit(struct thread *t, uint32_t context)
{
    own_add_release(&counters_find(t, context)->exits, 1);
}

struct counters *span_count_enter(struct thread *t, uint32_t context)
{
    struct counters *c = counters_get(t, context);
    if (likely(c))
        own_add(&c->enters, 1);
    return c;
}

/* LOCK_TREE is held, or the context cannot go away. */
static int replace_base(struct thread *t, uint32_t context)
{
    if (!context || !span_count_enter(t, context))
        return -ENOMEM;
    if (t->base)
        count_exit(t, t->base);
    t->base = context;
    set_current(t);
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

static COLD int grow(struct thread *t)
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

int span_push(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context)
{
    if (unlikely(t->depth == t->capacity) && grow(t))
        return -ENOMEM;
    t->entries[t->depth++] = (struct entry){key, context, kind};
    t->tag = context;
    t->current = counters_find(t, context);
    return 0;
}

void span_remove(struct thread *t, uint32_t index)
{
    uint32_t context = t->entries[index].context;
    if (unlikely(index + 1 < t->depth))
        memmove(&t->entries[index], &t->entries[index + 1], (t->depth - index - 1) * sizeof *t->entries);
    t->depth--;
    set_current(t);
    count_exit(t, context); /* last: from here on the context may be recycled */
    /* Of two attachments that meet, the outer one can never show again. */
    if (unlikely(index > 0 && index < t->depth) && t->entries[index - 1].kind == ENTRY_ATTACHED &&
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
    if (!span_count_enter(t, CONTEXT_ID_SELF))
        return -ENOMEM;
    int error = span_push(t, ENTRY_SELF, 0, CONTEXT_ID_SELF);
    if (error)
        count_exit(t, CONTEXT_ID_SELF);
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
    if (t->base)
        count_exit(t, t->base);
    t->base = t->tag = 0;
    t->current = NULL;
}
