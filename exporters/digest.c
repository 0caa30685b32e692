/* SPDX-License-Identifier: BSD-2-Clause */
/* A digest: nodes in an array, parents before children, found by a hash table of their keys. */
#include "digest.h"

#include <stdlib.h>
#include <string.h>

#include "period.h"

#define ROOT 0u
#define NONE UINT32_MAX
#define MAX_KEYS 64u         /* of labels */
#define MIN_SLOTS 256u       /* a power of 2 */
#define TEXT_BLOCK_BYTES 16384u

struct node {
    uint32_t parent, line;
    uint32_t hash;
    const char *name, *target, *file; /* the digest's own copies */
    const struct snapshot_label *labels;
    uint32_t n_labels;
    struct totals totals;
};

struct block {
    struct block *next;
    size_t used, bytes;
    char data[];
};

struct digest {
    const struct digest_shape *shape;
    struct node *nodes;
    uint32_t n_nodes, nodes_room;
    uint32_t *slots; /* indices of nodes + 1 */
    uint32_t n_slots;
    struct block *blocks;
    size_t blocks_bytes;
    uint64_t from_unix_ns, to_unix_ns;
    struct snapshot view;
    struct snapshot_row *rows;
    /* Of the snapshot with that epoch, the node that a row belongs to, + 1; 0: not known yet. And the row that waits for
     * it to become known. */
    uint64_t epoch;
    uint32_t *node_of, *waiting;
};

/* ---- Memory ---- */

static void *take(struct digest *d, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (d->blocks == NULL || d->blocks->bytes - d->blocks->used < bytes) {
        size_t room = bytes > TEXT_BLOCK_BYTES ? bytes : TEXT_BLOCK_BYTES;
        struct block *block = malloc(sizeof *block + room);
        if (block == NULL)
            return NULL;
        *block = (struct block){.next = d->blocks, .bytes = room};
        d->blocks = block;
        d->blocks_bytes += sizeof *block + room;
    }
    void *taken = d->blocks->data + d->blocks->used;
    d->blocks->used += bytes;
    return taken;
}

static const char *copy(struct digest *d, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *to = text[0] != '\0' ? take(d, bytes) : NULL;
    if (text[0] == '\0')
        return "";
    return to != NULL ? memcpy(to, text, bytes) : NULL;
}

/* ---- Finding a node ---- */

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return (hash ^ 0xff) * 16777619u;
}

static uint32_t hash_node(const struct node *n)
{
    uint32_t hash = (2166136261u ^ n->parent) * 16777619u ^ n->line;
    hash = hash_text(hash_text(hash_text(hash, n->name), n->target), n->file);
    for (uint32_t i = 0; i < n->n_labels; i++)
        hash = hash_text(hash_text(hash, n->labels[i].key), n->labels[i].value);
    return hash ^ hash >> 15;
}

static bool is_same(const struct node *a, const struct node *b)
{
    if (a->hash != b->hash || a->parent != b->parent || a->line != b->line || a->n_labels != b->n_labels
        || strcmp(a->name, b->name) != 0 || strcmp(a->target, b->target) != 0 || strcmp(a->file, b->file) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_labels; i++)
        if (strcmp(a->labels[i].key, b->labels[i].key) != 0 || strcmp(a->labels[i].value, b->labels[i].value) != 0)
            return false;
    return true;
}

static void put_in_slot(struct digest *d, uint32_t index)
{
    uint32_t i = d->nodes[index].hash & (d->n_slots - 1);
    while (d->slots[i] != 0)
        i = (i + 1) & (d->n_slots - 1);
    d->slots[i] = index + 1;
}

static bool grow_slots(struct digest *d)
{
    if (d->n_nodes < d->n_slots / 2)
        return true;
    uint32_t n = d->n_slots > 0 ? 2 * d->n_slots : MIN_SLOTS, *slots = calloc(n, sizeof *slots);
    if (slots == NULL)
        return false;
    free(d->slots);
    d->slots = slots;
    d->n_slots = n;
    for (uint32_t i = 0; i < d->n_nodes; i++)
        put_in_slot(d, i);
    return true;
}

static bool grow_nodes(struct digest *d)
{
    if (d->n_nodes < d->nodes_room)
        return true;
    uint32_t room = d->nodes_room > 0 ? 2 * d->nodes_room : 64;
    struct node *nodes = realloc(d->nodes, room * sizeof *nodes);
    if (nodes == NULL)
        return false;
    d->nodes = nodes;
    d->nodes_room = room;
    return true;
}

