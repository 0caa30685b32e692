/* SPDX-License-Identifier: BSD-2-Clause */
/* Series, and an index that finds them by their labels. */
#include "http_series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/parse.h"
#include "http_text.h"

#define OTHER 0u

/* ---- Names of labels ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_taken(const struct http_series_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->n_keys; i++)
        if (strcmp(set->names[i], name) == 0)
            return true;
    return strcmp(name, "span") == 0;
}

/* Adds a key under a name that Prometheus allows. Names that begin with __ are reserved. Two keys never get the same
 * name. */
static void add_key(struct http_series_set *set, const char *key)
{
    char *name = set->names[set->n_keys];
    size_t n = 0;
    if (!is_letter(key[0]) || strncmp(key, "__", 2) == 0)
        n = (size_t)(stpcpy(name, "label_") - name);
    for (; *key != '\0' && n < sizeof *set->names - 1; key++)
        name[n++] = is_letter(*key) || (*key >= '0' && *key <= '9') ? *key : '_';
    name[n] = '\0';
    while (is_taken(set, name) && n < sizeof *set->names - 1) {
        name[n++] = '_';
        name[n] = '\0';
    }
    set->n_keys++;
}

static bool is_listed(const struct http_series_set *set, const char *key)
{
    for (uint32_t i = 0; i < set->n_keys; i++)
        if (strcmp(set->keys[i], key) == 0)
            return true;
    return false;
}

static bool read_keys(struct http_series_set *set, const char *labels)
{
    uint32_t capacity = 1;
    for (const char *p = labels; *p != '\0'; p++)
        capacity += *p == '|';
    set->key_text = strdup(labels);
    set->keys = malloc(capacity * sizeof *set->keys);
    set->names = malloc(capacity * sizeof *set->names);
    if (!set->key_text || !set->keys || !set->names)
        return false;
    char *rest = set->key_text;
    for (char *key; (key = list_take(&rest));)
        if (!is_listed(set, key)) {
            set->keys[set->n_keys] = key;
            add_key(set, key);
        }
    return true;
}

/* ---- Finding a series ---- */

static bool is_series(const void *owner, uint32_t position, const void *labels)
{
    const struct http_series_set *set = owner;
    return strcmp(set->series[position].labels, labels) == 0;
}

static int reserve(struct http_series_set *set)
{
    return array_reserve(&set->series, &set->capacity, set->n + (size_t)1, sizeof *set->series);
}

static uint32_t make(struct http_series_set *set, const char *labels, uint32_t hash)
{
    char *own = set->n < set->max && reserve(set) == 0 ? strdup(labels) : NULL;
    if (!own || hash_index_add(&set->index, hash, set->n) != 0) {
        free(own);
        set->folded++;
        return OTHER;
    }
    set->series[set->n] = (struct http_series){.labels = own};
    return set->n++;
}

static uint32_t find_existing(const struct http_series_set *set, const char *labels)
{
    uint32_t hash = hash_fold(hash_bytes(HASH_START, labels, strlen(labels)));
    uint32_t at = hash_index_find(&set->index, hash, is_series, set, labels);
    return at != HASH_INDEX_NONE ? at : OTHER;
}

static uint32_t find(struct http_series_set *set, const char *labels)
{
    uint32_t hash = hash_fold(hash_bytes(HASH_START, labels, strlen(labels)));
    uint32_t at = hash_index_find(&set->index, hash, is_series, set, labels);
    if (at != HASH_INDEX_NONE)
        return at;
    return make(set, labels, hash);
}

/* ---- Adding ---- */

/* The value of the row, or of the nearest row above it. A digest's rows have the labels of their paths. */
static const char *value_of(const struct snapshot *s, const struct snapshot_row *row, const char *key)
{
    for (uint32_t left = s->n_rows; left; left--) {
        for (uint32_t i = 0; i < row->n_labels; i++)
            if (strcmp(row->labels[i].key, key) == 0)
                return row->labels[i].value;
        const struct snapshot_row *parent = &s->rows[row->parent_row];
        if (s->labels_of_path || parent == row)
            break;
        row = parent;
    }
    return "";
}

