/* SPDX-License-Identifier: BSD-2-Clause */
/* A digest: adds contexts, merges digests, and shows them to encoders as a snapshot. */
#include "digest.h"

#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "digest_nodes.h"
#include "period.h"

/* ---- Which labels are kept ---- */

static bool is_hexadecimal(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

/* Servers refuse a malformed id, so it is not kept, even if it is listed. */
static bool is_kept(const struct digest_shape *shape, const struct snapshot_label *label)
{
    bool wanted = shape->all || list_find(shape->labels, label->key) >= 0;
    if (strcmp(label->key, "span_id") == 0)
        return (shape->ids || wanted) && is_hexadecimal(label->value, 16);
    if (strcmp(label->key, "trace_id") == 0)
        return (shape->ids || wanted) && is_hexadecimal(label->value, 32);
    return wanted;
}

/* The key, or its name at the server. */
static const char *name_of(const struct digest_shape *shape, const char *key)
{
    const char *name = shape->names ? label_names_find(shape->names, key) : NULL;
    return name ? name : key;
}

static bool has(const struct snapshot_label *labels, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, key) == 0)
            return true;
    return false;
}

/* Writes the labels of a row's node: the selected labels of the row, and of those of the path above it, which are in
 * one node, the ones with other keys. Returns their number. */
static uint32_t keep_labels(const struct digest_shape *shape, const struct snapshot_row *row,
                            const struct digest_node *above, struct snapshot_label kept[DIGEST_MAX_LABELS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->n_labels && n < DIGEST_MAX_LABELS; i++) {
        const char *name = name_of(shape, row->labels[i].key);
        if (!is_kept(shape, &row->labels[i]) || has(kept, n, name))
            continue;
        kept[n] = row->labels[i];
        kept[n++].key = name;
    }
    for (uint32_t i = 0; i < above->n_labels && n < DIGEST_MAX_LABELS; i++)
        if (!has(kept, n, above->labels[i].key))
            kept[n++] = above->labels[i];
    return n;
}

/* ---- Adding ---- */

static struct digest_node key_of_site(uint32_t parent, const struct snapshot_row *row)
{
    return (struct digest_node){.parent = parent, .line = row->line, .name = row->name, .target = row->target,
                                .file = row->file};
}

static uint32_t find_labels(struct digest *d, uint32_t site, const struct snapshot_label *labels, uint32_t n)
{
    if (n == 0)
        return site;
    uint32_t node = digest_find(d, (struct digest_node){.parent = site, .name = "", .target = "", .file = "",
                                                        .labels = labels, .n_labels = n});
    return node != DIGEST_NONE ? node : site;
}

/* Finds the node of a row whose parent's node is known. */
static uint32_t node_of_row(struct digest *d, const struct snapshot_row *row, uint32_t above)
{
    struct snapshot_label kept[DIGEST_MAX_LABELS];
    uint32_t n = keep_labels(d->shape, row, &d->nodes[above], kept);
    uint32_t parent = d->shape->flat ? DIGEST_ROOT : digest_site_of(d, above);
    uint32_t site = digest_find(d, key_of_site(parent, row));
    return site != DIGEST_NONE ? find_labels(d, site, kept, n) : above;
}

static void forget_rows(struct digest *d)
{
    free(d->node_of);
    free(d->waiting);
    d->node_of = d->waiting = NULL;
}

/* The nodes of rows are kept for the next rows of the same snapshot. */
static bool begin_snapshot(struct digest *d, const struct snapshot *s)
{
    if (d->node_of && d->epoch == s->epoch)
        return true;
    forget_rows(d);
    d->epoch = s->epoch;
    d->program = s->program;
    d->node_of = calloc(s->n_rows + (size_t)1, sizeof *d->node_of);
    d->waiting = malloc((s->n_rows + (size_t)1) * sizeof *d->waiting);
    if (!d->node_of || !d->waiting) {
        forget_rows(d);
        return false;
    }
    d->node_of[0] = DIGEST_ROOT + 1;
    return true;
}