static bool copy_labels(struct digest *d, struct node *n)
{
    struct snapshot_label *labels = take(d, n->n_labels * sizeof *labels);
    if (labels == NULL)
        return false;
    for (uint32_t i = 0; i < n->n_labels; i++) {
        labels[i] = (struct snapshot_label){copy(d, n->labels[i].key), copy(d, n->labels[i].value), 0, false};
        if (labels[i].key == NULL || labels[i].value == NULL)
            return false;
    }
    n->labels = labels;
    return true;
}

/* The node with that key, made where there is none. NONE: no memory. */
static uint32_t find(struct digest *d, struct node key)
{
    key.hash = hash_node(&key);
    for (uint32_t i = key.hash; d->n_slots > 0 && d->slots[i & (d->n_slots - 1)] != 0; i++)
        if (is_same(&d->nodes[d->slots[i & (d->n_slots - 1)] - 1], &key))
            return d->slots[i & (d->n_slots - 1)] - 1;
    key.name = copy(d, key.name);
    key.target = copy(d, key.target);
    key.file = copy(d, key.file);
    if (key.name == NULL || key.target == NULL || key.file == NULL || (key.n_labels > 0 && !copy_labels(d, &key))
        || !grow_nodes(d) || !grow_slots(d))
        return NONE;
    d->nodes[d->n_nodes] = key;
    put_in_slot(d, d->n_nodes);
    return d->n_nodes++;
}

/* ---- Which labels ---- */

static bool is_listed(const char *keys, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = keys; n > 0; at++) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, key, n) == 0)
            return true;
        at += length;
        if (*at == '\0')
            break;
    }
    return false;
}

static bool is_hexadecimal(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static bool is_id(const struct snapshot_label *label)
{
    return (strcmp(label->key, "span_id") == 0 && is_hexadecimal(label->value, 16))
        || (strcmp(label->key, "trace_id") == 0 && is_hexadecimal(label->value, 32));
}

/* An id that is no id is not kept, even where it is listed: servers refuse it. */
static bool is_kept(const struct digest_shape *shape, const struct snapshot_label *label)
{
    if (strcmp(label->key, "span_id") == 0 || strcmp(label->key, "trace_id") == 0)
        return shape->ids && is_id(label);
    return is_listed(shape->labels, label->key);
}

static bool has(const struct snapshot_label *labels, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, key) == 0)
            return true;
    return false;
}

static uint32_t keep_labels(const struct digest *d, const struct snapshot_row *row, struct snapshot_label *kept)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->n_labels && n < MAX_KEYS; i++)
        if (is_kept(d->shape, &row->labels[i]) && !has(kept, n, row->labels[i].key))
            kept[n++] = row->labels[i];
    return n;
}

/* Those of the spans above that this one has not itself. */
static uint32_t inherit_labels(const struct node *above, struct snapshot_label *kept, uint32_t n)
{
    for (uint32_t i = 0; i < above->n_labels && n < MAX_KEYS; i++)
        if (!has(kept, n, above->labels[i].key))
            kept[n++] = above->labels[i];
    return n;
}

/* ---- Adding ---- */

/* The node of a row whose parent's node is known. */
static uint32_t node_of_row(struct digest *d, const struct snapshot_row *row, uint32_t above)
{
    struct snapshot_label kept[MAX_KEYS];
    uint32_t n = keep_labels(d, row, kept);
    n = inherit_labels(&d->nodes[above], kept, n);
    uint32_t node = find(d, (struct node){.parent = d->shape->flat ? ROOT : above, .line = row->line, .name = row->name,
                                          .target = row->target, .file = row->file, .labels = kept, .n_labels = n});
    return node != NONE ? node : above;
}

static void forget_rows(struct digest *d)
{
    free(d->node_of);
    free(d->waiting);
    d->node_of = d->waiting = NULL;
}

/* Rows of a snapshot are asked for one after another, so what is known of them is kept. */
static bool begin_snapshot(struct digest *d, const struct snapshot *s)
{
    if (d->node_of != NULL && d->epoch == s->epoch)
        return true;
    forget_rows(d);
    d->epoch = s->epoch;
    d->node_of = calloc(s->n_rows + (size_t)1, sizeof *d->node_of);
    d->waiting = calloc(s->n_rows + (size_t)1, sizeof *d->waiting);
    if (d->node_of == NULL || d->waiting == NULL) {
        forget_rows(d);
        return false;
    }
    d->node_of[0] = ROOT + 1;
    return true;
}

/* Up to the nearest row whose node is known, then down again: paths may be too long for recursion. */
static uint32_t node_for(struct digest *d, const struct snapshot *s, uint32_t row)
{
    uint32_t below = NONE;
    while (d->node_of[row] == 0) {
        d->waiting[row] = below;
        below = row;
        row = s->rows[row].parent_row;
    }
    uint32_t node = d->node_of[row] - 1;
    for (; below != NONE; below = d->waiting[below]) {
        node = node_of_row(d, &s->rows[below], node);
        d->node_of[below] = node + 1;
    }
    return node;
}

