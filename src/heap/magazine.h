/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: per thread and size class, a stack of objects that the thread freed and keeps for its next allocations.
 *
 * An object in a magazine was counted as freed and its header is 0; to jemalloc it is allocated. So its page keeps its
 * class and its header table, and taking it out again needs neither jemalloc nor the page map: pointer and header are at
 * hand. That is what pays for the headers: see docs/decisions/007. What was taken out last stands there still: if it is
 * what the thread frees next, its header is in the cache, and it goes back without waiting in the buffer.
 *
 * Only the owner takes and puts. Others read the counts, for the bytes. Bounded in objects and bytes per class; handed
 * to jemalloc when full, when the thread ends, and when the program tells jemalloc to clean up.
 */
#ifndef JESPAN_MAGAZINE_H
#define JESPAN_MAGAZINE_H

#include "heap/classes.h"
#include "heap/thread.h"

/* How many objects of a class a thread keeps at most, by class number: 0 for none. */
extern uint16_t magazine_max[CLASSES_MAX];

/* After classes_boot(). What is a span arena's is given to `give_to_arena`. */
void magazine_boot(void (*give_to_arena)(struct thread *t, void *p, size_t bytes));

/* On a block that a thread begins to use. What is in its magazines stays. */
void magazine_start(struct thread *t);

/* The newest object of a class, or NULL. */
HOT_INLINE struct free_object *magazine_take(struct thread *t, size_t class)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (unlikely(!top->p))
        return NULL;
    store_relaxed(&t->magazine_top[class], top - 1);
    return top;
}

/* Where the object that was taken out last still stands, if nothing was put in since. Of a full magazine, the next one's
 * bottom. */
HOT_INLINE struct free_object *magazine_last(struct thread *t, size_t class)
{
    return load_relaxed(&t->magazine_top[class]) + 1;
}

/* Puts that one in again. */
HOT_INLINE void magazine_put_last(struct thread *t, size_t class, struct free_object *last)
{
    store_release(&t->magazine_top[class], last);
}

/* False: full. Entered before it is counted, so that a forked child never finds an entry that is not there. */
HOT_INLINE bool magazine_put(struct thread *t, size_t class, struct free_object object)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (top == t->magazine_end[class])
        return false;
    __atomic_store_n(&top[1].p, object.p, __ATOMIC_RELAXED); /* two stores: to join them first takes longer */
    __atomic_store_n(&top[1].slot, object.slot, __ATOMIC_RELAXED);
    store_release(&t->magazine_top[class], top + 1);
    return true;
}

/* The same into a full one, whose older half goes to jemalloc: what is kept is what was freed last, as in jemalloc's own
 * caches. (To keep the oldest instead pins slabs all over the heap.) Of a class that has none, the object goes at once. */
void magazine_put_in_full(struct thread *t, size_t class, struct free_object object);

/* Hands all of them to jemalloc. */
void magazine_empty(struct thread *t);

/* In a forked child, for a block whose thread does not exist there. */
void magazine_after_fork(struct thread *t);

/* Objects of a class in a thread's magazine, and bytes in all of its magazines. Any thread's. */
uint32_t magazine_objects(struct thread *t, unsigned class);
uint64_t magazine_bytes(struct thread *t);

#endif
