/* SPDX-License-Identifier: BSD-2-Clause */
/* Temporary allocations: those that the thread which made them frees before it has made more than conf.stacks_temporary
 * other allocations. realloc() counts as a free and an allocation.
 *
 * They are counted for the stack that allocated, while a thread takes all stacks: only then all allocations of a thread
 * pass the slow side. A thread keeps the addresses of its last allocations. Each allocation, and each flush, compares
 * these with the objects that came into the thread's free buffer since the last look. So free() has nothing to do for
 * small objects. What has no stack is not counted, but it is another allocation for the others.
 *
 * A wrong count needs three threads' steps in a row: another thread frees the object, allocates the same address again,
 * and hands it to this thread, which frees it before it allocates anything.
 */
#ifndef JESPAN_TEMPORARY_H
#define JESPAN_TEMPORARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/thread.h"
#include "stacks/stacks.h"

/* A flush counts too, from the first recent object on. */
extern INTERNAL _Atomic bool temporary_flushes_count;

/* Counts what the thread has freed since the last look, and keeps the address of a new object. `stack` is its context, or
 * 0. */
void temporary_count(struct thread *t, const void *p, uint32_t stack);

/* The same, for a thread that may not take all stacks. */
HOT_INLINE void temporary_after_alloc(struct thread *t, const void *p, uint32_t stack)
{
    if (likely(load_relaxed(&stacks_mode) == STACKS_ALL) && likely(p))
        temporary_count(t, p, stack);
}

/* Whether the one recent object is among the first n in the free buffer, as far as these were not looked at. True also while
 * the buffer is flushed. */
HOT_INLINE bool temporary_was_freed(const struct thread *t, uint32_t n)
{
    const struct recent_objects *recent = &t->recent;
    bool found = recent->scanned > n || load_relaxed(&t->free_buffer_sequence) & 1;
    for (uint32_t i = recent->scanned; i < n && !found; i++)
        found = load_relaxed(&t->free_buffer_object[i]) == recent->p[0];
    return found;
}

/* The same for an object that has a stack, where there is one recent object, which was not freed since the last look. False:
 * nothing has changed. */
HOT_INLINE bool temporary_keep(struct thread *t, const void *p)
{
    uint32_t n = load_relaxed(&t->free_buffer_count);
    if (unlikely(conf.stacks_temporary) || unlikely(!load_relaxed(&temporary_flushes_count)))
        return false;
    if (t->recent.scanned != n && unlikely(temporary_was_freed(t, n)))
        return false;
    t->recent.scanned = n;
    t->recent.p[0] = p;
    return true;
}

/* To be called before the thread's free buffer is flushed. */
void temporary_before_flush(struct thread *t);

/* Counts an object that is freed without the buffer. `tag` is its owner. */
void temporary_free(struct thread *t, const void *p, uint32_t tag);

/* Counts an object that went back to its magazine, and whose context has these counters. */
HOT_INLINE void temporary_after_free(struct thread *t, const void *p, uint32_t tag, struct counters *c)
{
    if (likely(!conf.stacks_temporary) && likely(t->recent.p[0] == p)) {
        t->recent.p[0] = NULL;
        counters_add_temporary(c, 1);
        counters_moved(t, tag);
    } else if (conf.stacks_temporary) {
        temporary_free(t, p, tag);
    }
}

/* The same, at a place where few threads take stacks. t may be NULL. */
static inline void temporary_before_free(struct thread *t, const void *p, uint32_t tag)
{
    if (unlikely(t && t->stacks))
        temporary_free(t, p, tag);
}

/* Around the resizing of an object. The first returns the owner of a recent object, else 0. `resized` is NULL if there was
 * no memory. */
uint32_t temporary_begin_resize(struct thread *t, const void *p);
void temporary_end_resize(struct thread *t, uint32_t tag, const void *resized, uint32_t stack);

#endif
