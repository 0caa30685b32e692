/* SPDX-License-Identifier: BSD-2-Clause */
/* The samples of a profile as rows: one for each group of samples, alone or with all rows below it.
 *
 * A sample has its path and the labels of the whole path, those of the leaf first. So a context above it has the same path
 * without some inner frames. Its labels are the last ones of the sample, as many as fit a context that has a sample itself;
 * otherwise all that are left. Rows are told apart by a hash of texts, so that rows of two profiles can be compared. The order
 * of labels does not matter, except of those with the same key: the nearest span has the first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "report.h"

#define MAX_ROWS (1u << 26)   /* bounds memory */
#define MAX_LABELS 256        /* of a sample; further ones do not tell contexts apart */
#define MAX_ADDED (1u << 20)  /* rows without a sample; a profile whose paths were cut has very many of them */

/* --- Rows ----------------------------------------------------------------------------------------------------------- */

int64_t report_sum(int64_t a, int64_t b)
{
    int64_t result;
    return !__builtin_add_overflow(a, b, &result) ? result : a < 0 ? INT64_MIN : INT64_MAX;
}

int64_t report_difference(int64_t a, int64_t b)
{
    int64_t result;
    return !__builtin_sub_overflow(a, b, &result) ? result : a < 0 ? INT64_MIN : INT64_MAX;
}

void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for)
{
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        if (i != but_for)
            to->values[i] = report_sum(to->values[i], values[i]);
}

static int reserve(struct report_rows *rows)
{
    return rows->n == MAX_ROWS ? -ENOMEM : array_reserve(&rows->items, &rows->capacity, rows->n + (size_t)1, sizeof *rows->items);
}

static bool has_hash(const void *rows, uint32_t i, const void *hash)
{
    return ((const struct report_rows *)rows)->items[i].hash == *(const uint64_t *)hash;
}

static uint32_t find(const struct report_rows *rows, uint64_t hash)
{
    return hash_index_find(&rows->index, (uint32_t)hash, has_hash, rows, &hash);
}

struct report_row *report_rows_find(const struct report_rows *rows, uint64_t hash)
{
    uint32_t i = find(rows, hash);
    return i == REPORT_NONE ? NULL : &rows->items[i];
}

uint32_t report_rows_add(struct report_rows *rows, uint64_t hash, struct report_place place)
{
    if (reserve(rows) != 0)
        return REPORT_NONE;
    rows->items[rows->n] = (struct report_row){.hash = hash, .place = place, .parent = REPORT_NONE};
    return hash_index_add(&rows->index, (uint32_t)hash, rows->n) == 0 ? rows->n++ : REPORT_NONE;
}

/* Number 0 is that of rows that have none. */
struct report_values *report_rows_second(struct report_rows *rows, struct report_row *row)
{
    uint32_t n = rows->n_seconds == 0 ? 1 : rows->n_seconds;
    if (row->second == 0) {
        if (array_reserve(&rows->seconds, &rows->seconds_capacity, n + (size_t)1, sizeof *rows->seconds))
            return NULL;
        rows->seconds[0] = (struct report_values){{0}};
        rows->seconds[n] = (struct report_values){{0}};
        row->second = n;
        rows->n_seconds = n + 1;
    }
    return &rows->seconds[row->second];
}

void report_rows_free(struct report_rows *rows)
{
    free(rows->items);
    hash_index_free(&rows->index);
    free(rows->seconds);
}

/* --- One sample after the other --------------------------------------------------------------------------------------- */

struct reader {
    struct report_input *input;
    const struct report_query *query;
    struct report_rows *rows;
    int own;
    struct report_top *top;
    uint32_t n_samples; /* rows that stand for a sample */
    uint32_t number;    /* of the sample */
    JespanPprof__Sample *sample;
    int64_t values[PROFILE_N_VALUES], peaks[PROFILE_N_PEAKS];
    /* paths[i] is the hash of the path without i inner frames, labels[i] that of the labels without the first i. */
    uint64_t *paths, labels[MAX_LABELS + 1];
    size_t n_frames, capacity, n_labels;
};

/* The peaks of a context contain those below it. */
static void add_peaks(struct report_row *row, const int64_t peaks[PROFILE_N_PEAKS], bool innermost)
{
    for (int i = 0; i < PROFILE_AT_PEAK && innermost; i++)
        if (row->peaks[i] < peaks[i])
            row->peaks[i] = peaks[i];
    row->peaks[PROFILE_AT_PEAK] = report_sum(row->peaks[PROFILE_AT_PEAK], peaks[PROFILE_AT_PEAK]);
}

static int add_own(struct reader *r, struct report_row *row)
{
    struct report_values *own = r->query->with_own ? report_rows_second(r->rows, row) : NULL;
    for (int i = 0; own && i < PROFILE_N_VALUES; i++)
        own->of[i] = report_sum(own->of[i], r->values[i]);
    return r->query->with_own && !own ? -ENOMEM : 0;
}

