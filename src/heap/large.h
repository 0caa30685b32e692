/* SPDX-License-Identifier: BSD-2-Clause */
/* Large objects that were freed, kept for the next allocations of the same class: the depot's part for large objects.
 *
 * To jemalloc, an object of more than 32 KiB is a piece of an extent. An allocation cuts it off and a free joins it again, under locks
 * and with two of our hooks. That takes longer than all else that a malloc and its free do. So the objects that were freed last are
 * kept here, for all threads. docs/decisions/106 has the figures.
 *
 * For jemalloc, they are allocated. They are bounded: in all, and by what the program has allocated of their class lately. So a program
 * that grows a table and frees the old one keeps nothing here. What was kept longest goes to jemalloc first.
 *
 * LOCK_LARGE protects them. Threads only try to get it: otherwise they go to jemalloc. */
#ifndef JESPAN_LARGE_H
#define JESPAN_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "heap/classes.h"
#include "jemalloc/binding.h"

#define LARGE_LEAST ((size_t)32 << 10) /* jemalloc's caches of threads have objects of up to so many bytes */
#define LARGE_MOST ((size_t)1 << 20)

/* Whether objects of this class, by its usable bytes, may be kept. */
HOT_INLINE bool large_is_kept(size_t usable)
{
    return usable - LARGE_LEAST - 1 < LARGE_MOST - LARGE_LEAST;
}

/* Gives all of them to jemalloc. Returns whether there were any. */
bool large_give_back(void);

/* The result of the call, which is made again if it returned NULL and jemalloc got objects that were kept. */
#define LARGE_OR_AGAIN(call)                            \
    __extension__({                                     \
        void *result_ = (call);                         \
        while (unlikely(!result_) && large_give_back()) \
            result_ = (call);                           \
        result_;                                        \
    })

/* An object of a class that may be kept. NULL: there is none. */
void *large_take(size_t usable);

/* The same for a request of so many bytes. */
static inline void *large_take_for(size_t size)
{
    size_t usable = size > LARGE_LEAST ? class_big_bytes(size) : 0;
    return large_is_kept(usable) ? large_take(usable) : NULL;
}

/* As jemalloc's malloc() and calloc(), for objects of no span arena. */
static inline void *large_malloc(size_t size)
{
    void *p = large_take_for(size);
    return p ? p : LARGE_OR_AGAIN(jespan_je_malloc(size));
}

static inline void *large_calloc(size_t size)
{
    void *p = large_take_for(size);
    return p ? memset(p, 0, class_big_bytes(size)) : LARGE_OR_AGAIN(jespan_je_calloc(1, size));
}

/* Keeps a freed object of such a class, or gives it to jemalloc. */
void large_give(void *p, size_t usable);

/* As jemalloc's sdallocx() without flags, for objects of no span arena. */
static inline void large_free(void *p, size_t usable)
{
    if (large_is_kept(usable))
        large_give(p, usable);
    else
        jespan_je_sdallocx(p, usable, 0);
}

#endif
