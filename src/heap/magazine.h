/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: for each thread and size class, a stack of objects that the thread freed and keeps for its next
 * allocations.
 *
 * An object in a magazine is counted as freed and its header is 0. For jemalloc it is allocated. So its page keeps its
 * class and its header table. To take an object out needs neither jemalloc nor the page map, since the magazine has its
 * pointer and the address of its header. This saves about the time that headers cost: see docs/decisions/007. The entry
 * of the object that was taken out last stays in place above the top. If the thread frees that object next, its header
 * is in the cache, and it goes back without waiting in the free buffer.
 *
 * The magazines of a thread lie one behind the other in t->magazine. Each begins with an entry whose pointer is NULL, its
 * bottom. `magazine_top` points to the entry of the newest object, or to the bottom if the magazine is empty.
 * `magazine_full` points to the last entry that may hold an object at present. Behind the last of magazine_max is the
 * bottom of the next magazine.
 *
 * Most threads free few objects of a class at a time. So a class begins with a *first* magazine, for up to MAGAZINE_FIRST
 * objects, and gets the other one when that is full for the first time. All first magazines lie close together in
 * t->magazine_first, so that such a thread writes to few pages.
 *
 * Only the owning thread takes objects out and puts them in. Other threads read the counts. A magazine is bounded in
 * objects and bytes. In a long run of frees it keeps nothing, until an allocation finds it empty: a thread that frees all it
 * has, and then waits, keeps little. Objects go to jemalloc when a magazine is full, when the thread
 * ends, and when the program tells jemalloc to clean up.
 */
#ifndef JESPAN_MAGAZINE_H
#define JESPAN_MAGAZINE_H

#include "heap/classes.h"
#include "heap/depot.h"
#include "heap/pagemap.h"
#include "heap/thread.h"

/* By class number: the number of objects that a thread keeps at most; 0: none. */
extern uint16_t magazine_max[CLASSES_MAX];

/* The places of the bottoms: in `magazine_first` and in `magazine` of struct thread. */
struct magazine_bottoms {
    uint16_t first[CLASSES_MAX], whole[CLASSES_MAX];
};

/* The most objects in the first magazine of a class that has this maximum. */
static inline uint16_t magazine_first_max(uint16_t max)
{
    return max < MAGAZINE_FIRST ? max : MAGAZINE_FIRST;
}

/* Writes them for magazines of these sizes. */
static inline void magazine_find_bottoms(struct magazine_bottoms *bottoms, const uint16_t max[CLASSES_MAX])
{
    bottoms->first[0] = bottoms->whole[0] = 0;
    for (unsigned class = 1; class < CLASSES_MAX; class++) {
        bottoms->first[class] = (uint16_t)(bottoms->first[class - 1] + magazine_first_max(max[class - 1]) + 1u);
        bottoms->whole[class] = (uint16_t)(bottoms->whole[class - 1] + max[class - 1] + 1u);
    }
}

/* Where in struct thread the bottom of the class is, if its top is at this offset there. */
static inline size_t magazine_bottom_offset(const struct magazine_bottoms *bottoms, unsigned class, size_t top)
{
    return top < offsetof(struct thread, magazine)
               ? offsetof(struct thread, magazine_first) + bottoms->first[class] * sizeof(struct free_object)
               : offsetof(struct thread, magazine) + bottoms->whole[class] * sizeof(struct free_object);
}

/* To be called after classes_boot(). */
void magazine_boot(void);

/* To be called for a block that a thread begins to use. The objects in its magazines stay. */
void magazine_start(struct thread *t);

/* Takes out the newest object of a class. NULL: the magazine is empty. */
HOT_INLINE struct free_object *magazine_take(struct thread *t, size_t class)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (unlikely(!top->p))
        return NULL;
    store_relaxed(&t->magazine_top[class], top - 1);
    store_relaxed(&t->taken_from, &t->magazine_top[class]);
    return top;
}

/* To be called where an allocation found it empty. */
HOT_INLINE void magazine_was_empty(struct thread *t, size_t class)
{
    t->magazine_spills[class] = 0;
    depot_want(class);
}

