/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts of a profile as rows, each alone or with all contexts below it.
 *
 * A sample has its path and the labels of the whole path, those of the leaf first. So a context above it has the same path
 * without some inner frames. Its labels are the last ones of the sample, as many as fit a context that has a sample itself;
 * otherwise all that are left. Contexts are told apart by a hash of path and labels. The order of labels does not matter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define MAX_ROWS (1u << 26)   /* bounds memory */
#define MAX_LABELS 256        /* of a sample; further ones do not tell contexts apart */
#define MAX_ADDED (1u << 20)  /* rows without a sample; a profile whose paths were cut has very many of them */
#define NOT_FOUND UINT32_MAX

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

static int64_t sum(int64_t a, int64_t b)
{
    int64_t result;
    return !__builtin_add_overflow(a, b, &result) ? result : a < 0 ? INT64_MIN : INT64_MAX;
}

void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for)
{
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        if (i != but_for)
            to->values[i] = sum(to->values[i], values[i]);
}

static int reserve(struct report_rows *rows)
{
    if (rows->n < rows->capacity)
        return 0;
    uint32_t capacity = rows->capacity == 0 ? 64 : rows->capacity * 2;
    struct report_row *items = capacity > MAX_ROWS ? NULL : realloc(rows->items, capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    rows->items = items;
    rows->capacity = capacity;
    return 0;
}

/* Adds a row without values. Returns its index, or NOT_FOUND if there is no memory. */
static uint32_t add_row(struct report_rows *rows, struct report_place place)
{
    if (reserve(rows) != 0)
        return NOT_FOUND;
    rows->items[rows->n] = (struct report_row){.place = place};
    return rows->n++;
}

int report_rows_read(struct report_rows *rows, struct profile *profile)
{
    memset(rows, 0, sizeof *rows);
    for (uint32_t i = 0; i < profile->parts->n_sample; i++) {
        int64_t values[PROFILE_N_VALUES];
        JespanPprof__Sample *sample;
        int error = profile_sample(profile, i, &sample);
        if (error != 0)
            return error;
        profile_values(profile, sample, values);
        profile_sample_free(profile, sample);
        uint32_t row = add_row(rows, (struct report_place){.sample = i});
        if (row == NOT_FOUND)
            return -ENOMEM;
        report_row_add(&rows->items[row], values, -1);
        report_row_add(&rows->all, values, -1);
    }
    return 0;
}

void report_rows_free(struct report_rows *rows)
{
    free(rows->items);
}

/* --- Rows that include those below them -------------------------------------------------------------------------------- */

struct tree {
    struct profile *profile;
    struct report_rows *rows;
    struct hash_table by_hash; /* the index of a row */
    /* The sample that is being read. paths[i] is the hash of the path without i inner frames, labels[i] that of the labels
     * without the first i. */
    uint64_t *paths, labels[MAX_LABELS + 1];
    size_t n_frames, capacity, n_labels;
    int64_t values[PROFILE_N_VALUES];
};

static int reserve_paths(struct tree *tree, size_t n)
{
    if (n <= tree->capacity)
        return 0;
    uint64_t *paths = realloc(tree->paths, 2 * n * sizeof *paths);
    if (!paths)
        return -ENOMEM;
    tree->paths = paths;
    tree->capacity = 2 * n;
    return 0;
}

static uint64_t hash_label(const JespanPprof__Label *label)
{
    uint64_t hash = hash_mix((uint64_t)label->key + 1);
    hash = hash_mix(hash ^ (uint64_t)label->str);
    return hash_mix(hash ^ (uint64_t)label->num);
}

static void hash_sample(struct tree *tree, const JespanPprof__Sample *sample)
{
    uint64_t path = 0, labels = 0;
    tree->n_frames = sample->n_location_id;
    tree->n_labels = sample->n_label < MAX_LABELS ? sample->n_label : MAX_LABELS;
    for (size_t i = tree->n_frames; i-- > 0;)
        tree->paths[i] = path = hash_mix(path + hash_mix(sample->location_id[i] + 1));
    tree->labels[tree->n_labels] = 0;
    for (size_t i = tree->n_labels; i-- > 0;)
        tree->labels[i] = labels += hash_label(sample->label[i]);
}

static int read_sample(struct tree *tree, uint32_t i)
{
    JespanPprof__Sample *sample;
    int error = profile_sample(tree->profile, i, &sample);
    if (error != 0)
        return error;
    error = reserve_paths(tree, sample->n_location_id);
    if (error == 0) {
        hash_sample(tree, sample);
        profile_values(tree->profile, sample, tree->values);
    }
    profile_sample_free(tree->profile, sample);
    return error;
}

static uint64_t hash_of(const struct tree *tree, size_t frames, size_t labels)
{
    return hash_mix((tree->n_frames == 0 ? 0 : tree->paths[frames]) + hash_mix(tree->labels[labels]));
}

static uint32_t find(const struct tree *tree, size_t frames, size_t labels)
{
    const uint64_t *row = hash_find(&tree->by_hash, hash_of(tree, frames, labels));
    return row ? (uint32_t)*row : NOT_FOUND;
}

/* The row of the sample without so many inner frames and first labels, added if it is missing. NOT_FOUND: no memory. */
static uint32_t find_or_add(struct tree *tree, uint32_t sample, size_t frames, size_t labels)
{
    uint32_t row = find(tree, frames, labels);
    if (row != NOT_FOUND)
        return row;
    row = add_row(tree->rows, (struct report_place){sample, (uint32_t)frames, (uint32_t)labels});
    return row == NOT_FOUND || hash_add(&tree->by_hash, hash_of(tree, frames, labels), row) != 0 ? NOT_FOUND : row;
}

static int add_itself(struct tree *tree, uint32_t sample)
{
    int error = read_sample(tree, sample);
    if (error != 0)
        return error;
    uint32_t row = find_or_add(tree, sample, 0, 0);
    if (row == NOT_FOUND)
        return -ENOMEM;
    report_row_add(&tree->rows->items[row], tree->values, -1);
    report_row_add(&tree->rows->all, tree->values, -1);
    return 0;
}

/* A context's labels are among those of the context below it, so a label that is left out stays left out. */
static int add_to_those_above(struct tree *tree, uint32_t sample, int own)
{
    int error = read_sample(tree, sample);
    if (error != 0)
        return error;
    size_t left_out = 0;
    for (size_t frames = 1; frames < tree->n_frames; frames++) {
        size_t labels = left_out;
        while (labels <= tree->n_labels && find(tree, frames, labels) == NOT_FOUND)
            labels++;
        left_out = labels <= tree->n_labels ? labels : left_out;
        uint32_t row = find_or_add(tree, sample, frames, left_out);
        if (row == NOT_FOUND)
            return -ENOMEM;
        if (row >= tree->profile->parts->n_sample + MAX_ADDED)
            return -E2BIG;
        report_row_add(&tree->rows->items[row], tree->values, own);
    }
    return 0;
}

int report_rows_read_inclusive(struct report_rows *rows, struct profile *profile, int own)
{
    struct tree tree = {.profile = profile, .rows = rows};
    int error = 0;
    memset(rows, 0, sizeof *rows);
    for (uint32_t i = 0; i < profile->parts->n_sample && error == 0; i++)
        error = add_itself(&tree, i);
    for (uint32_t i = 0; i < profile->parts->n_sample && error == 0; i++)
        error = add_to_those_above(&tree, i, own);
    hash_free(&tree.by_hash);
    free(tree.paths);
    return error;
}
