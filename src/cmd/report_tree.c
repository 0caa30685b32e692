/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows that include what is below them.
 *
 * A sample knows its path, and the labels of the whole path, those of the leaf first. So a context above it has the
 * same path without some inner frames, and as labels the last ones of the sample's, as far as that context has a sample
 * itself; otherwise all that are left. Contexts are told apart by a hash of both alone, 64 bits of it: only by chance
 * would two be mixed up. Labels are hashed so that their order is of no matter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report_rows.h"

#define FIRST_SLOTS 1024u
#define NOT_FOUND UINT32_MAX
#define MAX_ADDED (1u << 20) /* rows without a sample of their own; where paths were cut they are legion */

struct slot {
    uint64_t hash;
    uint32_t row_plus_1; /* 0 = free */
};

struct tree {
    const struct profile *profile;
    struct report_rows *rows;
    struct slot *slots; /* open addressing, linear probing */
    uint32_t n_slots;
    /* Of the sample at hand, by how many inner frames or first labels are left out: hashes of the others. */
    uint64_t *paths, labels[REPORT_MAX_LABELS + 1];
    size_t n_frames, capacity, n_labels;
};

/* The end of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int add_frame(struct tree *tree, uint64_t location)
{
    if (tree->n_frames == tree->capacity) {
        size_t capacity = tree->capacity * 2 + 64;
        uint64_t *paths = realloc(tree->paths, capacity * sizeof *paths);
        if (paths == NULL)
            return -ENOMEM;
        tree->paths = paths;
        tree->capacity = capacity;
    }
    tree->paths[tree->n_frames++] = location;
    return 0;
}

static void add_label(struct tree *tree, struct wire label)
{
    if (tree->n_labels == REPORT_MAX_LABELS)
        return;
    uint64_t hash = mix(profile_number(label, LABEL_KEY) + 1);
    hash = mix(hash ^ profile_number(label, LABEL_STR));
    tree->labels[tree->n_labels++] = mix(hash ^ profile_number(label, LABEL_NUM));
}

static void hash_from_the_end(struct tree *tree)
{
    uint64_t path = 0, labels = 0;
    for (size_t i = tree->n_frames; i-- > 0;)
        tree->paths[i] = path = mix(path + mix(tree->paths[i] + 1));
    tree->labels[tree->n_labels] = 0;
    for (size_t i = tree->n_labels; i-- > 0;)
        tree->labels[i] = labels += tree->labels[i];
}

static int read_sample(struct tree *tree, uint32_t sample)
{
    struct wire rest = profile_sample(tree->profile, sample);
    struct wire_field field;
    tree->n_frames = tree->n_labels = 0;
    while (wire_next(&rest, &field) == 1) {
        uint64_t id;
        while (field.number == SAMPLE_LOCATION && wire_next_number(&field, &id) == 1)
            if (add_frame(tree, id) != 0)
                return -ENOMEM;
        if (field.number == SAMPLE_LABEL && field.is_bytes)
            add_label(tree, field.bytes);
    }
    hash_from_the_end(tree);
    return 0;
}

static struct slot *find_slot(const struct tree *tree, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (tree->n_slots - 1);
    while (tree->slots[i].row_plus_1 != 0 && tree->slots[i].hash != hash)
        i = (i + 1) & (tree->n_slots - 1);
    return &tree->slots[i];
}

static int grow(struct tree *tree)
{
    struct tree next = {.n_slots = tree->n_slots == 0 ? FIRST_SLOTS : tree->n_slots * 2};
    next.slots = calloc(next.n_slots, sizeof *next.slots);
    if (next.slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < tree->n_slots; i++)
        if (tree->slots[i].row_plus_1 != 0)
            *find_slot(&next, tree->slots[i].hash) = tree->slots[i];
    free(tree->slots);
    tree->slots = next.slots;
    tree->n_slots = next.n_slots;
    return 0;
}

static uint64_t hash_of(const struct tree *tree, size_t frames, size_t labels)
{
    return mix((tree->n_frames == 0 ? 0 : tree->paths[frames]) + mix(tree->labels[labels]));
}

static uint32_t find(const struct tree *tree, size_t frames, size_t labels)
{
    uint32_t row_plus_1 = find_slot(tree, hash_of(tree, frames, labels))->row_plus_1;
    return row_plus_1 == 0 ? NOT_FOUND : row_plus_1 - 1;
}

/* The row of the sample at hand without so many inner frames and first labels; added if need be. NOT_FOUND when there
 * is no room. */
static uint32_t intern(struct tree *tree, uint32_t sample, size_t frames, size_t labels)
{
    uint32_t row = tree->n_slots == 0 ? NOT_FOUND : find(tree, frames, labels);
    if (row != NOT_FOUND)
        return row;
    if (tree->rows->n >= tree->n_slots / 4 * 3 && grow(tree) != 0)
        return NOT_FOUND;
    row = report_rows_add(tree->rows, (struct report_place){sample, (uint32_t)frames, (uint32_t)labels});
    if (row != NOT_FOUND)
        *find_slot(tree, hash_of(tree, frames, labels)) = (struct slot){hash_of(tree, frames, labels), row + 1};
    return row;
}

static int add_itself(struct tree *tree, uint32_t sample)
{
    int64_t values[PROFILE_N_VALUES];
    uint32_t row = read_sample(tree, sample) != 0 ? NOT_FOUND : intern(tree, sample, 0, 0);
    if (row == NOT_FOUND)
        return -ENOMEM;
    profile_values(tree->profile, sample, values);
    report_row_add(&tree->rows->items[row], values, -1);
    report_row_add(&tree->rows->all, values, -1);
    return 0;
}

/* A context's labels are among those of the one below it, so what was left out stays left out. */
static int add_to_those_above(struct tree *tree, uint32_t sample, int own)
{
    int64_t values[PROFILE_N_VALUES];
    if (read_sample(tree, sample) != 0)
        return -ENOMEM;
    profile_values(tree->profile, sample, values);
    size_t left_out = 0;
    for (size_t frames = 1; frames < tree->n_frames; frames++) {
        size_t labels = left_out;
        while (labels <= tree->n_labels && find(tree, frames, labels) == NOT_FOUND)
            labels++;
        left_out = labels <= tree->n_labels ? labels : left_out;
        uint32_t row = intern(tree, sample, frames, left_out);
        if (row == NOT_FOUND)
            return -ENOMEM;
        if (row >= tree->profile->samples.n + MAX_ADDED)
            return -E2BIG;
        report_row_add(&tree->rows->items[row], values, own);
    }
    return 0;
}

int report_rows_read_inclusive(struct report_rows *rows, const struct profile *profile, int own)
{
    struct tree tree = {.profile = profile, .rows = rows};
    int error = 0;
    memset(rows, 0, sizeof *rows);
    for (uint32_t i = 0; i < profile->samples.n && error == 0; i++)
        error = add_itself(&tree, i);
    for (uint32_t i = 0; i < profile->samples.n && error == 0; i++)
        error = add_to_those_above(&tree, i, own);
    free(tree.slots);
    free(tree.paths);
    return error;
}
