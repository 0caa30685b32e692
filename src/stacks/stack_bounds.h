/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory of a stack can be read. All functions are async-signal-safe, allocate nothing, and leave errno alone. */
#ifndef JESPAN_STACK_BOUNDS_H
#define JESPAN_STACK_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_bounds {
    uintptr_t low, high; /* both 0: unknown */
    bool is_whole;       /* the stack has no more below `low` */
};

/* Finds the calling thread's own stack, from `sp` on. The bounds stay as they are if `sp` is not on it: a coroutine and a
 * signal handler may have a stack of their own. If the bounds are known and not whole, moves `low` down to `sp`. */
void stack_bounds_find(struct stack_bounds *bounds, uintptr_t sp);

/* Whether the page of the address can be read. A system call. */
bool stack_page_is_readable(uintptr_t address);

/* Copies bytes of one page, which another thread may unmap at any moment. False: it cannot be read. */
bool stack_page_copy(void *to, uintptr_t from, size_t bytes);

/* The same with at most a page of bytes, which may lie in two pages. Returns how many of them can be read, from the first on. */
size_t stack_pages_copy(void *to, uintptr_t from, size_t bytes);

#endif