/* Adds the sample to the row of a group. */
static int add(struct reader *r, uint64_t hash, struct report_place place, bool innermost)
{
    uint32_t index = find(r->rows, hash);
    if (index == REPORT_NONE)
        index = report_rows_add(r->rows, hash, place);
    if (index == REPORT_NONE)
        return -ENOMEM;
    struct report_row *row = &r->rows->items[index];
    if (row->last == r->number + 1)
        return 0;
    row->last = r->number + 1;
    report_row_add(row, r->values, innermost ? -1 : r->own);
    add_peaks(row, r->peaks, innermost);
    return innermost ? add_own(r, row) : 0;
}

/* --- By a key other than the path ---------------------------------------------------------------------------------- */

/* Returns the place of the first key that counts, from i on; REPORT_NONE: there is none. */
static uint32_t find_key(const struct reader *r, size_t i, uint64_t *hash)
{
    const struct report_query *query = r->query;
    size_t n = query->by->n_keys(r->sample);
    while (i < n && !query->by->key(r->input, r->sample, query->argument, i, hash))
        i++;
    return i < n ? (uint32_t)i : REPORT_NONE;
}

static int add_keys(struct reader *r)
{
    uint64_t hash = 0;
    uint32_t i = find_key(r, 0, &hash);
    int error = add(r, i == REPORT_NONE ? 0 : hash, (struct report_place){.sample = r->number, .frames = i}, true);
    while (r->query->inclusive && i != REPORT_NONE && error == 0 && (i = find_key(r, i + (size_t)1, &hash)) != REPORT_NONE)
        error = add(r, hash, (struct report_place){.sample = r->number, .frames = i}, false);
    return error;
}

/* --- By path ---------------------------------------------------------------------------------------------------------- */

/* Labels of outer spans with the same key count. */
static uint64_t hash_label(const struct report_input *input, JespanPprof__Label *const *labels, size_t i, size_t n)
{
    const JespanPprof__Label *label = labels[i];
    uint64_t same = 0;
    for (size_t k = i + 1; k < n; k++)
        same += labels[k]->key == label->key;
    uint64_t hash = hash_mix(report_string_hash(input, label->key) + 1 + same);
    hash = hash_mix(hash ^ report_string_hash(input, label->str));
    return hash_mix(hash ^ (uint64_t)label->num);
}

static int hash_sample(struct reader *r)
{
    uint64_t path = 0, labels = 0;
    r->n_frames = r->sample->n_location_id;
    r->n_labels = r->sample->n_label < MAX_LABELS ? r->sample->n_label : MAX_LABELS;
    if (array_reserve(&r->paths, &r->capacity, r->n_frames + 1, sizeof *r->paths))
        return -ENOMEM;
    r->paths[r->n_frames] = 0;
    for (size_t i = r->n_frames; i-- > 0;)
        r->paths[i] = path = hash_mix(path + hash_mix(report_location_hash(r->input, r->sample->location_id[i]) + 1));
    r->labels[r->n_labels] = 0;
    for (size_t i = r->n_labels; i-- > 0;)
        r->labels[i] = labels += hash_label(r->input, r->sample->label, i, r->n_labels);
    return 0;
}

static uint64_t hash_of(const struct reader *r, size_t frames, size_t labels)
{
    return hash_mix(r->paths[frames] + hash_mix(r->labels[labels]));
}

static int add_path(struct reader *r)
{
    int error = hash_sample(r);
    return error != 0 ? error : add(r, hash_of(r, 0, 0), (struct report_place){.sample = r->number}, true);
}

/* A context's labels are among those of the context below it, so a label that is left out stays left out. */
static int add_above(struct reader *r)
{
    int error = hash_sample(r);
    uint32_t below = error != 0 ? REPORT_NONE : find(r->rows, hash_of(r, 0, 0));
    size_t left_out = 0;
    for (size_t frames = 1; error == 0 && frames < r->n_frames; frames++) {
        size_t labels = left_out;
        while (labels <= r->n_labels && find(r->rows, hash_of(r, frames, labels)) == REPORT_NONE)
            labels++;
        left_out = labels <= r->n_labels ? labels : left_out;
        uint64_t hash = hash_of(r, frames, left_out);
        uint32_t row = find(r->rows, hash);
        if (row == REPORT_NONE)
            row = report_rows_add(r->rows, hash, (struct report_place){r->number, (uint32_t)frames, (uint32_t)left_out});
        if (row == REPORT_NONE)
            return -ENOMEM;
        if (row >= r->n_samples + MAX_ADDED)
            return -E2BIG;
        report_row_add(&r->rows->items[row], r->values, r->own);
        add_peaks(&r->rows->items[row], r->peaks, false);
        r->rows->items[below].parent = row;
        below = row;
    }
    return error;
}

