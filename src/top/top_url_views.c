/* SPDX-License-Identifier: BSD-2-Clause */
/* What the other views of `jespan top URL` ask for: arenas, limits and threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "json.h"
#include "top.h"

/* ---- /arenas ---- */

static int read_arena(struct top_items *items, struct json *j)
{
    static struct text text;
    struct top_row row = {0};
    const char *name = "", *value = "";
    uint64_t number = 0;
    json_open(j, '{');
    for (const char *key; (key = json_key(j));) {
        uint64_t *to = strcmp(key, "number") == 0          ? &number
                       : strcmp(key, "inuse_bytes") == 0   ? &row.figures.inuse_bytes
                       : strcmp(key, "inuse_objects") == 0 ? &row.figures.objects
                       : strcmp(key, "alloc_bytes") == 0   ? &row.figures.alloc_bytes
                       : strcmp(key, "mapped_bytes") == 0  ? &row.mapped_bytes
                       : strcmp(key, "limit_bytes") == 0   ? &row.bound_bytes
                       : strcmp(key, "refusals") == 0      ? &row.refusals
                                                           : NULL;
        if (to)
            *to = json_number(j);
        else if (strcmp(key, "name") == 0)
            name = json_text(j);
        else if (strcmp(key, "value") == 0)
            value = json_text(j);
        else
            json_skip(j);
    }
    top_arena_text(&text, name, value);
    struct top_item *item = top_items_add(items, number, &text);
    if (!item)
        return -ENOMEM;
    row.row = item->row.row;
    item->row = row;
    return 0;
}

int top_url_arenas(struct top *top, struct top_items *items)
{
    char *text;
    size_t bytes;
    int error = 0;
    items->none = top_url_text(top, "/arenas?format=json", &text, &bytes);
    if (items->none) {
        free(text);
        return 0;
    }
    struct json j = {text, text + bytes, 0, false};
    json_open(&j, '{');
    for (const char *key; !error && (key = json_key(&j));) {
        if (strcmp(key, "arenas") != 0) {
            json_skip(&j);
            continue;
        }
        json_open(&j, '[');
        while (!error && json_item(&j))
            error = read_arena(items, &j);
    }
    free(text);
    items->none = "no span has an arena of its own: 'jespan run --arena NAME' gives it one";
    return error;
}

/* ---- /limits ---- */

static void read_limit(const struct top *top, struct json *j, limits_outside_found *found, void *to)
{
    struct limit_outside limit = {0};
    uint64_t id = 0;
    json_open(j, '{');
    for (const char *key; (key = json_key(j));) {
        uint64_t *at = strcmp(key, "id") == 0           ? &id
                       : strcmp(key, "soft_bytes") == 0 ? &limit.soft_bytes
                       : strcmp(key, "hard_bytes") == 0 ? &limit.hard_bytes
                       : strcmp(key, "refusals") == 0   ? &limit.refusals
                                                        : NULL;
        if (at)
            *at = json_number(j);
        else
            json_skip(j);
    }
    const struct snapshot_row *row = id <= UINT32_MAX ? snapshot_find(top->snapshot, (uint32_t)id) : NULL;
    if (row && !j->failed) {
        limit.row = (uint32_t)(row - top->snapshot->rows);
        found(to, &limit);
    }
}

const char *top_url_limits(struct top *top, limits_outside_found *found, void *to)
{
    char *text;
    size_t bytes;
    const char *reason = top_url_text(top, "/limits", &text, &bytes);
    struct json j = {text, text + (reason ? 0 : bytes), 0, reason != NULL};
    json_open(&j, '{');
    for (const char *key; (key = json_key(&j));) {
        if (strcmp(key, "limits") != 0) {
            json_skip(&j);
            continue;
        }
        json_open(&j, '[');
        while (json_item(&j))
            read_limit(top, &j, found, to);
    }
    free(text);
    return reason;
}

/* ---- /threads ---- */

static void read_thread_member(struct view_thread *t, struct json *j, const char *key)
{
    uint64_t *to = strcmp(key, "alloc_bytes") == 0     ? &t->alloc_bytes
                   : strcmp(key, "alloc_objects") == 0 ? &t->alloc_objects
                   : strcmp(key, "free_bytes") == 0    ? &t->free_bytes
                   : strcmp(key, "free_objects") == 0  ? &t->free_objects
                   : strcmp(key, "cpu_ns") == 0        ? &t->cpu_ns
                                                       : NULL;
    if (to)
        *to = json_number(j);
    else if (strcmp(key, "id") == 0)
        t->thread_id = (int)(json_number(j) & INT32_MAX);
    else if (strcmp(key, "context_id") == 0)
        t->context = (uint32_t)json_number(j);
    else if (strcmp(key, "live") == 0)
        t->live = json_true(j);
    else if (strcmp(key, "name") == 0)
        strncpy(t->name, json_text(j), sizeof t->name - 1);
    else
        json_skip(j);
}

static int read_thread(struct view_threads *to, size_t *room, struct json *j)
{
    struct view_thread t = {0};
    json_open(j, '{');
    for (const char *key; (key = json_key(j));)
        read_thread_member(&t, j, key);
    if (!t.live)
        return 0;
    if (array_reserve(&to->threads, room, (size_t)to->n_threads + 1, sizeof *to->threads))
        return -ENOMEM;
    to->threads[to->n_threads++] = t;
    return 0;
}

int top_url_threads(struct top *top, struct top_items *items)
{
    char *text;
    size_t bytes, room = 0;
    struct view_threads threads = {0};
    int error = 0;
    items->none = top_url_text(top, "/threads?limit=100000", &text, &bytes);
    struct json j = {text, text + (items->none ? 0 : bytes), 0, items->none != NULL};
    json_open(&j, '{');
    for (const char *key; !error && (key = json_key(&j));) {
        if (strcmp(key, "threads") != 0) {
            json_skip(&j);
            continue;
        }
        json_open(&j, '[');
        while (!error && json_item(&j))
            error = read_thread(&threads, &room, &j);
    }
    free(text);
    top_take_threads(top, &threads);
    return error;
}
