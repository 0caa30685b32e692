/* SPDX-License-Identifier: BSD-2-Clause */
/* What the arenas, limits and stacks of `jespan top` share: a list that is read again from time to time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/hash.h"
#include "top.h"

#define MAX_CHARS 4000 /* of a text */
#define PAUSES 9       /* the time between two readings, in times that the last one took */

struct top_item *top_items_add(struct top_items *items, uint64_t key, const struct text *text)
{
    if (items->n == items->room) {
        uint32_t room = items->room ? 2 * items->room : 64;
        struct top_item *grown = reallocarray(items->items, room, sizeof *grown);
        if (!grown)
            return NULL;
        items->items = grown;
        items->room = room;
    }
    size_t n = text->n < MAX_CHARS ? text->n : MAX_CHARS;
    wchar_t *chars = malloc((n + 1) * sizeof *chars);
    if (!chars)
        return NULL;
    memcpy(chars, text->chars, n * sizeof *chars);
    struct top_item *item = &items->items[items->n];
    *item = (struct top_item){.key = key, .chars = chars, .n_chars = n, .row.row = items->n};
    items->n++;
    return item;
}

void top_items_free(struct top_items *items)
{
    for (uint32_t i = 0; i < items->n; i++)
        free(items->items[i].chars);
    free(items->items);
    *items = (struct top_items){.view = TOP_CONTEXTS};
}

/* ---- Readings ---- */

/* How much items have changed since the reading before. Those of limits are known already. */
static int find_rates(const struct top_items *old, struct top_items *now)
{
    struct hash_table before = {0};
    double seconds = (double)(now->time_ns - old->time_ns) / 1e9;
    int error = 0;
    for (uint32_t i = 0; i < old->n && !error; i++)
        error = hash_find(&before, old->items[i].key) ? 0 : hash_add(&before, old->items[i].key, i);
    for (uint32_t i = 0; i < now->n && seconds > 0; i++) {
        struct top_figures *f = &now->items[i].row.figures;
        const uint64_t *at = hash_find(&before, now->items[i].key);
        const struct top_figures none = {0}, *was = at ? &old->items[*at].row.figures : &none;
        f->growth = (int64_t)((double)(int64_t)(f->inuse_bytes - was->inuse_bytes) / seconds);
        f->alloc = f->alloc_bytes < was->alloc_bytes ? 0 : (int64_t)((double)(f->alloc_bytes - was->alloc_bytes) / seconds);
    }
    hash_free(&before);
    return error;
}

static int read_items(struct top *top, struct top_items *items)
{
    switch (items->view) {
    case TOP_THREADS:
        return top->url[0] != '\0' ? top_url_threads(top, items) : 0;
    case TOP_ARENAS:
        return top_arenas_read(top, items);
    case TOP_LIMITS:
        return top_limits_read(top, items);
    case TOP_STACKS:
        return top_stacks_read(top, items);
    default:
        return 0;
    }
}

int top_items_read(struct top *top)
{
    uint64_t now = top_now_ns();
    struct top_items items = {.view = top->view, .time_ns = now};
    bool is_same = top->items.view == top->view;
    if (top->ended || !top->snapshot || (is_same && now < top->items.next_ns))
        return 0;
    int error = read_items(top, &items);
    if (!error && is_same && items.view != TOP_LIMITS)
        error = find_rates(&top->items, &items);
    items.next_ns = now + PAUSES * (top_now_ns() - now);
    if (error) {
        top_items_free(&items);
        return error;
    }
    top_items_free(&top->items);
    top->items = items;
    return 0;
}