/* --- All samples ------------------------------------------------------------------------------------------------------ */

/* Whether the sample has anything to show beside the peaks of contexts below it. */
static bool is_shown(const struct reader *r)
{
    bool alone = !r->query->inclusive;
    return !profile_has_peaks_only(r->values, r->peaks) || r->peaks[alone ? PROFILE_PEAK_OWN : PROFILE_PEAK_TOTAL] != 0;
}

static int read_sample(struct reader *r, int (*use)(struct reader *r), bool first)
{
    int error = profile_sample(&r->input->profile, r->number, &r->sample);
    if (error != 0)
        return error;
    profile_values(&r->input->profile, r->sample, r->values);
    profile_peaks(&r->input->profile, r->sample, r->peaks);
    bool counts = r->query->with_peaks || !profile_has_peaks_only(r->values, r->peaks);
    if (counts && report_filter_fits(r->query->filter, r->input, r->sample)) {
        if (first) {
            report_row_add(&r->rows->all, r->values, -1);
            add_peaks(&r->rows->all, r->peaks, true);
            error = add_own(r, &r->rows->all);
        }
        error = error == 0 && is_shown(r) ? use(r) : error;
    }
    profile_sample_free(&r->input->profile, r->sample);
    return error;
}

static int read_all(struct reader *r, int (*use)(struct reader *r), bool first)
{
    int error = 0;
    for (r->number = 0; r->number < r->input->profile.parts->n_sample && error == 0; r->number++)
        error = read_sample(r, use, first);
    return error;
}

int report_rows_read(struct report_rows *rows, struct report_input *input, const struct report_query *query, int own)
{
    struct reader r = {.input = input, .query = query, .rows = rows, .own = own};
    memset(rows, 0, sizeof *rows);
    int error = read_all(&r, query->by ? add_keys : add_path, true);
    r.n_samples = rows->n;
    if (error == 0 && query->inclusive && !query->by)
        error = read_all(&r, add_above, false);
    free(r.paths);
    return error;
}

/* --- The largest rows only ------------------------------------------------------------------------------------------- */

static int tell(struct reader *r)
{
    uint64_t hash = 0;
    int error = r->query->by ? 0 : hash_sample(r);
    if (error != 0)
        return error;
    if (!r->query->by)
        hash = hash_of(r, 0, 0);
    else if (find_key(r, 0, &hash) == REPORT_NONE)
        hash = 0;
    return report_top_add(r->top, r->number, hash, r->values, r->peaks[PROFILE_AT_PEAK]);
}

int report_rows_tell(struct report_rows *rows, struct report_input *input, const struct report_query *query, struct report_top *top)
{
    struct reader r = {.input = input, .query = query, .rows = rows, .own = -1, .top = top};
    memset(rows, 0, sizeof *rows);
    int error = read_all(&r, tell, true);
    free(r.paths);
    return error;
}

int report_rows_read_some(struct report_rows *rows, struct report_input *input, const struct report_query *query,
                          const uint32_t *samples, size_t n)
{
    struct reader r = {.input = input, .query = query, .rows = rows, .own = -1};
    int error = 0;
    for (size_t i = 0; i < n && error == 0; i++) {
        r.number = samples[i];
        error = read_sample(&r, query->by ? add_keys : add_path, false);
    }
    free(r.paths);
    return error;
}

/* ---- The difference of two profiles ---- */

/* Turns the values of a row into a change, and keeps those before. */
static int set_change(struct report_rows *rows, struct report_row *row, const int64_t before[PROFILE_N_VALUES])
{
    struct report_values *second = report_rows_second(rows, row);
    if (!second)
        return -ENOMEM;
    memcpy(second->of, before, sizeof second->of);
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        row->values[i] = report_difference(row->values[i], before[i]);
    return 0;
}

int report_diff(struct report_rows *rows, struct report_rows *before, struct report_rows *after)
{
    static const int64_t nothing[PROFILE_N_VALUES];
    uint32_t n = after->n;
    int error = 0;
    *rows = *after;
    memset(after, 0, sizeof *after);
    for (uint32_t i = 0; i < n && error == 0; i++) {
        const struct report_row *old = report_rows_find(before, rows->items[i].hash);
        rows->items[i].input = 1;
        rows->items[i].second = 0;
        error = set_change(rows, &rows->items[i], old ? old->values : nothing);
    }
    for (uint32_t i = 0; i < before->n && error == 0; i++) {
        if (report_rows_find(rows, before->items[i].hash))
            continue;
        uint32_t added = report_rows_add(rows, before->items[i].hash, before->items[i].place);
        error = added == REPORT_NONE ? -ENOMEM : set_change(rows, &rows->items[added], before->items[i].values);
    }
    return error == 0 ? set_change(rows, &rows->all, before->all.values) : error;
}