static uint32_t node_of_retired(struct digest *d)
{
    uint32_t node = find(d, (struct node){.parent = ROOT, .name = "(retired)", .target = "", .file = ""});
    return node != NONE ? node : ROOT;
}

void digest_add(void *digest, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    struct digest *d = digest;
    uint32_t node = ROOT;
    if (row == PERIOD_RETIRED)
        node = node_of_retired(d);
    else if (begin_snapshot(d, s))
        node = node_for(d, s, row);
    totals_add(&d->nodes[node].totals, totals);
}

/* ---- Making and merging ---- */

struct digest *digest_make(const struct digest_shape *shape)
{
    struct digest *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->shape = shape;
    if (find(d, (struct node){.parent = ROOT, .name = "", .target = "", .file = ""}) != ROOT) {
        digest_free(d);
        return NULL;
    }
    return d;
}

static void free_content(struct digest *d)
{
    forget_rows(d);
    for (struct block *next, *block = d->blocks; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(d->nodes);
    free(d->slots);
    free(d->rows);
}

void digest_free(struct digest *d)
{
    if (d == NULL)
        return;
    free_content(d);
    free(d);
}

static bool has_figures(const struct node *n)
{
    static const struct totals none;
    return memcmp(&n->totals, &none, sizeof none) != 0;
}

/* The same node in another digest; `map` has those of the nodes before it. */
static uint32_t find_in(struct digest *to, const struct digest *from, uint32_t index, const uint32_t *map)
{
    struct node key = from->nodes[index];
    if (index == ROOT)
        return ROOT;
    key.parent = map[key.parent];
    key.totals = (struct totals){0};
    uint32_t node = find(to, key);
    return node != NONE ? node : key.parent;
}

/* What the older period's end held is what the newer one's start held, which counts there as moved in. */
static void add_older(struct totals *to, const struct totals *older)
{
    struct totals outlived = *to;
    totals_add(to, older);
    to->moved_in_objects -= totals_inuse_objects(older);
    to->moved_in_bytes -= totals_inuse_bytes(older);
    to->outlived_objects = outlived.outlived_objects;
    to->outlived_bytes = outlived.outlived_bytes;
}

void digest_merge(struct digest *newer, const struct digest *older)
{
    uint32_t *map = malloc(older->n_nodes * sizeof *map);
    forget_rows(newer);
    for (uint32_t i = 0; i < older->n_nodes; i++) {
        uint32_t node = map != NULL ? find_in(newer, older, i, map) : ROOT;
        if (map != NULL)
            map[i] = node;
        add_older(&newer->nodes[node].totals, &older->nodes[i].totals);
    }
    free(map);
    if (older->from_unix_ns < newer->from_unix_ns)
        newer->from_unix_ns = older->from_unix_ns;
}

static void forget_allocations(struct totals *t)
{
    const uint64_t objects = totals_inuse_objects(t), bytes = totals_inuse_bytes(t);
    t->alloc_objects = t->alloc_bytes = t->alloc_requested_bytes = t->free_objects = t->free_bytes = 0;
    t->moved_out_objects = t->moved_out_bytes = 0;
    t->moved_in_objects = objects;
    t->moved_in_bytes = bytes;
}

void digest_forget(struct digest *d, enum digest_figures figures)
{
    for (struct node *n = d->nodes; n < d->nodes + d->n_nodes; n++) {
        switch (figures) {
        case DIGEST_ALLOCATIONS:
            forget_allocations(&n->totals);
            break;
        case DIGEST_CPU:
            n->totals.cpu = n->totals.cpu_system = 0;
            break;
        case DIGEST_WALL:
            n->totals.wall = 0;
            break;
        }
    }
}

void digest_set_time(struct digest *d, uint64_t from_unix_ns, uint64_t to_unix_ns)
{
    d->from_unix_ns = from_unix_ns;
    d->to_unix_ns = to_unix_ns;
}

size_t digest_bytes(const struct digest *d)
{
    return sizeof *d + d->nodes_room * sizeof *d->nodes + d->n_slots * sizeof *d->slots + d->blocks_bytes;
}

uint32_t digest_nodes(const struct digest *d)
{
    return d->n_nodes;
}

/* ---- Folding ---- */

struct weight {
    uint32_t node;
    double weight;
};

static int compare_weights(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? -1 : 1) : x->node > y->node ? -1 : x->node < y->node;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 && (int64_t)part > 0 ? (double)part / (double)whole : 0;
}