/* Walks up to the nearest row whose node is known, then down again. Paths may be too long for recursion. A row without
 * a valid parent is a child of the root. */
static uint32_t node_for(struct digest *d, const struct snapshot *s, uint32_t row)
{
    uint32_t below = DIGEST_NONE;
    while (d->node_of[row] == 0) {
        d->waiting[row] = below;
        below = row;
        row = s->rows[row].parent_row;
        if (row >= s->n_rows || row == below)
            row = 0;
    }
    uint32_t node = d->node_of[row] - 1;
    for (; below != DIGEST_NONE; below = d->waiting[below]) {
        node = node_of_row(d, &s->rows[below], node);
        d->node_of[below] = node + 1;
    }
    return node;
}

static uint32_t node_of_retired(struct digest *d)
{
    uint32_t node = digest_find(d, (struct digest_node){.name = "(retired)", .target = "", .file = ""});
    return node != DIGEST_NONE ? node : DIGEST_ROOT;
}

void digest_add(void *digest, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    struct digest *d = digest;
    uint32_t node = DIGEST_ROOT;
    if (row == PERIOD_RETIRED)
        node = node_of_retired(d);
    else if (begin_snapshot(d, s))
        node = node_for(d, s, row);
    totals_add(&d->nodes[node].totals, totals);
}

/* ---- Creating ---- */

struct digest *digest_make(const struct digest_shape *shape)
{
    struct digest *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->shape = shape;
    if (digest_find(d, (struct digest_node){.name = "(root)", .target = "", .file = ""}) != DIGEST_ROOT) {
        digest_free(d);
        return NULL;
    }
    return d;
}

void digest_free(struct digest *d)
{
    if (!d)
        return;
    forget_rows(d);
    digest_free_nodes(d);
    free(d->rows);
    free(d);
}

void digest_set_time(struct digest *d, uint64_t from_unix_ns, uint64_t to_unix_ns)
{
    d->from_unix_ns = from_unix_ns;
    d->to_unix_ns = to_unix_ns;
}

uint64_t digest_from_unix_ns(const struct digest *d)
{
    return d->from_unix_ns;
}

size_t digest_bytes(const struct digest *d)
{
    return sizeof *d + d->nodes_capacity * sizeof *d->nodes + hash_index_bytes(&d->index) + d->chunks_bytes
        + d->view.n_rows * sizeof *d->rows;
}

uint32_t digest_nodes(const struct digest *d)
{
    return d->n_nodes;
}

/* ---- Merging ---- */

/* Objects that lived between the two periods count as moved in for the newer one. The sum must count them once. */
static void add_older(struct totals *to, const struct totals *older)
{
    struct totals now = *to;
    totals_add(to, older);
    to->credited_in_objects -= totals_inuse_objects(older);
    to->credited_in_bytes -= totals_inuse_bytes(older);
    to->outlived_objects = now.outlived_objects;
    to->outlived_bytes = now.outlived_bytes;
}

void digest_merge(struct digest *newer, const struct digest *older)
{
    uint32_t *map = malloc(older->n_nodes * sizeof *map);
    forget_rows(newer);
    for (uint32_t i = 0; i < older->n_nodes; i++) {
        uint32_t node = map ? digest_find_in(newer, older, i, map) : DIGEST_ROOT;
        if (map)
            map[i] = node;
        add_older(&newer->nodes[node].totals, &older->nodes[i].totals);
    }
    free(map);
    if (older->from_unix_ns < newer->from_unix_ns)
        newer->from_unix_ns = older->from_unix_ns;
}

/* ---- Clearing figures ---- */

static void clear_allocations(struct totals *t)
{
    const uint64_t objects = totals_inuse_objects(t), bytes = totals_inuse_bytes(t);
    t->alloc_objects = t->alloc_bytes = t->alloc_requested_bytes = t->free_objects = t->free_bytes = 0;
    t->credited_out_objects = t->credited_out_bytes = 0;
    t->credited_in_objects = objects;
    t->credited_in_bytes = bytes;
}

