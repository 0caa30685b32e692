/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts by number, with their paths as text. */
#include "events_out.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define PATH_MAX_BYTES ((size_t)12 << 10) /* of a path, and of the JSON of a name with its labels. The rest is cut */

struct events_paths {
    struct events_names names;
    struct events_node outside, recycled;
    struct events_node **by_id;
    size_t room;
    char text[PATH_MAX_BYTES];
};

void events_node_hold(struct events_node *node)
{
    if (node)
        node->users++;
}

void events_node_release(struct events_node *node)
{
    while (node && --node->users == 0) {
        struct events_node *parent = node->parent;
        free(node->path);
        free(node->json);
        free(node);
        node = parent;
    }
}

struct events_paths *events_paths_make(const struct events_names *names)
{
    static char recycled_path[] = ";(recycled)", recycled_json[] = "\"name\":\"(recycled)\"";
    struct events_paths *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->names = *names;
    p->outside = (struct events_node){.users = 1};
    p->recycled = (struct events_node){.users = 1, .depth = 1, .path = recycled_path,
                                       .path_bytes = sizeof recycled_path - 1, .json = recycled_json,
                                       .json_name_bytes = sizeof recycled_json - 1};
    return p;
}

void events_paths_free(struct events_paths *p)
{
    for (uint32_t i = 0; p && i < p->room; i++)
        events_node_release(p->by_id[i]);
    if (p)
        free(p->by_id);
    free(p);
}

struct events_node *events_paths_outside(struct events_paths *p)
{
    return &p->outside;
}

struct events_node *events_paths_recycled(struct events_paths *p)
{
    return &p->recycled;
}

struct events_node *events_paths_find(const struct events_paths *p, uint32_t id, uint32_t generation)
{
    struct events_node *node = id < p->room ? p->by_id[id] : NULL;
    return node && node->generation == generation ? node : NULL;
}

/* ---- Texts ---- */

static char *add_labels(char *to, const char *end, const struct snapshot_row *row)
{
    for (uint32_t i = 0; i < row->n_labels; i++) {
        to = events_text(to, end, i == 0 ? "{" : ",");
        to = events_folded(to, end, row->labels[i].key);
        to = events_text(to, end, "=");
        to = events_folded(to, end, row->labels[i].value);
    }
    return row->n_labels > 0 ? events_text(to, end, "}") : to;
}

static char *add_place(char *to, const char *end, const struct snapshot_row *row)
{
    if (row->file[0] == '\0')
        return to;
    to = events_folded(events_text(to, end, ":"), end, row->file);
    return row->line != 0 ? events_number(events_text(to, end, ":"), end, row->line) : to;
}

static char *add_name(char *to, const char *end, const struct events_names *names, const struct snapshot_row *row)
{
    if (names->module_path && row->target[0] != '\0')
        to = events_text(events_folded(to, end, row->target), end, "::");
    to = events_folded(to, end, row->name[0] != '\0' ? row->name : "(unnamed)");
    if (names->labels)
        to = add_labels(to, end, row);
    return names->file_and_line ? add_place(to, end, row) : to;
}

/* {"name":…,"cat":…,"args":{…}} without the braces. The part that ends it always fits. */
static char *add_json_name(char *to, const char *last, const struct snapshot_row *row)
{
    const char *end = last - 64;
    return events_json(events_text(to, end, "\"name\":"), end, row->name[0] != '\0' ? row->name : "(unnamed)");
}

static char *add_json(char *to, const char *last, const struct snapshot_row *row)
{
    const char *end = last - 64;
    if (row->target[0] != '\0' && end - to > 512)
        to = events_json(events_text(to, end, ",\"cat\":"), end, row->target);
    to = events_text(to, last, ",\"args\":{");
    const char *comma = "";
    for (uint32_t i = 0; i < row->n_labels && end - to > 2048; i++, comma = ",") {
        to = events_json(events_text(to, last, comma), end, row->labels[i].key);
        to = events_json(events_text(to, last, ":"), end, row->labels[i].value);
    }
    if (row->file[0] != '\0' && end - to > 2048) {
        to = events_json(events_text(events_text(to, last, comma), last, "\"file\":"), end, row->file);
        to = events_number(events_text(to, last, ",\"line\":"), last, row->line);
    }
    return events_text(to, last, "}");
}

static bool make_texts(struct events_paths *p, struct events_node *node, const struct snapshot_row *row)
{
    char *end = p->text + sizeof p->text - 1, *to = p->text;
    if (node->parent->path_bytes > 0) {
        memcpy(to, node->parent->path, node->parent->path_bytes);
        to += node->parent->path_bytes;
    }
    *to = '\0';
    to = add_name(events_text(to, end, ";"), end, &p->names, row);
    node->path_bytes = (uint32_t)(to - p->text);
    *to = '\0';
    node->path = strdup(p->text);
    if (!node->path || !p->names.json)
        return node->path;
    to = add_json_name(p->text, end, row);
    node->json_name_bytes = (uint32_t)(to - p->text);
    *add_json(to, end, row) = '\0';
    node->json = strdup(p->text);
    return node->json;
}

/* ---- Learning ---- */

static bool grow(struct events_paths *p, uint32_t id)
{
    if (id < p->room)
        return true;
    size_t room = p->room;
    if (array_reserve(&p->by_id, &p->room, id + (size_t)1, sizeof *p->by_id))
        return false;
    memset(p->by_id + room, 0, (p->room - room) * sizeof *p->by_id);
    return true;
}

static bool is_outside(const struct snapshot *s, uint32_t row)
{
    return s->rows[row].parent_row == row || s->rows[row].kind == CONTEXT_THREAD;
}

/* The table holds the node, as does each node below it. `parent` is NULL outside of spans. */
static struct events_node *make_node(struct events_paths *p, const struct snapshot_row *row, struct events_node *parent)
{
    struct events_node *node = grow(p, row->id) ? calloc(1, sizeof *node) : NULL;
    if (!node)
        return NULL;
    *node = (struct events_node){.parent = parent, .users = 1, .depth = parent ? parent->depth + 1 : 0, .id = row->id,
                                 .generation = row->generation};
    events_node_hold(parent);
    if (parent && !make_texts(p, node, row)) {
        events_node_release(node);
        return NULL;
    }
    events_node_release(p->by_id[row->id]);
    return p->by_id[row->id] = node;
}

static struct events_node *find_row(const struct events_paths *p, const struct snapshot_row *row)
{
    return events_paths_find(p, row->id, row->generation);
}

/* Ancestors are learnt first, whose numbers may be higher. No recursion: a tree may be deeper than a stack. */
static bool learn_row(struct events_paths *p, const struct snapshot *s, uint32_t row)
{
    while (!find_row(p, &s->rows[row])) {
        uint32_t first = row;
        while (!is_outside(s, first) && !find_row(p, &s->rows[s->rows[first].parent_row]))
            first = s->rows[first].parent_row;
        if (!make_node(p, &s->rows[first], is_outside(s, first) ? NULL : find_row(p, &s->rows[s->rows[first].parent_row])))
            return false;
    }
    return true;
}

bool events_paths_learn(struct events_paths *p, const struct snapshot *s)
{
    bool whole = true;
    for (uint32_t i = 0; i < s->n_rows; i++)
        whole &= learn_row(p, s, i);
    return whole;
}
