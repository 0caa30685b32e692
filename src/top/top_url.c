/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan top URL`: a program is asked over HTTP. Its answers become a snapshot, as that of a process is. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/report.h"
#include "json.h"
#include "profile/hash.h"
#include "top.h"

#define MAX_ID (1u << 24) /* more than a program has */
#define WAIT_S 10

/* One answer of /spans. */
struct top_page {
    char *text; /* names lie in it */
    struct snapshot_row *rows;
    struct snapshot_label *labels;
    uint32_t *parents, *first_labels; /* by row: a context's number; an index */
    size_t n_rows, rows_room, n_labels, labels_room;
    struct snapshot snapshot;
};

/* ---- What is asked ---- */

/* The path is left out. The query, which may choose a process, is for fetch(). */
bool top_url_take(struct top *top, const char *word)
{
    const char *query = strchr(word, '?'), *host = strstr(word, "://");
    if (!fetch_is_url(word))
        return false;
    size_t n = host ? (size_t)(host + 3 - word) + strcspn(host + 3, "/?#") : strlen(word);
    bool has_query = host && query, fits = n + 1 + (has_query ? strlen(query) : 0) < sizeof top->url;
    snprintf(top->url, sizeof top->url, "%.*s%s%s", fits ? (int)n : 0, word, has_query ? "/" : "", has_query ? query : "");
    return true;
}

const char *top_url_fetch(const struct top *top, int fd, const char *path)
{
    const char *reason = fd < 0 ? strerror(errno) : fetch(fd, top->url, path, WAIT_S);
    return reason || lseek(fd, 0, SEEK_SET) == 0 ? reason : strerror(errno);
}

static const char *read_text(int fd, char **text, size_t *bytes)
{
    off_t end = lseek(fd, 0, SEEK_END);
    *bytes = end > 0 ? (size_t)end : 0;
    *text = malloc(*bytes + 1);
    if (!*text)
        return "out of memory";
    for (size_t n = 0; n < *bytes;) {
        ssize_t more = pread(fd, *text + n, *bytes - n, (off_t)n);
        if (more <= 0)
            return "the answer cannot be read";
        n += (size_t)more;
    }
    return NULL;
}

const char *top_url_text(const struct top *top, const char *path, char **text, size_t *bytes)
{
    int fd = memfd_create("jespan-top", MFD_CLOEXEC);
    *text = NULL;
    const char *reason = top_url_fetch(top, fd, path);
    if (!reason)
        reason = read_text(fd, text, bytes);
    if (fd >= 0)
        close(fd);
    return reason;
}

/* ---- /spans ---- */

static void *room_for(void *list, size_t n, size_t *room, size_t bytes)
{
    if (n < *room)
        return list;
    size_t more = *room ? 2 * *room : 256;
    void *grown = reallocarray(list, more, bytes);
    *room = grown ? more : *room;
    return grown;
}

static int read_label(struct top_page *p, struct json *j, const char *key)
{
    struct snapshot_label *labels = room_for(p->labels, p->n_labels, &p->labels_room, sizeof *labels);
    if (!labels)
        return -ENOMEM;
    p->labels = labels;
    labels[p->n_labels++] = (struct snapshot_label){.key = key, .value = json_text(j)};
    return 0;
}

static int read_labels(struct top_page *p, struct json *j, struct snapshot_row *row)
{
    int error = 0;
    json_open(j, '{');
    for (const char *key; !error && (key = json_key(j)); row->n_labels++)
        error = read_label(p, j, key);
    return error;
}

/* What is in use comes before what was allocated; frees are the difference. */
static bool read_figure(struct totals *t, struct json *j, const char *key)
{
    static const struct {
        const char *key;
        size_t member;
    } figures[] = {{"inuse_bytes", offsetof(struct totals, credited_in_bytes)},
                   {"inuse_objects", offsetof(struct totals, credited_in_objects)},
                   {"alloc_bytes", offsetof(struct totals, alloc_bytes)},
                   {"alloc_objects", offsetof(struct totals, alloc_objects)}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (strcmp(key, figures[i].key) == 0) {
            *(uint64_t *)((char *)t + figures[i].member) = json_number(j);
            return true;
        }
    return false;
}

static void find_frees(struct totals *t)
{
    t->free_bytes = t->alloc_bytes - t->credited_in_bytes;
    t->free_objects = t->alloc_objects - t->credited_in_objects;
    t->credited_in_bytes = t->credited_in_objects = 0;
}

static enum context_kind kind_of(const char *word)
{
    enum context_kind kind = CONTEXT_ROOT;
    while (kind < CONTEXT_STACK && strcmp(kind_text(kind), word) != 0)
        kind++;
    return kind;
}

static void read_total(struct json *j, struct snapshot_row *row)
{
    json_open(j, '{');
    for (const char *key; (key = json_key(j));) {
        if (strcmp(key, "peak_bytes") == 0)
            row->peaks.total_bytes = json_number(j);
        else
            json_skip(j);
    }
}

static int read_member(struct top_page *p, struct json *j, struct snapshot_row *row, uint32_t *parent, const char *key)
{
    if (strcmp(key, "id") == 0)
        row->id = (uint32_t)json_number(j);
    else if (strcmp(key, "parent") == 0)
        *parent = (uint32_t)json_number(j);
    else if (strcmp(key, "kind") == 0)
        row->kind = kind_of(json_text(j));
    else if (strcmp(key, "name") == 0)
        row->name = json_text(j);
    else if (strcmp(key, "labels") == 0)
        return read_labels(p, j, row);
    else if (strcmp(key, "peak_bytes") == 0)
        row->peaks.own_bytes = json_number(j);
    else if (strcmp(key, "total") == 0)
        read_total(j, row);
    else if (!read_figure(&row->totals, j, key))
        json_skip(j);
    return 0;
}

/* A number may come to name another context: then name, labels or parent differ. */
static uint32_t generation_of(const struct top_page *p, const struct snapshot_row *row, uint32_t parent, uint32_t first_label)
{
    uint64_t hash = hash_mix(hash_bytes(row->name, strlen(row->name)) + parent);
    for (uint32_t i = 0; i < row->n_labels; i++) {
        const struct snapshot_label *label = &p->labels[first_label + i];
        hash = hash_mix(hash + hash_bytes(label->key, strlen(label->key)));
        hash = hash_mix(hash + hash_bytes(label->value, strlen(label->value)));
    }
    return (uint32_t)hash >> 1; /* never that of a context that was not seen */
}

static int read_row(struct top_page *p, struct json *j)
{
    size_t room = p->rows_room, same = room;
    struct snapshot_row row = {.name = "", .target = "", .file = ""}, *rows = room_for(p->rows, p->n_rows, &p->rows_room, sizeof *rows);
    uint32_t *parents = room_for(p->parents, p->n_rows, &room, sizeof *parents);
    uint32_t *first_labels = room_for(p->first_labels, p->n_rows, &same, sizeof *first_labels);
    p->rows = rows ? rows : p->rows;
    p->parents = parents ? parents : p->parents;
    p->first_labels = first_labels ? first_labels : p->first_labels;
    if (!rows || !parents || !first_labels)
        return -ENOMEM;
    first_labels[p->n_rows] = (uint32_t)p->n_labels;
    parents[p->n_rows] = 0;
    int error = 0;
    json_open(j, '{');
    for (const char *key; !error && (key = json_key(j));)
        error = read_member(p, j, &row, &parents[p->n_rows], key);
    find_frees(&row.totals);
    row.generation = error ? 0 : generation_of(p, &row, parents[p->n_rows], first_labels[p->n_rows]);
    bool is_next = p->n_rows == 0 || row.id > rows[p->n_rows - 1].id;
    j->failed |= !is_next || row.id >= MAX_ID;
    rows[p->n_rows] = row;
    p->n_rows++;
    return error;
}

static int read_rows(struct top_page *p, struct json *j)
{
    int error = 0;
    json_open(j, '[');
    while (!error && json_item(j))
        error = read_row(p, j);
    return error;
}

static void read_all(struct top_page *p, struct json *j)
{
    json_open(j, '{');
    for (const char *key; (key = json_key(j));)
        if (!read_figure(&p->snapshot.all, j, key))
            json_skip(j);
    find_frees(&p->snapshot.all);
}

static int read_page(struct top_page *p, struct json *j, char name[16])
{
    int error = 0;
    json_open(j, '{');
    for (const char *key; !error && (key = json_key(j));) {
        if (strcmp(key, "pid") == 0)
            p->snapshot.pid = (uint32_t)json_number(j);
        else if (strcmp(key, "program") == 0)
            snprintf(name, 16, "%s", json_text(j));
        else if (strcmp(key, "all") == 0)
            read_all(p, j);
        else if (strcmp(key, "spans") == 0 && p->n_rows == 0)
            error = read_rows(p, j);
        else
            json_skip(j);
    }
    j->failed |= p->n_rows == 0;
    return error ? error : j->failed ? -EBADMSG : 0;
}

/* ---- A snapshot of it ---- */

/* Whether each row leads to the first one. walks[i]: the row from which a walk came to row i, and 1. */
static bool is_tree(const struct top_page *p, uint32_t *walks)
{
    for (uint32_t i = 1; i < p->n_rows; i++)
        for (uint32_t at = i; at != 0 && (!walks[at] || walks[at] == i + 1); at = p->rows[at].parent_row) {
            if (walks[at])
                return false;
            walks[at] = i + 1;
        }
    return true;
}

static int link_rows(struct top_page *p)
{
    uint32_t *walks = calloc(p->n_rows, sizeof *walks);
    if (!walks)
        return -ENOMEM;
    p->snapshot.rows = p->rows;
    p->snapshot.n_rows = (uint32_t)p->n_rows;
    for (size_t i = 0; i < p->n_rows; i++) {
        const struct snapshot_row *above = i ? snapshot_find(&p->snapshot, p->parents[i]) : NULL;
        p->rows[i].parent_row = above ? (uint32_t)(above - p->rows) : 0;
        p->rows[i].labels = p->rows[i].n_labels ? p->labels + p->first_labels[i] : NULL;
    }
    int error = is_tree(p, walks) ? 0 : -EBADMSG;
    free(walks);
    return error;
}

void top_url_free(struct top_page *p)
{
    if (!p)
        return;
    free(p->text);
    free(p->rows);
    free(p->labels);
    free(p->parents);
    free(p->first_labels);
    free(p);
}

const char *top_url_parse(struct top *top, char *text, size_t bytes)
{
    struct top_page *p = calloc(1, sizeof *p);
    struct json j = {text, text + bytes, 0, false};
    int error = p ? read_page(p, &j, top->name) : -ENOMEM;
    if (!error)
        error = link_rows(p);
    if (p)
        p->text = text;
    else
        free(text);
    if (error) {
        top_url_free(p);
        return error == -ENOMEM ? "out of memory" : "the answer is not that of a program with jespan";
    }
    top_url_free(top->page);
    top->page = p;
    top->snapshot = &p->snapshot;
    top->pid = (pid_t)p->snapshot.pid;
    return NULL;
}

const char *top_url_read(struct top *top)
{
    char *text;
    size_t bytes;
    const char *reason = top_url_text(top, "/spans?format=json&limit=100000", &text, &bytes);
    if (!reason)
        return top_url_parse(top, text, bytes);
    free(text);
    return reason;
}
