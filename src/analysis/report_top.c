/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows that --top shows, of millions (docs/decisions/057).
 *
 * A first pass over the samples sums up the figure that rows are sorted by, and nothing else. Then it is known which samples
 * belong to the largest rows, and only these are kept and made into rows. All others have a sum. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "report.h"

struct group {
    uint64_t hash;
    int64_t key;
};

struct report_top {
    const struct report_table *table;
    struct report_rows *rows; /* has the sum of all samples */
    struct group *groups;
    uint32_t n;
    size_t capacity;
    struct hash_index index;
    uint32_t *of_sample; /* the group of each sample; REPORT_NONE: it has none */
    struct report_row sum;
    bool has_negative;
};

/* --- All samples ---------------------------------------------------------------------------------------------------- */

static int64_t key_of(const struct report_top *top, const int64_t values[PROFILE_N_VALUES], int64_t at_peak)
{
    return top->table->sort == REPORT_SORT_AT_PEAK ? at_peak : values[top->table->sort];
}

static bool has_hash(const void *top, uint32_t i, const void *hash)
{
    return ((const struct report_top *)top)->groups[i].hash == *(const uint64_t *)hash;
}

/* Returns the number of the group, which is made if there is none, or REPORT_NONE: there is no memory. */
static uint32_t find_group(struct report_top *top, uint64_t hash)
{
    uint32_t i = hash_index_find(&top->index, (uint32_t)hash, has_hash, top, &hash);
    if (i != REPORT_NONE)
        return i;
    if (array_reserve(&top->groups, &top->capacity, top->n + (size_t)1, sizeof *top->groups))
        return REPORT_NONE;
    top->groups[top->n] = (struct group){.hash = hash};
    return hash_index_add(&top->index, (uint32_t)hash, top->n) == 0 ? top->n++ : REPORT_NONE;
}

int report_top_add(struct report_top *top, uint32_t sample, uint64_t hash, const int64_t values[PROFILE_N_VALUES], int64_t at_peak)
{
    uint32_t i = find_group(top, hash);
    if (i == REPORT_NONE)
        return -ENOMEM;
    top->groups[i].key = report_sum(top->groups[i].key, key_of(top, values, at_peak));
    top->of_sample[sample] = i;
    report_row_add(&top->sum, values, -1);
    top->sum.peaks[PROFILE_AT_PEAK] = report_sum(top->sum.peaks[PROFILE_AT_PEAK], at_peak);
    top->has_negative |= at_peak < 0;
    for (int value = 0; value < PROFILE_N_VALUES; value++)
        top->has_negative |= values[value] < 0;
    return 0;
}

/* Whether a sum without some rows is the sum of the others. It is not if a sum left its range. */
static bool can_subtract(const struct report_top *top)
{
    bool fits = !top->has_negative && top->sum.peaks[PROFILE_AT_PEAK] < INT64_MAX;
    for (int value = 0; value < PROFILE_N_VALUES; value++)
        fits &= top->sum.values[value] < INT64_MAX;
    return fits;
}

/* --- The largest groups --------------------------------------------------------------------------------------------- */

/* Puts a key where it belongs in a heap whose smallest key is the first. */
static void sift(int64_t *heap, size_t n, size_t i, int64_t key)
{
    for (size_t below = 2 * i + 1; below < n; i = below, below = 2 * i + 1) {
        below += below + 1 < n && heap[below + 1] < heap[below];
        if (heap[below] >= key)
            break;
        heap[i] = heap[below];
    }
    heap[i] = key;
}

/* Sets *least to the key of the last group that is shown. */
static int find_least(const struct report_top *top, int64_t *least)
{
    size_t n = top->table->options->top;
    int64_t *heap = calloc(n, sizeof *heap); /* no key is negative */
    if (!heap)
        return -ENOMEM;
    for (uint32_t i = 0; i < top->n; i++)
        if (top->groups[i].key > heap[0])
            sift(heap, n, 0, top->groups[i].key);
    *least = heap[0];
    free(heap);
    return 0;
}

