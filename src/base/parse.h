/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads texts of the configuration: numbers of bytes, patterns, lists. Modules use the lists, so these are inline. */
#ifndef JESPAN_PARSE_H
#define JESPAN_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- Numbers of bytes, as people write them: 64M ---- */

/* Reads digits, perhaps with K, M, G or T for units of 1024. Returns 0, or -EINVAL where the text is something else or
 * the number does not fit. */
int bytes_parse(const char *text, uint64_t *bytes);

/* ---- Blanks ---- */

/* Cuts off blanks on both sides: returns where the rest begins, and shortens it. */
static inline char *text_trim(char *text)
{
    text += strspn(text, " ");
    size_t n = strlen(text);
    while (n && text[n - 1] == ' ')
        text[--n] = '\0';
    return text;
}

/* ---- Patterns of names, for sites and labels ---- */

/* `*` stands for any text and may occur any number of times. Takes time up to the product of the lengths. */
bool pattern_fits(const char *pattern, const char *text);

/* ---- Lists: ITEM|ITEM|…, where empty items do not count ---- */

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
