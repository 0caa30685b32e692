/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of the configuration: ITEM|ITEM|…, where empty items do not count. Modules use this file too, so all of it is
 * inline. */
#ifndef JESPAN_LIST_H
#define JESPAN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* An item where it stands in its list. No NUL ends it. */
struct list_item {
    const char *text;
    size_t bytes;
};

/* Reads the next item and moves *list behind it. Returns false at the end of the list. */
static inline bool list_next(const char **list, struct list_item *item)
{
    item->text = *list + strspn(*list, "|");
    item->bytes = strcspn(item->text, "|");
    *list = item->text + item->bytes;
    return item->bytes > 0;
}

/* The same for a list in memory that may be changed: returns the item with a NUL behind it. Returns NULL at the end. */
static inline char *list_take(char **list)
{
    char *item;
    do
        item = strsep(list, "|");
    while (item && !*item);
    return item;
}

/* The place of `text` among the items, from 0 on; -1 where it is not in the list. */
static inline int list_find(const char *list, const char *text)
{
    struct list_item item;
    size_t bytes = strlen(text);
    for (int i = 0; list_next(&list, &item); i++)
        if (item.bytes == bytes && memcmp(item.text, text, bytes) == 0)
            return i;
    return -1;
}

/* The bytes of NAME in an item NAME=VALUE; 0 where NAME is empty or there is no '='. VALUE follows the '='. */
static inline size_t list_name_bytes(const struct list_item *item)
{
    const char *equals = memchr(item->text, '=', item->bytes);
    return equals ? (size_t)(equals - item->text) : 0;
}

#endif