/* Finds the samples of groups that are no smaller, in their order. */
static int choose(const struct report_top *top, int64_t least, uint32_t **samples, size_t *n)
{
    size_t n_samples = top->table->inputs[0].profile.parts->n_sample, room = 0;
    *samples = NULL;
    *n = 0;
    for (size_t i = 0; i < n_samples; i++) {
        if (top->of_sample[i] == REPORT_NONE || top->groups[top->of_sample[i]].key < least)
            continue;
        if (array_reserve(samples, &room, *n + 1, sizeof **samples))
            return -ENOMEM;
        (*samples)[(*n)++] = (uint32_t)i;
    }
    return 0;
}

static void leave_out(struct report_rows *rows, const struct report_top *top)
{
    rows->n_left_out = top->n - rows->n;
    rows->left_out = top->sum;
    for (uint32_t i = 0; i < rows->n; i++) {
        for (int value = 0; value < PROFILE_N_VALUES; value++)
            rows->left_out.values[value] -= rows->items[i].values[value];
        rows->left_out.peaks[PROFILE_AT_PEAK] -= rows->items[i].peaks[PROFILE_AT_PEAK];
    }
}

/* --- Reading -------------------------------------------------------------------------------------------------------- */

static bool applies(const struct report_table *table)
{
    const struct report_query *query = table->query;
    bool adds_up = table->sort < PROFILE_N_VALUES || table->sort == REPORT_SORT_AT_PEAK;
    uint64_t top = table->options->top;
    return adds_up && !query->inclusive && !query->with_own && !table->options->tree && top > 0 &&
           top < table->inputs[0].profile.parts->n_sample;
}

static void free_groups(struct report_top *top)
{
    free(top->groups);
    free(top->of_sample);
    hash_index_free(&top->index);
}

/* Finds the samples of the largest rows. *n is 0 if all rows must be made. */
static int find_samples(struct report_top *top, uint32_t **samples, size_t *n)
{
    const struct report_table *table = top->table;
    size_t n_samples = table->inputs[0].profile.parts->n_sample;
    int64_t least;
    *n = 0;
    top->of_sample = malloc(n_samples * sizeof *top->of_sample);
    if (!top->of_sample)
        return -ENOMEM;
    for (size_t i = 0; i < n_samples; i++)
        top->of_sample[i] = REPORT_NONE;
    int error = report_rows_tell(top->rows, &table->inputs[0], table->query, top);
    if (error != 0 || top->n <= table->options->top || !can_subtract(top))
        return error;
    error = find_least(top, &least);
    return error == 0 ? choose(top, least, samples, n) : error;
}

int report_top_read(struct report_table *table)
{
    struct report_input *input = &table->inputs[0];
    struct report_rows *rows = &table->rows;
    struct report_top top = {.table = table, .rows = rows};
    uint32_t *samples = NULL;
    size_t n = 0;
    int error = applies(table) ? find_samples(&top, &samples, &n) : 0;
    free_groups(&top);
    if (error == 0 && n == 0)
        error = report_rows_read(rows, input, table->query, report_own_value(table->kind));
    else if (error == 0)
        error = profile_fields_keep(&input->profile.fields, samples, n);
    if (error == 0 && n > 0) {
        error = report_rows_read_some(rows, input, table->query, samples, n);
        leave_out(rows, &top);
    }
    free(samples);
    return error;
}

/* --- Rows that are shown -------------------------------------------------------------------------------------------- */

static int keep_of_input(struct report_table *table, uint32_t input)
{
    struct profile_fields *fields = &table->inputs[input].profile.fields;
    size_t n = 0;
    uint32_t *samples = profile_fields_has_all(fields) ? NULL : malloc((table->rows.n + (size_t)1) * sizeof *samples);
    if (!samples)
        return profile_fields_has_all(fields) ? 0 : -ENOMEM;
    for (int s = 0; s < table->n_sections; s++) {
        const struct report_section *section = &table->sections[s];
        const struct report_row *rows = table->rows.items + section->first;
        for (uint32_t i = 0; i < section->n_shown; i++)
            if (rows[i].input == input)
                samples[n++] = rows[i].place.sample;
    }
    int error = profile_fields_keep(fields, samples, n);
    free(samples);
    return error;
}

int report_top_keep(struct report_table *table)
{
    int error = 0;
    for (uint32_t i = 0; i < table->n_inputs && error == 0; i++)
        error = keep_of_input(table, i);
    return error;
}