/* Takes a batch from the depot into a magazine that is empty. Returns whether it did. Leaves errno alone. */
bool magazine_refill_from_depot(struct thread *t, size_t class);
HOT_INLINE bool magazine_refill(struct thread *t, size_t class)
{
    return depot_has(class) && magazine_refill_from_depot(t, class);
}

/* The entry above the top. It holds the object that was taken out last, if nothing was put in since. For a full
 * magazine its pointer is NULL, and it may be the bottom entry of the next one. */
HOT_INLINE struct free_object *magazine_last(struct thread *t, size_t class)
{
    return load_relaxed(&t->magazine_top[class]) + 1;
}

/* The usable bytes of the class whose magazine has this top. They are at the same index in magazine_object_bytes as the
 * top in magazine_top, so one addition leads there. */
HOT_INLINE uint64_t magazine_bytes_beside(const _Atomic(struct free_object *) *top)
{
    return *(const uint64_t *)((const char *)top + offsetof(struct thread, magazine_object_bytes) -
                               offsetof(struct thread, magazine_top));
}

/* The entry of the object that was taken out last of all classes. Its header is right if magazine_knows_headers(). The
 * pointer is NULL, or that of another object, if something was put in since. */
HOT_INLINE struct free_object *magazine_taken(_Atomic(struct free_object *) *taken_from)
{
    return load_relaxed(taken_from) + 1;
}

/* Whether the entries above the tops still have the right headers. An object in a magazine keeps its header. But after
 * it was taken out, another thread may free it, and its page may get another table. */
HOT_INLINE bool magazine_knows_headers(const struct thread *t)
{
    return load_relaxed(&tables_changes) == t->tables_seen;
}

/* Makes magazine_knows_headers() true: clears the pointer above each top. Older entries lie higher. They cannot come to
 * lie above a top later, since magazine_put() also clears the pointer above the new top. */
void magazine_forget_taken(struct thread *t);

/* Puts the object of magazine_last() or magazine_taken() back: the top moves to its entry. */
HOT_INLINE void magazine_put_last(struct thread *t, size_t class, struct free_object *last)
{
    store_release(&t->magazine_top[class], last);
}

/* Returns false where the magazine is full. The entry is written before the top moves, so a forked child finds each
 * entry below the top written. */
HOT_INLINE bool magazine_put(struct thread *t, size_t class, struct free_object object)
{
    struct free_object *top = load_relaxed(&t->magazine_top[class]);
    if (top == t->magazine_full[class])
        return false;
    __atomic_store_n(&top[1].p, object.p, __ATOMIC_RELAXED); /* two stores: joining them first takes longer */
    __atomic_store_n(&top[1].slot, object.slot, __ATOMIC_RELAXED);
    __atomic_store_n(&top[2].p, NULL, __ATOMIC_RELAXED); /* see magazine_forget_taken(). Or the bottom of the next magazine */
    store_release(&t->magazine_top[class], top + 1);
    return true;
}

/* The times that a magazine is full until it keeps nothing, if no allocation finds it empty meanwhile. */
#define MAGAZINE_SPILLS_MAX 3

/* Whether the thread has only freed for so long that the magazine keeps nothing, and gives each object to jemalloc; and no other
 * thread wants such objects. */
HOT_INLINE bool magazine_keeps_nothing(const struct thread *t, size_t class)
{
    return t->magazine_spills[class] == MAGAZINE_SPILLS_MAX && !load_relaxed(&depot.wanted[class]);
}

/* The same for a full magazine. It gives its older half to the depot, or to jemalloc, or more, and keeps what was freed last, as
 * jemalloc's own caches do. Keeping the oldest objects would pin slabs all over the heap. Classes without a magazine free the object
 * immediately. */
void magazine_put_in_full(struct thread *t, size_t class, struct free_object object);

/* Gives all objects of the thread to jemalloc, or those of the depot too. */
void magazine_empty(struct thread *t);
void magazine_empty_depot(struct thread *t);

/* To be called in a forked child, for a block whose thread does not exist there. */
void magazine_after_fork(struct thread *t);

/* Objects of a class in a thread's magazine, and bytes in all its magazines, those for span arenas included. Any thread may call
 * these. */
uint32_t magazine_objects(struct thread *t, unsigned class);
uint64_t magazine_bytes(struct thread *t);

#endif
