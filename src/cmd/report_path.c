/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths in words. Only both ends of a long path are looked at, since the middle would be cut out anyway. */
#include "report_path.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#define END_FRAMES (REPORT_MAX_COLUMNS / 4 + 1) /* a frame and its separator take at least 4 columns */
#define MAX_INLINED 16
#define MAX_LABELS 64 /* in words */
#define MAX_NAME_CHARS 256

/* Ids of locations: the innermost ones from the leaf outwards, and as a ring the outermost ones. */
struct path {
    uint64_t n;
    uint64_t inner[END_FRAMES], outer[END_FRAMES];
};

static void add_id(struct path *path, uint64_t id)
{
    if (path->n < END_FRAMES)
        path->inner[path->n] = id;
    else
        path->outer[(path->n - END_FRAMES) % END_FRAMES] = id;
    path->n++;
}

static void read_path(struct path *path, struct wire sample, uint32_t left_out)
{
    struct wire_field field;
    path->n = 0;
    while (wire_next(&sample, &field) == 1) {
        uint64_t id;
        while (field.number == SAMPLE_LOCATION && wire_next_number(&field, &id) == 1)
            if (left_out == 0)
                add_id(path, id);
            else
                left_out--;
    }
}

static void add_function(struct text *text, const struct profile *profile, uint64_t id)
{
    struct wire name = profile_string(profile, profile_number(profile_function(profile, id), FUNCTION_NAME));
    if (name.at == name.end)
        text_add(text, "?");
    text_add_wire(text, name, MAX_NAME_CHARS);
}

/* " (file:line)" */
static void add_code_place(struct text *text, const struct profile *profile, uint64_t id)
{
    struct wire function = profile_function(profile, id);
    char line[32];
    text_add(text, " (");
    text_add_wire(text, profile_string(profile, profile_number(function, FUNCTION_FILE)), MAX_NAME_CHARS);
    snprintf(line, sizeof line, ":%" PRIu64 ")", profile_number(function, FUNCTION_START_LINE));
    text_add(text, line);
}

static void separate(struct text *text)
{
    if (text->n > 0)
        text_add(text, " > ");
}

/* Several lines are functions inlined into each other, innermost first. Without any there is only an address. */
static void add_location(struct text *text, const struct profile *profile, const struct report_names *names, uint64_t above,
                         uint64_t id)
{
    uint64_t functions[MAX_INLINED];
    size_t n = 0;
    struct wire location = profile_location(profile, id), rest = location;
    struct wire_field field;
    while (n < MAX_INLINED && wire_next(&rest, &field) == 1)
        if (field.number == LOCATION_LINE && field.is_bytes)
            functions[n++] = profile_number(field.bytes, LINE_FUNCTION);
    separate(text);
    if (n == 0) {
        char address[32];
        snprintf(address, sizeof address, "0x%" PRIx64, profile_number(location, LOCATION_ADDRESS));
        text_add(text, address);
    }
    for (bool is_outer = true; n > 0; is_outer = false) {
        add_function(text, profile, functions[--n]);
        if (is_outer && report_names_is_repeated(names, profile, above, functions[n]))
            add_code_place(text, profile, functions[n]);
        if (n > 0)
            separate(text);
    }
}

/* What is above the location, which is the k-th from the leaf of those inside; 0: nothing. */
static uint64_t above_inner(const struct path *path, uint64_t k)
{
    return k + 1 < END_FRAMES ? (k + 1 < path->n ? path->inner[k + 1] : 0) : path->n > END_FRAMES ? path->outer[0] : 0;
}

static void add_outer(struct text *text, const struct profile *profile, const struct report_names *names,
                      const struct path *path)
{
    uint64_t beyond = path->n - END_FRAMES;
    uint64_t n = beyond < END_FRAMES ? beyond : END_FRAMES;
    for (uint64_t i = 0; i < n; i++)
        add_location(text, profile, names, i > 0 ? path->outer[(beyond - i) % END_FRAMES] : 0,
                     path->outer[(beyond - 1 - i) % END_FRAMES]);
    if (beyond > n) {
        separate(text);
        text_add_ellipsis(text);
    }
}

static void add_label(struct text *text, const struct profile *profile, struct wire label)
{
    struct wire value = profile_string(profile, profile_number(label, LABEL_STR));
    text_add_wire(text, profile_string(profile, profile_number(label, LABEL_KEY)), MAX_NAME_CHARS);
    text_add(text, "=");
    if (profile_number(label, LABEL_STR) != 0) {
        text_add_wire(text, value, MAX_NAME_CHARS);
    } else {
        char number[32];
        snprintf(number, sizeof number, "%" PRId64, (int64_t)profile_number(label, LABEL_NUM));
        text_add(text, number);
    }
}

static void add_labels(struct text *text, const struct profile *profile, struct wire sample, uint32_t left_out)
{
    struct wire_field field;
    int n = 0;
    while (n < MAX_LABELS && wire_next(&sample, &field) == 1) {
        if (field.number != SAMPLE_LABEL || !field.is_bytes)
            continue;
        if (left_out > 0) {
            left_out--;
            continue;
        }
        text_add(text, n++ == 0 ? " {" : ", ");
        add_label(text, profile, field.bytes);
    }
    if (n > 0)
        text_add(text, "}");
}

void report_path(struct text *text, const struct profile *profile, const struct report_names *names,
                 const struct report_place *place)
{
    struct path path;
    struct wire bytes = profile_sample(profile, place->sample);
    text_clear(text);
    read_path(&path, bytes, place->frames);
    if (path.n > END_FRAMES)
        add_outer(text, profile, names, &path);
    for (uint64_t i = path.n < END_FRAMES ? path.n : END_FRAMES; i > 0; i--)
        add_location(text, profile, names, above_inner(&path, i - 1), path.inner[i - 1]);
    if (path.n == 0)
        text_add(text, "(no path)");
    add_labels(text, profile, bytes, place->labels);
}
