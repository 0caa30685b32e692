/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of calls. The host has them, since a module reads no debug information. Where the host has none, or not yet, a
 * call keeps the place in its binary as its name. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/process_stat.h"
#include "calls.h"

#define MOST_INLINED 20000u /* inlined functions of all calls */

/* ---- What the host is asked ---- */

/* A file that has code of the process. */
struct calls_binary {
    char path[PATH_MAX + 32];
    char build_id[2 * PROGRAM_BUILD_ID_BYTES + 1];
    uint64_t identity; /* 0: it cannot be opened, or another file has its name now */
};

/* The process may have another root directory. A path in ours leads to debug files better. */
static void find_binary(struct calls_binary *b, const struct code_maps *maps, const struct code_map *map)
{
    struct stat file, ours;
    bool is_vdso = strcmp(map->file, "[vdso]") == 0;
    int fd = is_vdso ? -1 : code_maps_open(maps, map);
    *b = (struct calls_binary){.identity = is_vdso};
    snprintf(b->path, sizeof b->path, "%s", map->file);
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0) {
        const uint64_t key[] = {file.st_dev, file.st_ino, (uint64_t)file.st_size, (uint64_t)file.st_mtim.tv_sec,
                                (uint64_t)file.st_mtim.tv_nsec};
        code_maps_identify(b->build_id, maps, map, fd);
        b->identity = map == maps->generated ? hash_bytes(HASH_START, b->build_id, strlen(b->build_id))
                                             : hash_bytes(HASH_START, key, sizeof key);
        if (maps->pid && (stat(map->file, &ours) || ours.st_dev != file.st_dev || ours.st_ino != file.st_ino))
            process_path_in_root(b->path, sizeof b->path, maps->pid, map->file);
    }
    close(fd);
}

/* Fills in what the host wants to know of each call. Returns false: there is no memory. */
static bool describe_calls(struct calls *c)
{
    uint32_t n = 0;
    c->asked = calloc(c->n + (size_t)1, sizeof *c->asked);
    c->binaries = calloc(code_maps_most(&c->maps), sizeof *c->binaries);
    if (!c->asked || !c->binaries)
        return false;
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t address = c->shown.frames[c->keys[i].frame].return_address - 1;
        struct code_map *map = code_maps_find(&c->maps, address);
        if (map && !map->id) {
            find_binary(&c->binaries[n++], &c->maps, map);
            map->id = n;
        }
        struct calls_binary *b = map ? &c->binaries[map->id - 1] : NULL;
        if (b && b->identity)
            c->asked[i] = (struct service_call){
                .path = b->path, .build_id = b->build_id, .identity = b->identity, .offset = address - map->start + map->offset};
    }
    return true;
}

/* ---- The rows ---- */

struct naming {
    struct calls *c;
    uint8_t *roles;    /* of each call: enum service_role */
    bool *is_kept;     /* even if its role is to be left out: nothing else is there */
    bool *is_left_out;
    uint32_t *last;    /* of each call of a stack: the innermost function that was inlined there; later: the call that it is one with */
    uint32_t *numbers; /* room for a number of each call */
};

static bool is_row_of_call(const struct calls *c, uint32_t row)
{
    return row >= c->n_contexts;
}

/* The number of the call that a row is about. */
static uint32_t call_of(const struct calls *c, uint32_t row)
{
    return row - c->n_contexts;
}

static void set_function(struct naming *n, uint32_t call, const struct service_function *function)
{
    struct snapshot_row *row = &n->c->rows[n->c->n_contexts + call];
    row->name = function->name;
    row->file = function->file;
    row->line = function->line;
    n->roles[call] = (uint8_t)function->role;
}

/* The row of a call becomes that of the function that the call is in. Each inlined function gets a row below the one before. The last
 * one has what was allocated there. */
static void add_inlined(struct naming *n, uint32_t call, const struct service_call *named)
{
    struct calls *c = n->c;
    uint32_t last = call;
    if (named->n_functions > 0)
        set_function(n, call, &named->functions[0]);
    for (uint32_t k = 1; k < named->n_functions && c->n < c->room; k++) {
        c->rows[c->n_contexts + c->n] = (struct snapshot_row){.id = c->rows[c->n_contexts].id + c->n, .parent_row = c->n_contexts + last,
                                                              .kind = CONTEXT_STACK, .target = c->rows[c->n_contexts + call].target};
        last = c->n++;
        set_function(n, last, &named->functions[k]);
    }
    if (last != call) {
        c->rows[c->n_contexts + last].totals = c->rows[c->n_contexts + call].totals;
        c->rows[c->n_contexts + call].totals = (struct totals){0};
    }
    n->last[call] = last;
}

