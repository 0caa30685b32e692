/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays of the command and of modules. The memory comes from malloc, so nothing that a thread of the program
 * runs may use them. */
#ifndef JESPAN_ARRAY_H
#define JESPAN_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_FIRST_BYTES ((size_t)1024)

/* Makes room for `n` items of `item_bytes` in the array whose address is *array, which may be NULL. The room at least
 * doubles, so that adding items one by one takes linear time. New items are not initialised. Returns 0 or -ENOMEM; the array
 * then stays as it is. An owner that has a bound checks it before. */
static inline int array_reserve(void *array, size_t *capacity, size_t n, size_t item_bytes)
{
    void *items;
    size_t least = *capacity ? 2 * *capacity : ARRAY_FIRST_BYTES / item_bytes, room = n > least ? n : least, bytes;
    if (n <= *capacity)
        return 0;
    memcpy(&items, array, sizeof items); /* a pointer to any type */
    if (__builtin_mul_overflow(room, item_bytes, &bytes) || !(items = realloc(items, bytes)))
        return -ENOMEM;
    memcpy(array, &items, sizeof items);
    *capacity = room;
    return 0;
}

#endif