/* For Prometheus, an empty value is the same as no label. */
static void write_labels(const struct http_series_set *set, const struct snapshot *s, const struct snapshot_row *row,
                         struct http_text *to)
{
    to->n = 0;
    http_text_put(to, "span=");
    http_text_label(to, row->kind == CONTEXT_ROOT ? "(root)" : row->name);
    for (uint32_t i = 0; i < set->n_keys; i++) {
        const char *value = value_of(s, row, set->keys[i]);
        if (value[0] == '\0')
            continue;
        http_text_put(to, ",");
        http_text_put(to, set->names[i]);
        http_text_put(to, "=");
        http_text_label(to, value);
    }
    http_text_bytes(to, "", 1);
}

static void add(struct http_series *to, const struct totals *t)
{
    to->inuse_bytes += totals_inuse_bytes(t);
    to->inuse_objects += totals_inuse_objects(t);
    to->outlived_bytes += t->outlived_bytes;
    to->alloc_bytes += t->alloc_bytes;
    to->alloc_objects += t->alloc_objects;
    to->opens += t->opens;
    to->wall_ns += t->wall;
    to->busy_ns += t->busy;
    to->cpu_ns += t->cpu;
}

static void add_rows(struct http_series_set *set, const struct snapshot *s)
{
    struct http_text labels = {0};
    set->folded = 0;
    for (uint32_t i = 0; i < set->n; i++)
        set->series[i].inuse_bytes = set->series[i].inuse_objects = set->series[i].outlived_bytes = 0;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        write_labels(set, s, &s->rows[i], &labels);
        uint32_t at = labels.failed ? OTHER : find(set, labels.data);
        add(&set->series[at], &s->rows[i].totals);
    }
    http_text_free(&labels);
}

/* A peak cannot be added up, so it is taken from the rows themselves. What a recycled context had stays. */
static void raise_peaks(struct http_series_set *set, const struct snapshot *s)
{
    struct http_text labels = {0};
    for (uint32_t i = 0; i < set->n && snapshot_peak_bytes(s) < set->all_peak_bytes; i++)
        set->series[i].peak_bytes = 0;
    set->all_peak_bytes = snapshot_peak_bytes(s);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        if (!s->rows[i].peaks.total_bytes)
            continue;
        write_labels(set, s, &s->rows[i], &labels);
        struct http_series *to = &set->series[labels.failed ? OTHER : find_existing(set, labels.data)];
        if (to->peak_bytes < s->rows[i].peaks.total_bytes)
            to->peak_bytes = s->rows[i].peaks.total_bytes;
    }
    http_text_free(&labels);
}

/* A period is reported once. So figures that cannot be added now wait for the next call. */
int http_series_add(struct http_series_set *set, const struct snapshot *s)
{
    struct digest *d = digest_make(&set->shape);
    int error = d ? period_next(set->period, s, digest_add, d) : -ENOMEM;
    if (error != 0) {
        digest_free(d);
        return error;
    }
    if (set->waiting)
        digest_merge(d, set->waiting);
    digest_free(set->waiting);
    set->waiting = d;
    const struct snapshot *view = digest_view(d);
    if (!view)
        return -ENOMEM;
    add_rows(set, view);
    raise_peaks(set, s);
    digest_free(d);
    set->waiting = NULL;
    return 0;
}

/* ---- The set ---- */

struct http_series_set *http_series_make(const char *labels, uint64_t max)
{
    struct http_series_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->max = (uint32_t)max;
    set->shape = (struct digest_shape){.labels = labels, .flat = true};
    set->period = period_make();
    if (set->period && read_keys(set, labels) && find(set, "span=\"(other)\"") == OTHER && set->n == 1)
        return set;
    http_series_free(set);
    return NULL;
}

void http_series_free(struct http_series_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->n; i++)
        free(set->series[i].labels);
    free(set->series);
    hash_index_free(&set->index);
    period_free(set->period);
    digest_free(set->waiting);
    free(set->names);
    free(set->keys);
    free(set->key_text);
    free(set);
}
