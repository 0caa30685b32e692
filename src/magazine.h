/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: per thread and size class, a stack of objects that the thread freed and keeps for its next allocations.
 *
 * An object in a magazine was counted as freed and its header is 0; to jemalloc it is allocated. So its page keeps its
 * class and its header table, and taking it out again needs neither jemalloc nor the page map: pointer and header are at
 * hand. That is what pays for the headers: see docs/decisions/007.
 *
 * Only the owner takes and puts. Others read the counts, for the bytes. Bounded in objects and bytes per class; handed
 * to jemalloc when full, when the thread ends, and when the program tells jemalloc to clean up.
 */
#ifndef JESPAN_MAGAZINE_H
#define JESPAN_MAGAZINE_H

#include "classes.h"
#include "thread.h"

/* How many objects of a class a thread keeps at most, by class number: 0 for none. */
extern uint8_t magazine_max[CLASSES_MAX];

/* After classes_boot(). */
void magazine_boot(void);

/* The newest object of a class, or NULL. */
HOT_INLINE struct free_object *magazine_take(struct thread *t, unsigned class)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (unlikely(!top->p))
        return NULL;
    store_relaxed(&t->magazine_top[class], top - 1);
    return top;
}

/* False: full. Entered before it is counted, so that a forked child never finds an entry that is not there. */
HOT_INLINE bool magazine_put(struct thread *t, unsigned class, struct free_object object)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (top >= &t->magazine[class][magazine_max[class]])
        return false;
    top[1] = object;
    store_release(&t->magazine_top[class], top + 1);
    return true;
}

/* Hands all of them to jemalloc. */
void magazine_empty(struct thread *t);

/* Bytes in a thread's magazines, any thread's. */
uint64_t magazine_bytes(struct thread *t);

#endif