static void add_functions(struct naming *n, const struct service_call *named)
{
    struct calls *c = n->c;
    uint32_t n_calls = c->n;
    for (uint32_t i = 0; i < n_calls; i++)
        add_inlined(n, i, &named[i]);
    for (uint32_t i = 0; i < n_calls; i++) {
        struct snapshot_row *row = &c->rows[c->n_contexts + i];
        if (is_row_of_call(c, row->parent_row))
            row->parent_row = c->n_contexts + n->last[call_of(c, row->parent_row)];
    }
}

/* ---- Functions that are left out, as in src/profile/stack.c ---- */

/* The start of a stripped program has no name. */
static void mark_unnamed_starts(struct naming *n)
{
    struct calls *c = n->c;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t above = c->rows[c->n_contexts + i].parent_row;
        if (n->roles[i] == SERVICE_STARTS && is_row_of_call(c, above) && n->roles[call_of(c, above)] == SERVICE_UNNAMED
            && !is_row_of_call(c, c->rows[above].parent_row))
            n->roles[call_of(c, above)] = SERVICE_STARTS;
    }
}

/* A start is one only if all calls above it are. */
static bool is_start(const struct naming *n, uint32_t row)
{
    while (is_row_of_call(n->c, row) && n->roles[call_of(n->c, row)] == SERVICE_STARTS)
        row = n->c->rows[row].parent_row;
    return !is_row_of_call(n->c, row);
}

/* Whether the call only carries one from a script's function above it. */
static bool is_carrier(const struct naming *n, uint32_t row)
{
    const struct calls *c = n->c;
    if (n->roles[call_of(c, row)] != SERVICE_CARRIES)
        return false;
    while (is_row_of_call(c, row) && n->roles[call_of(c, row)] != SERVICE_SCRIPT)
        row = c->rows[row].parent_row;
    return is_row_of_call(c, row);
}

/* What the allocator's functions and carriers have counts for their caller. */
static void move_to_caller(struct naming *n, uint32_t row)
{
    struct calls *c = n->c;
    uint32_t caller = row;
    if (!totals_any(&c->rows[row].totals))
        return;
    while (is_row_of_call(c, caller) && n->roles[call_of(c, caller)] == SERVICE_ALLOCATES)
        caller = c->rows[caller].parent_row;
    if (!is_row_of_call(c, caller) || is_start(n, caller)) {
        for (uint32_t at = row; is_row_of_call(c, at); at = c->rows[at].parent_row)
            n->is_kept[call_of(c, at)] = true;
        return;
    }
    while (is_carrier(n, caller))
        caller = c->rows[caller].parent_row;
    if (caller != row) {
        totals_add(&c->rows[caller].totals, &c->rows[row].totals);
        c->rows[row].totals = (struct totals){0};
    }
}

/* Functions of the allocator are left out from the innermost on, starts from the outermost on, and carriers everywhere. */
static void choose_left_out(struct naming *n, uint32_t *n_below)
{
    struct calls *c = n->c;
    for (uint32_t i = 0; i < c->n; i++)
        n_below[i] = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t above = c->rows[c->n_contexts + i].parent_row;
        if (is_row_of_call(c, above))
            n_below[call_of(c, above)]++;
        n->is_left_out[i] = !n->is_kept[i] && (is_start(n, c->n_contexts + i) || is_carrier(n, c->n_contexts + i));
    }
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t at = c->n_contexts + i; is_row_of_call(c, at); at = c->rows[at].parent_row) {
            uint32_t call = call_of(c, at);
            if (n->is_left_out[call] || n->is_kept[call] || n->roles[call] != SERVICE_ALLOCATES || n_below[call] > 0)
                break;
            n->is_left_out[call] = true;
            if (is_row_of_call(c, c->rows[at].parent_row))
                n_below[call_of(c, c->rows[at].parent_row)]--;
        }
}

/* Rows below those that are left out move up. */
static void move_up(struct naming *n)
{
    struct calls *c = n->c;
    for (uint32_t i = 0; i < c->n; i++) {
        struct snapshot_row *row = &c->rows[c->n_contexts + i];
        while (is_row_of_call(c, row->parent_row) && n->is_left_out[call_of(c, row->parent_row)])
            row->parent_row = c->rows[row->parent_row].parent_row;
    }
}

/* ---- Calls of a function at several places of a line, or of a binary without lines, are one ---- */

static bool is_same(const void *owner, uint32_t position, const void *key)
{
    const struct snapshot_row *x = &((const struct calls *)owner)->rows[position], *y = key;
    return x->parent_row == y->parent_row && x->line == y->line && strcmp(x->name, y->name) == 0 && strcmp(x->file, y->file) == 0
        && strcmp(x->target, y->target) == 0;
}

static uint32_t hash_row(const struct snapshot_row *row)
{
    const uint32_t numbers[] = {row->parent_row, row->line};
    return hash_fold(hash_bytes(hash_bytes(HASH_START, numbers, sizeof numbers), row->name, strlen(row->name)));
}