static double weigh(const struct totals *t, const struct totals *all)
{
    return share(totals_inuse_bytes(t), totals_inuse_bytes(all)) + share(t->alloc_bytes, all->alloc_bytes)
        + share(t->cpu, all->cpu) + share(t->wall, all->wall);
}

/* The nodes with figures, but for the root, from the smallest. Returns how many. */
static uint32_t list_weights(const struct digest *d, struct weight *weights)
{
    struct totals all = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_nodes; i++)
        totals_add(&all, &d->nodes[i].totals);
    for (uint32_t i = ROOT + 1; i < d->n_nodes; i++)
        if (has_figures(&d->nodes[i]))
            weights[n++] = (struct weight){i, weigh(&d->nodes[i].totals, &all)};
    qsort(weights, n, sizeof *weights, compare_weights);
    return n;
}

/* The node of the same path without labels of its own. */
static uint32_t without_labels(struct digest *d, uint32_t index)
{
    struct node key = d->nodes[index];
    const struct node *above = &d->nodes[key.parent];
    key.labels = above->labels;
    key.n_labels = above->n_labels;
    key.totals = (struct totals){0};
    uint32_t node = find(d, key);
    return node != NONE ? node : key.parent;
}

static void fold(struct digest *d, uint32_t index)
{
    uint32_t to = without_labels(d, index);
    if (to == index)
        to = d->nodes[index].parent;
    totals_add(&d->nodes[to].totals, &d->nodes[index].totals);
    d->nodes[index].totals = (struct totals){0};
}

/* Marks, in `used`, nodes with figures and what is above them. */
static void mark_used(const struct digest *d, bool *used)
{
    used[ROOT] = true;
    for (uint32_t i = d->n_nodes; i-- > ROOT + 1;)
        if (used[i] || has_figures(&d->nodes[i]))
            used[i] = used[d->nodes[i].parent] = true;
}

/* Gives back the memory of nodes that are empty now. Without memory for that it stays. */
static void compact(struct digest *d)
{
    bool *used = calloc(d->n_nodes, sizeof *used);
    uint32_t *map = malloc(d->n_nodes * sizeof *map);
    struct digest *to = digest_make(d->shape);
    if (used != NULL && map != NULL && to != NULL) {
        mark_used(d, used);
        for (uint32_t i = 0; i < d->n_nodes; i++)
            if (used[i]) {
                map[i] = find_in(to, d, i, map);
                totals_add(&to->nodes[map[i]].totals, &d->nodes[i].totals);
            }
        digest_set_time(to, d->from_unix_ns, d->to_unix_ns);
        struct digest before = *d;
        *d = *to;
        *to = before;
    }
    digest_free(to);
    free(map);
    free(used);
}

/* Each round moves figures nearer to the root, so there is an end. */
uint32_t digest_fold(struct digest *d, uint32_t max)
{
    uint32_t folded = 0;
    forget_rows(d);
    for (;;) {
        struct weight *weights = malloc(d->n_nodes * sizeof *weights);
        uint32_t n = weights != NULL ? list_weights(d, weights) : 0;
        for (uint32_t i = 0; i + max < n + 1; i++, folded++) /* one is the root's */
            fold(d, weights[i].node);
        free(weights);
        if (n < max)
            break;
    }
    if (folded > 0)
        compact(d);
    return folded;
}

/* ---- For encoders ---- */

const struct snapshot *digest_view(struct digest *d)
{
    bool *used = calloc(d->n_nodes, sizeof *used);
    uint32_t *map = malloc(d->n_nodes * sizeof *map), n = 0;
    forget_rows(d);
    free(d->rows);
    d->rows = malloc(d->n_nodes * sizeof *d->rows);
    if (used != NULL && map != NULL && d->rows != NULL) {
        mark_used(d, used);
        for (uint32_t i = 0; i < d->n_nodes; i++) {
            const struct node *node = &d->nodes[i];
            if (!used[i])
                continue;
            map[i] = n;
            d->rows[n] = (struct snapshot_row){
                .id = n + 1, .parent_row = map[node->parent], .kind = i == ROOT ? CONTEXT_ROOT : CONTEXT_SPAN,
                .line = node->line, .name = node->name, .target = node->target, .file = node->file,
                .labels = node->labels, .n_labels = node->n_labels, .totals = node->totals};
            n++;
        }
        d->view = (struct snapshot){.start_unix_ns = d->from_unix_ns, .time_unix_ns = d->to_unix_ns, .n_rows = n,
                                    .rows = d->rows, .labels_of_path = true};
    }
    free(used);
    free(map);
    return n > 0 ? &d->view : NULL;
}