void digest_clear(struct digest *d, enum digest_figures figures)
{
    for (struct digest_node *n = d->nodes; n < d->nodes + d->n_nodes; n++) {
        switch (figures) {
        case DIGEST_ALLOCATIONS:
            clear_allocations(&n->totals);
            break;
        case DIGEST_CPU:
            n->totals.cpu = n->totals.cpu_user = n->totals.cpu_system = 0;
            break;
        case DIGEST_WALL:
            n->totals.wall = 0;
            break;
        }
    }
}

/* ---- Compaction ---- */

static uint32_t parent_of(const struct digest *d, uint32_t index)
{
    return d->nodes[index].parent;
}

/* The node of the caller's frame. */
static uint32_t caller_of(const struct digest *d, uint32_t index)
{
    return d->nodes[digest_site_of(d, index)].parent;
}

/* Returns for each node whether it or a descendant has figures. NULL: no memory. */
static bool *find_used(const struct digest *d, uint32_t (*above)(const struct digest *, uint32_t))
{
    bool *used = calloc(d->n_nodes, sizeof *used);
    if (!used)
        return NULL;
    used[DIGEST_ROOT] = true;
    for (uint32_t i = d->n_nodes; i-- > DIGEST_ROOT + 1;)
        if (used[i] || digest_has_figures(&d->nodes[i]))
            used[i] = used[above(d, i)] = true;
    return used;
}

static void copy_used(struct digest *to, const struct digest *from, const bool *used, uint32_t *map)
{
    for (uint32_t i = 0; i < from->n_nodes; i++)
        if (used[i]) {
            map[i] = digest_find_in(to, from, i, map);
            totals_add(&to->nodes[map[i]].totals, &from->nodes[i].totals);
        }
    digest_set_time(to, from->from_unix_ns, from->to_unix_ns);
}

void digest_compact(struct digest *d)
{
    bool *used = find_used(d, parent_of);
    uint32_t *map = malloc(d->n_nodes * sizeof *map);
    struct digest *to = digest_make(d->shape);
    if (used && map && to) {
        copy_used(to, d, used, map);
        struct digest before = *d;
        *d = *to;
        *to = before;
    }
    digest_free(to);
    free(map);
    free(used);
}

/* ---- For encoders ---- */

/* The frames of a path are sites. The last node has the labels of the whole path (labels_of_path). */
static struct snapshot_row make_row(const struct digest *d, uint32_t index, const uint32_t *map)
{
    const struct digest_node *node = &d->nodes[index], *site = &d->nodes[digest_site_of(d, index)];
    return (struct snapshot_row){
        .id = map[index] + 1, .parent_row = map[caller_of(d, index)],
        .kind = index == DIGEST_ROOT ? CONTEXT_ROOT : CONTEXT_SPAN, .line = site->line, .name = site->name,
        .target = site->target, .file = site->file, .labels = node->labels, .n_labels = node->n_labels,
        .totals = node->totals};
}

/* Returns the number of rows. */
static uint32_t make_rows(struct digest *d, const bool *used, uint32_t *map)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_nodes; i++)
        if (used[i]) {
            map[i] = n++;
            d->rows[map[i]] = make_row(d, i, map);
        }
    return n;
}

const struct snapshot *digest_view(struct digest *d)
{
    bool *used = find_used(d, caller_of);
    uint32_t *map = malloc(d->n_nodes * sizeof *map);
    forget_rows(d);
    free(d->rows);
    d->rows = malloc(d->n_nodes * sizeof *d->rows);
    d->view = (struct snapshot){.start_unix_ns = d->from_unix_ns, .time_unix_ns = d->to_unix_ns, .rows = d->rows,
                                .program = d->program, .labels_of_path = true};
    if (used && map && d->rows)
        d->view.n_rows = make_rows(d, used, map);
    free(used);
    free(map);
    return d->view.n_rows > 0 ? &d->view : NULL;
}
