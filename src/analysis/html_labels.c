/* SPDX-License-Identifier: BSD-2-Clause */
/* Which span of a sample has which of its labels.
 *
 * A sample has the labels of its whole path, and does not say which span has which label. So a span has the labels whose keys all
 * samples below it have, and those above it do not. */
#include "html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The keys that all samples below a path of frames have, as hashes. */
struct html_keys {
    uint64_t *of;
    uint32_t n;
};

static uint32_t count_labels(const JespanPprof__Sample *sample)
{
    return sample->n_label < HTML_MAX_LABELS ? (uint32_t)sample->n_label : HTML_MAX_LABELS;
}

/* A sample without a path has one frame. */
static size_t count_frames(const JespanPprof__Sample *sample)
{
    return sample->n_location_id > 0 ? sample->n_location_id : 1;
}

static uint64_t location_of(const JespanPprof__Sample *sample, size_t i)
{
    return i < sample->n_location_id ? sample->location_id[i] : 0;
}

static uint64_t hash_frame(const struct report_input *input, uint64_t above, uint64_t location)
{
    return hash_mix(above + hash_mix(report_location_hash(input, location) + 1));
}

static uint32_t count(const uint64_t *hashes, uint32_t n, uint64_t hash)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        found += hashes[i] == hash;
    return found;
}

/* --- Learning ------------------------------------------------------------------------------------------------------- */

static int add_keys(struct html_labels *l, uint64_t path, const uint64_t *hashes, uint32_t n)
{
    if (array_reserve(&l->keys, &l->capacity, l->n + (size_t)1, sizeof *l->keys))
        return -ENOMEM;
    uint64_t *of = malloc((n + (size_t)1) * sizeof *of);
    if (!of || hash_add(&l->paths, path, l->n) != 0) {
        free(of);
        return -ENOMEM;
    }
    memcpy(of, hashes, n * sizeof *of);
    l->keys[l->n++] = (struct html_keys){of, n};
    return 0;
}

/* Keeps the keys that are also among `hashes`. */
static void cut_keys(struct html_keys *keys, const uint64_t *hashes, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < keys->n; i++)
        if (count(keys->of, kept, keys->of[i]) < count(hashes, n, keys->of[i]))
            keys->of[kept++] = keys->of[i];
    keys->n = kept;
}

int html_labels_learn(struct html_labels *l, const struct report_input *input, const JespanPprof__Sample *sample)
{
    uint64_t hashes[HTML_MAX_LABELS], path = 0;
    uint32_t n = count_labels(sample);
    int error = 0;
    for (uint32_t i = 0; i < n; i++)
        hashes[i] = report_string_hash(input, sample->label[i]->key);
    for (size_t i = count_frames(sample); i-- > 0 && error == 0;) {
        path = hash_frame(input, path, location_of(sample, i));
        const uint64_t *known = hash_find(&l->paths, path);
        if (known)
            cut_keys(&l->keys[*known], hashes, n);
        else
            error = add_keys(l, path, hashes, n);
    }
    return error;
}

void html_labels_free(struct html_labels *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        free(l->keys[i].of);
    free(l->keys);
    hash_free(&l->paths);
}

/* --- Walking over the frames of a sample ---------------------------------------------------------------------------- */

/* Gives the frame the labels that are its own, from the outermost on. `keys` NULL: all that are left. */
static void take_labels(struct html_walk *w, const struct html_keys *keys)
{
    const JespanPprof__Sample *sample = w->sample;
    struct html_frame *at = &w->frame;
    uint64_t had[HTML_MAX_LABELS];
    uint32_t n_had = 0, n = count_labels(sample);
    at->n_labels = 0;
    for (uint32_t i = 0; i < n; i++)
        if (w->taken[i])
            had[n_had++] = report_string_hash(w->input, sample->label[i]->key);
    for (uint32_t i = n; i-- > 0;) {
        const JespanPprof__Label *label = sample->label[i];
        uint64_t key = report_string_hash(w->input, label->key);
        if (w->taken[i] || (keys && count(had, n_had, key) >= count(keys->of, keys->n, key)))
            continue;
        w->taken[i] = true;
        had[n_had++] = key;
        at->labels[at->n_labels++] = label;
        at->hash += hash_mix(hash_mix(key + 1) ^ report_string_hash(w->input, label->str) ^ hash_mix((uint64_t)label->num));
    }
}

void html_walk_begin(struct html_walk *w, const struct html_labels *labels, const struct report_input *input,
                     const JespanPprof__Sample *sample)
{
    *w = (struct html_walk){.known = labels, .input = input, .sample = sample, .left = count_frames(sample)};
}

bool html_walk_next(struct html_walk *w)
{
    struct html_frame *at = &w->frame;
    if (w->left == 0)
        return false;
    at->location = location_of(w->sample, --w->left);
    w->path = hash_frame(w->input, w->path, at->location);
    at->hash = hash_frame(w->input, at->hash, at->location);
    const uint64_t *known = w->left > 0 ? hash_find(&w->known->paths, w->path) : NULL;
    take_labels(w, known ? &w->known->keys[*known] : NULL);
    return true;
}
