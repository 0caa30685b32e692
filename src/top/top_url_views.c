/* SPDX-License-Identifier: BSD-2-Clause */
/* What the other views of `jespan top URL` ask for: arenas, limits and threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "json.h"
#include "top.h"

/* ---- Any of them ---- */

/* Reads an item of the list. Returns 0 or -ENOMEM. */
typedef int list_item(void *to, struct json *j);

/* Asks for a path, and reads the list of that name in the answer. Returns NULL, or the reason why there is none; *error is 0 or -ENOMEM. */
static const char *read_list(const struct top *top, const char *path, const char *name, list_item *read, void *to, int *error)
{
    char *text;
    size_t bytes;
    const char *reason = top_url_text(top, path, &text, &bytes);
    struct json j = {text, text + (reason ? 0 : bytes), 0, reason != NULL};
    *error = 0;
    json_open(&j, '{');
    for (const char *key; !*error && (key = json_key(&j));) {
        if (strcmp(key, name) != 0) {
            json_skip(&j);
            continue;
        }
        json_open(&j, '[');
        while (!*error && json_item(&j))
            *error = read(to, &j);
    }
    free(text);
    return reason;
}

/* ---- /arenas ---- */

static int read_arena(void *to, struct json *j)
{
    struct top_items *items = to;
    static struct text text;
    struct top_row row = {0};
    const char *name = "", *value = "";
    uint64_t number = 0;
    json_open(j, '{');
    for (const char *key; (key = json_key(j));) {
        uint64_t *at = strcmp(key, "number") == 0          ? &number
                       : strcmp(key, "inuse_bytes") == 0   ? &row.figures.inuse_bytes
                       : strcmp(key, "inuse_objects") == 0 ? &row.figures.objects
                       : strcmp(key, "alloc_bytes") == 0   ? &row.figures.alloc_bytes
                       : strcmp(key, "mapped_bytes") == 0  ? &row.mapped_bytes
                       : strcmp(key, "limit_bytes") == 0   ? &row.bound_bytes
                       : strcmp(key, "refusals") == 0      ? &row.refusals
                                                           : NULL;
        if (at)
            *at = json_number(j);
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
    int error;
    items->none = read_list(top, "/arenas?format=json", "arenas", read_arena, items, &error);
    if (!items->none)
        items->none = "no span has an arena of its own: 'jespan run --arena NAME' gives it one";
    return error;
}

/* ---- /limits ---- */

struct limits {
    const struct top *top;
    limits_outside_found *found;
    void *to;
};

static int read_limit(void *to, struct json *j)
{
    const struct limits *limits = to;
    const struct snapshot *snapshot = limits->top->snapshot;
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
    const struct snapshot_row *row = id <= UINT32_MAX ? snapshot_find(snapshot, (uint32_t)id) : NULL;
    if (row && !j->failed) {
        limit.row = (uint32_t)(row - snapshot->rows);
        limits->found(limits->to, &limit);
    }
    return 0;
}

const char *top_url_limits(struct top *top, limits_outside_found *found, void *to)
{
    int error;
    struct limits limits = {top, found, to};
    return read_list(top, "/limits", "limits", read_limit, &limits, &error);
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

struct threads {
    struct view_threads of;
    size_t room;
};

static int read_thread(void *to, struct json *j)
{
    struct threads *threads = to;
    struct view_threads *of = &threads->of;
    struct view_thread t = {0};
    json_open(j, '{');
    for (const char *key; (key = json_key(j));)
        read_thread_member(&t, j, key);
    if (!t.live)
        return 0;
    if (array_reserve(&of->threads, &threads->room, (size_t)of->n_threads + 1, sizeof *of->threads))
        return -ENOMEM;
    of->threads[of->n_threads++] = t;
    return 0;
}

int top_url_threads(struct top *top, struct top_items *items)
{
    int error;
    struct threads threads = {0};
    items->none = read_list(top, "/threads?limit=100000", "threads", read_thread, &threads, &error);
    top_take_threads(top, &threads.of);
    return error;
}
