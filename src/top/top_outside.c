/* SPDX-License-Identifier: BSD-2-Clause */
/* The arenas and limits of `jespan top`, read from outside. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/names_outside.h"
#include "snapshot/row_path.h"
#include "top.h"

#define PATH_BYTES 1024
#define MAX_ARENAS 4096 /* that are read */

/* ---- Arenas ---- */

/* 0 and "" where there is no value. */
static uint64_t ask(struct top *top, uint32_t arena, const char *leaf, struct mailbox_answer *answer)
{
    char name[64];
    snprintf(name, sizeof name, "spans.arenas.%" PRIu32 ".%s", arena, leaf);
    if (names_outside_get(top->process, top->snapshot, name, answer) != 0)
        *answer = (struct mailbox_answer){0};
    answer->words[sizeof answer->words - 1] = '\0';
    return answer->value;
}

void top_arena_text(struct text *text, const char *name, const char *value)
{
    text_clear(text);
    text_add_bytes(text, name, strlen(name), PATH_BYTES);
    if (value[0] != '\0') {
        text_add(text, " {");
        text_add_bytes(text, value, strlen(value), PATH_BYTES);
        text_add(text, "}");
    }
}

static int add_arena(struct top *top, struct top_items *items, uint32_t arena)
{
    static struct text text;
    struct mailbox_answer answer, value;
    ask(top, arena, "name", &answer);
    ask(top, arena, "value", &value);
    top_arena_text(&text, answer.words, value.words);
    struct top_item *item = top_items_add(items, arena, &text);
    if (!item)
        return -ENOMEM;
    item->row.figures.inuse_bytes = ask(top, arena, "inuse_bytes", &answer);
    item->row.figures.objects = ask(top, arena, "inuse_objects", &answer);
    item->row.figures.alloc_bytes = ask(top, arena, "alloc_bytes", &answer);
    item->row.mapped_bytes = ask(top, arena, "mapped_bytes", &answer);
    item->row.bound_bytes = ask(top, arena, "limit_bytes", &answer);
    item->row.refusals = ask(top, arena, "refusals", &answer);
    return 0;
}

int top_arenas_read(struct top *top, struct top_items *items)
{
    struct mailbox_answer count;
    if (top->url[0] != '\0')
        return top_url_arenas(top, items);
    int error = names_outside_get(top->process, top->snapshot, "spans.arenas.count", &count);
    uint64_t n = error ? 0 : count.value;
    error = 0;
    for (uint32_t arena = 1; arena <= n && arena <= MAX_ARENAS && !error; arena++)
        error = add_arena(top, items, arena);
    items->none = "no span has an arena of its own: 'jespan run --arena NAME' gives it one";
    return error;
}

/* ---- Limits ---- */

struct limits {
    struct top *top;
    struct top_items *items;
    uint32_t *of_row; /* by row of the snapshot: the item and 1 */
    int error;
};

static void add_limit(void *to, const struct limit_outside *limit)
{
    static struct text text;
    char path[PATH_BYTES];
    struct limits *l = to;
    row_path(path, sizeof path, l->top->snapshot, limit->row);
    text_clear(&text);
    text_add_bytes(&text, path, strlen(path), PATH_BYTES);
    struct top_item *item = l->error ? NULL : top_items_add(l->items, l->top->snapshot->rows[limit->row].id, &text);
    if (!item) {
        l->error = -ENOMEM;
        return;
    }
    item->row.soft_bytes = limit->soft_bytes;
    item->row.bound_bytes = limit->hard_bytes;
    item->row.refusals = limit->refusals;
    l->of_row[limit->row] = l->items->n;
}

/* What is in use below a limit: each context counts for all limits above it. */
static void add_contexts(const struct limits *l)
{
    const struct snapshot *s = l->top->snapshot;
    for (uint32_t i = 0; i < s->n_rows; i++)
        for (uint32_t at = i, steps = 0; steps < s->n_rows; at = s->rows[at].parent_row, steps++) {
            if (l->of_row[at])
                top_add(&l->items->items[l->of_row[at] - 1].row.figures, &l->top->figures[i]);
            if (s->rows[at].parent_row == at || s->rows[at].parent_row >= s->n_rows)
                break;
        }
}

int top_limits_read(struct top *top, struct top_items *items)
{
    struct limits l = {top, items, calloc((size_t)top->snapshot->n_rows + 1, sizeof *l.of_row), 0};
    if (!l.of_row)
        return -ENOMEM;
    items->none = top->url[0] != '\0' ? top_url_limits(top, add_limit, &l) : NULL;
    if (top->url[0] == '\0')
        limits_outside_list(top->process, top->snapshot, add_limit, &l); /* an error is that of the next reading too */
    add_contexts(&l);
    free(l.of_row);
    for (uint32_t i = 0; i < items->n; i++) {
        struct top_row *row = &items->items[i].row;
        uint64_t bound = row->bound_bytes ? row->bound_bytes : row->soft_bytes;
        row->share = bound ? (double)row->figures.inuse_bytes / (double)bound : 0;
    }
    if (!items->none)
        items->none = "no span has a limit: 'jespan ctl PID set limit:NAME 64M' sets one";
    return l.error;
}
