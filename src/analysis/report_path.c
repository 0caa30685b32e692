/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths as text. The middle of a long path would be cut out later, so only its two ends are looked at. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"
#include "profile/stack.h"
#include "report.h"

#define END_FRAMES (REPORT_MAX_COLUMNS / 4 + 1) /* a frame and its separator take 4 columns or more */
#define MAX_INLINED 16
#define MAX_LABELS 64 /* shown */
#define MAX_NAME_CHARS 256

/* --- Repeated names: most files have none, and then no sample is looked at ---------------------------------------------- */

static int64_t name_of(const struct profile *profile, uint64_t function)
{
    const JespanPprof__Function *found = profile_function(profile, function);
    return found ? found->name : 0;
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sets *has if any two functions have the same name, in whatever place. */
static int has_repeated(const struct profile *profile, bool *has)
{
    size_t n = profile->parts->n_function;
    int64_t *names = malloc((n + 1) * sizeof *names);
    *has = false;
    if (!names)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        names[i] = profile->parts->function[i]->name;
    qsort(names, n, sizeof *names, compare);
    for (size_t i = 1; i < n; i++)
        *has |= names[i] == names[i - 1];
    free(names);
    return 0;
}

/* Functions that are inlined into each other share a location. The outermost one is the last. */
uint64_t report_outer_function(const struct profile *profile, uint64_t id)
{
    const JespanPprof__Location *location = profile_location(profile, id);
    return !location || location->n_line == 0 ? 0 : location->line[location->n_line - 1]->function_id;
}

static uint64_t hash_name(const struct profile *profile, uint64_t above, uint64_t function)
{
    return hash_mix(hash_mix(above + 1) + (uint64_t)name_of(profile, function));
}

static int add_name(struct report_names *names, const struct profile *profile, uint64_t above, uint64_t location)
{
    uint64_t function = report_outer_function(profile, location), hash = hash_name(profile, above, function);
    const uint64_t *first = hash_find(&names->functions, hash);
    if (!first)
        return hash_add(&names->functions, hash, function);
    return *first == function || hash_find(&names->repeated, hash) ? 0 : hash_add(&names->repeated, hash, 0);
}

static int add_names(struct report_names *names, struct profile *profile, size_t i)
{
    JespanPprof__Sample *sample;
    int error = profile_sample(profile, i, &sample);
    if (error != 0)
        return error;
    for (size_t k = 0; k < sample->n_location_id && error == 0; k++)
        error = add_name(names, profile, k + 1 < sample->n_location_id ? sample->location_id[k + 1] : 0, sample->location_id[k]);
    profile_sample_free(profile, sample);
    return error;
}

int report_names_read(struct report_names *names, struct profile *profile)
{
    bool has;
    memset(names, 0, sizeof *names);
    int error = has_repeated(profile, &has);
    for (size_t i = 0; error == 0 && has && i < profile->parts->n_sample; i++)
        error = add_names(names, profile, i);
    return error;
}

void report_names_free(struct report_names *names)
{
    hash_free(&names->functions);
    hash_free(&names->repeated);
}

/* --- Text --------------------------------------------------------------------------------------------------------------- */

void report_add_string(struct text *text, const struct profile *profile, int64_t index)
{
    ProtobufCBinaryData string = profile_string(profile, index);
    text_add_bytes(text, string.data, string.len, MAX_NAME_CHARS);
}

static void add_function(struct text *text, const struct profile *profile, uint64_t id)
{
    int64_t name = name_of(profile, id);
    if (profile_string(profile, name).len == 0)
        text_add(text, "?");
    report_add_string(text, profile, name);
}

/* " (file:line)" */
static void add_code_place(struct text *text, const struct profile *profile, uint64_t id)
{
    const JespanPprof__Function *function = profile_function(profile, id);
    char line[32];
    text_add(text, " (");
    report_add_string(text, profile, !function ? 0 : function->filename);
    snprintf(line, sizeof line, ":%" PRId64 ")", !function ? 0 : function->start_line);
    text_add(text, line);
}

/* A call, by the function that is not inlined in the location. */
static void add_call(struct text *text, const struct profile *profile, const JespanPprof__Location *location)
{
    struct stack_call call = stack_outermost(location);
    stack_add_name(text, profile, &call);
}

/* A location without a function has only an address. `above` is 0 at the outer end. */
static void add_location(struct text *text, const struct report_input *input, uint64_t above, uint64_t id)
{
    const struct profile *profile = &input->profile;
    const JespanPprof__Location *location = profile_location(profile, id);
    size_t n = !location ? 0 : location->n_line < MAX_INLINED ? location->n_line : MAX_INLINED;
    if (n == 0 || (n == 1 && profile_frames_is_call(profile, id))) {
        text_add_part(text);
        add_call(text, profile, location);
        return;
    }
    for (size_t i = n; i > 0; i--) {
        uint64_t function = location->line[i - 1]->function_id;
        text_add_part(text);
        add_function(text, profile, function);
        if (i == n && hash_find(&input->names.repeated, hash_name(profile, above, function)))
            add_code_place(text, profile, function);
    }
}

void report_add_name(struct text *text, const struct report_input *input, uint64_t location)
{
    if (profile_frames_is_call(&input->profile, location))
        add_call(text, &input->profile, profile_location(&input->profile, location));
    else
        add_function(text, &input->profile, report_outer_function(&input->profile, location));
}

void report_add_site(struct text *text, const struct report_input *input, uint64_t location)
{
    uint64_t id = report_outer_function(&input->profile, location);
    const JespanPprof__Function *function = profile_function(&input->profile, id);
    report_add_name(text, input, location);
    if (function && profile_string(&input->profile, function->filename).len > 0)
        add_code_place(text, &input->profile, id);
}

/* `ids` begins with the leaf. The last `n_above` of them are left out. */
static void add_locations(struct text *text, const struct report_input *input, const uint64_t *ids, size_t n, size_t n_above)
{
    for (size_t i = n - n_above; i > 0; i--) {
        if (n - n_above > 2 * END_FRAMES && i == n - n_above - END_FRAMES) {
            text_add_part(text);
            text_add_ellipsis(text);
            i = END_FRAMES;
        }
        add_location(text, input, i < n ? ids[i] : 0, ids[i - 1]);
    }
    if (n == 0)
        text_add(text, "(no path)");
}

void report_add_label_value(struct text *text, const struct profile *profile, const JespanPprof__Label *label)
{
    char number[32];
    if (label->str != 0) {
        report_add_string(text, profile, label->str);
    } else {
        snprintf(number, sizeof number, "%" PRId64, label->num);
        text_add(text, number);
    }
}

static void add_labels(struct text *text, const struct profile *profile, JespanPprof__Label *const *labels, size_t n)
{
    for (size_t i = 0; i < n && i < MAX_LABELS; i++) {
        text_add(text, i == 0 ? " {" : ", ");
        report_add_string(text, profile, labels[i]->key);
        text_add(text, "=");
        report_add_label_value(text, profile, labels[i]);
    }
    if (n > 0)
        text_add(text, "}");
}

/* Both places are of the same path, but perhaps of different samples, so only their lengths are compared. */
void report_path_end(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample,
                     const struct report_place *place, const struct report_place *above)
{
    size_t n = sample->n_location_id - place->frames, n_labels = sample->n_label - place->labels;
    size_t n_above = above && above->frames < n ? above->frames : 0;
    size_t labels_above = above && above->labels < n_labels ? above->labels : above ? n_labels : 0;
    text_clear(text);
    add_locations(text, input, n > 0 ? sample->location_id + place->frames : NULL, n, n_above);
    add_labels(text, &input->profile, n_labels > 0 ? sample->label + place->labels : NULL, n_labels - labels_above);
}

void report_path(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample,
                 const struct report_place *place)
{
    report_path_end(text, input, sample, place, NULL);
}