/* The row above it is merged already. */
static bool merge_row(struct naming *n, struct hash_index *index, uint32_t call)
{
    struct calls *c = n->c;
    struct snapshot_row *row = &c->rows[c->n_contexts + call];
    if (is_row_of_call(c, row->parent_row))
        row->parent_row = c->n_contexts + n->last[call_of(c, row->parent_row)];
    uint32_t hash = hash_row(row), found = hash_index_find(index, hash, is_same, c, row);
    n->last[call] = found != HASH_INDEX_NONE ? call_of(c, found) : call;
    if (found == HASH_INDEX_NONE)
        return hash_index_add(index, hash, c->n_contexts + call) == 0;
    totals_add(&c->rows[found].totals, &row->totals);
    n->is_left_out[call] = true;
    return true;
}

/* From the outermost call on. `path` has room for all. */
static bool merge(struct naming *n, uint32_t *path)
{
    struct calls *c = n->c;
    struct hash_index index = {0};
    bool done = true;
    for (uint32_t i = 0; i < c->n; i++)
        n->last[i] = HASH_INDEX_NONE;
    for (uint32_t i = 0; i < c->n && done; i++) {
        uint32_t n_path = 0, at = c->n_contexts + i;
        for (; is_row_of_call(c, at) && n->last[call_of(c, at)] == HASH_INDEX_NONE && !n->is_left_out[call_of(c, at)];
             at = c->rows[at].parent_row)
            path[n_path++] = call_of(c, at);
        while (n_path > 0 && done)
            done = merge_row(n, &index, path[--n_path]);
    }
    hash_index_free(&index);
    return done;
}

/* ---- What is left ---- */

/* No row is below one that is removed. `at` gets the new place of each row. */
static void remove_left_out(struct naming *n, uint32_t *at)
{
    struct calls *c = n->c;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        at[i] = kept;
        kept += !n->is_left_out[i];
    }
    for (uint32_t i = 0; i < c->n; i++) {
        struct snapshot_row row = c->rows[c->n_contexts + i];
        if (is_row_of_call(c, row.parent_row))
            row.parent_row = c->n_contexts + at[call_of(c, row.parent_row)];
        if (!n->is_left_out[i])
            c->rows[c->n_contexts + at[i]] = row;
    }
    c->n = kept;
}

/* ---- All of it ---- */

/* Makes room for inlined functions, and for what is known of each call. */
static bool reserve(struct naming *n, const struct service_call *named)
{
    struct calls *c = n->c;
    size_t n_inlined = 0;
    for (uint32_t i = 0; i < c->n; i++)
        n_inlined += named[i].n_functions > 1 ? named[i].n_functions - 1 : 0;
    uint32_t room = c->n + (uint32_t)(n_inlined < MOST_INLINED ? n_inlined : MOST_INLINED);
    struct snapshot_row *rows = realloc(c->rows, ((size_t)c->n_contexts + room) * sizeof *rows);
    c->rows = rows ? rows : c->rows;
    c->room = room;
    n->roles = calloc(room + (size_t)1, sizeof *n->roles);
    n->is_kept = calloc(room + (size_t)1, sizeof *n->is_kept);
    n->is_left_out = calloc(room + (size_t)1, sizeof *n->is_left_out);
    n->last = calloc(room + (size_t)1, sizeof *n->last);
    n->numbers = calloc(room + (size_t)1, sizeof *n->numbers);
    return rows && n->roles && n->is_kept && n->is_left_out && n->last && n->numbers;
}

static bool show_names(struct calls *c, const struct service_call *named)
{
    struct naming n = {.c = c};
    bool done = reserve(&n, named);
    if (done) {
        add_functions(&n, named);
        mark_unnamed_starts(&n);
        for (uint32_t i = 0; i < c->n; i++)
            move_to_caller(&n, c->n_contexts + i);
        choose_left_out(&n, n.numbers);
        move_up(&n);
        done = merge(&n, n.numbers);
    }
    if (done)
        remove_left_out(&n, n.numbers);
    free(n.roles);
    free(n.is_kept);
    free(n.is_left_out);
    free(n.last);
    free(n.numbers);
    return done;
}

int calls_ask_names(struct calls *c, const struct service_host *host)
{
    if (!host->name_calls)
        return 0;
    if (!c->asked && !describe_calls(c))
        return -ENOMEM;
    calls_end_names(c);
    c->host = host;
    return (int)host->name_calls(c->asked, c->n);
}

bool calls_show_names(struct calls *c)
{
    if (c->host && !show_names(c, c->asked))
        return false;
    c->shown.rows = c->rows;
    c->shown.n_rows = c->n_contexts + c->n;
    return true;
}

void calls_end_names(struct calls *c)
{
    if (c->host)
        c->host->end_names();
    c->host = NULL;
}
