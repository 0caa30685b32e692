/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the parts of a pprof profile. */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

enum { TYPE_NAME = 1 };
enum { ANY_ID = 1, MAPPING_FILE = 5 };
enum { PROFILE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING,
       PROFILE_TIME_NANOS = 9, PROFILE_DURATION_NANOS };

#define MAX_PARTS (1u << 24) /* of a kind; with the limit on bytes this bounds memory */

static const char malformed[] = "not a pprof profile";

uint64_t profile_number(struct wire message, uint32_t number)
{
    struct wire_field field;
    while (wire_next(&message, &field) == 1)
        if (field.number == number && !field.is_bytes)
            return field.value;
    return 0;
}

static const char *reserve(struct profile_parts *parts)
{
    if (parts->n < parts->capacity)
        return NULL;
    if (parts->n >= MAX_PARTS)
        return "too many samples, functions or strings";
    uint32_t capacity = parts->capacity == 0 ? 64 : parts->capacity * 2;
    struct profile_part *items = realloc(parts->items, capacity * sizeof *items);
    if (items == NULL)
        return "out of memory";
    parts->items = items;
    parts->capacity = capacity;
    return NULL;
}

static const char *add_part(struct profile *profile, struct profile_parts *parts, struct wire bytes, bool has_id)
{
    const char *error = reserve(parts);
    if (error != NULL)
        return error;
    uint64_t id = has_id ? profile_number(bytes, ANY_ID) : 0;
    uint64_t last = parts->n == 0 ? 0 : parts->items[parts->n - 1].id;
    parts->is_sorted = parts->n == 0 || (parts->is_sorted && last <= id);
    parts->items[parts->n++] = (struct profile_part){id, (uint32_t)(bytes.at - profile->data),
                                                     (uint32_t)(bytes.end - bytes.at)};
    return NULL;
}

static struct profile_parts *parts_of(struct profile *profile, uint32_t number)
{
    switch (number) {
    case PROFILE_TYPE:
        return &profile->types;
    case PROFILE_SAMPLE:
        return &profile->samples;
    case PROFILE_MAPPING:
        return &profile->mappings;
    case PROFILE_LOCATION:
        return &profile->locations;
    case PROFILE_FUNCTION:
        return &profile->functions;
    case PROFILE_STRING:
        return &profile->strings;
    default:
        return NULL;
    }
}

static const char *take_field(struct profile *profile, const struct wire_field *field)
{
    struct profile_parts *parts = parts_of(profile, field->number);
    if (parts != NULL && !field->is_bytes)
        return malformed;
    if (parts != NULL)
        return add_part(profile, parts, field->bytes, parts == &profile->locations || parts == &profile->functions);
    if (field->number == PROFILE_TIME_NANOS)
        profile->time_ns = (int64_t)field->value;
    if (field->number == PROFILE_DURATION_NANOS)
        profile->duration_ns = (int64_t)field->value;
    return NULL;
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = ((const struct profile_part *)a)->id, right = ((const struct profile_part *)b)->id;
    return (left > right) - (left < right);
}

static void sort(struct profile_parts *parts)
{
    if (parts->n > 1 && !parts->is_sorted)
        qsort(parts->items, parts->n, sizeof *parts->items, by_id);
}

static struct wire part(const struct profile *profile, const struct profile_parts *parts, uint64_t i)
{
    static const uint8_t none[1];
    if (i >= parts->n)
        return (struct wire){none, none};
    const uint8_t *at = profile->data + parts->items[i].at;
    return (struct wire){at, at + parts->items[i].bytes};
}

static struct wire find(const struct profile *profile, const struct profile_parts *parts, uint64_t id)
{
    struct profile_part key = {id, 0, 0};
    struct profile_part *found = parts->n == 0 ? NULL : bsearch(&key, parts->items, parts->n, sizeof key, by_id);
    return part(profile, parts, found == NULL ? UINT64_MAX : (uint64_t)(found - parts->items));
}

static bool is_text(struct wire string, const char *text)
{
    size_t bytes = (size_t)(string.end - string.at);
    return bytes == strlen(text) && memcmp(string.at, text, bytes) == 0;
}

static struct wire type_name(const struct profile *profile, uint32_t i)
{
    return profile_string(profile, profile_number(part(profile, &profile->types, i), TYPE_NAME));
}

static const struct {
    const char *names[PROFILE_N_VALUES];
    int mark; /* the value by which the kind is known; the others may be missing */
} kinds[PROFILE_N_KINDS] = {
    [PROFILE_HEAP] = {{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, PROFILE_INUSE_BYTES},
    [PROFILE_TIME] = {{"opens", "wall", "busy", "cpu"}, PROFILE_BUSY},
};

static bool find_columns(struct profile *profile, enum profile_kind kind)
{
    profile->kind = kind;
    for (int value = 0; value < PROFILE_N_VALUES; value++) {
        profile->columns[value] = -1;
        for (uint32_t i = 0; i < profile->types.n; i++)
            if (is_text(type_name(profile, i), kinds[kind].names[value]))
                profile->columns[value] = (int)i;
    }
    return profile->columns[kinds[kind].mark] >= 0;
}

static const char *find_kind(struct profile *profile)
{
    if (profile->types.n == 0)
        return malformed;
    if (find_columns(profile, PROFILE_HEAP) || find_columns(profile, PROFILE_TIME))
        return NULL;
    return "neither a heap profile nor a time profile: it has no inuse_space and no busy";
}

const char *profile_parse(struct profile *profile, const uint8_t *data, size_t bytes)
{
    struct wire rest = {data, data + bytes};
    struct wire_field field;
    memset(profile, 0, sizeof *profile);
    profile->data = data;
    if (bytes == 0)
        return "the file is empty";
    int more;
    while ((more = wire_next(&rest, &field)) == 1) {
        const char *error = take_field(profile, &field);
        if (error != NULL)
            return error;
    }
    if (more < 0)
        return malformed;
    sort(&profile->locations);
    sort(&profile->functions);
    return find_kind(profile);
}

void profile_free(struct profile *profile)
{
    struct profile_parts *all[] = {&profile->types,     &profile->samples,   &profile->mappings,
                                   &profile->locations, &profile->functions, &profile->strings};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]->items);
}

struct wire profile_string(const struct profile *profile, uint64_t index)
{
    return part(profile, &profile->strings, index);
}

struct wire profile_location(const struct profile *profile, uint64_t id)
{
    return find(profile, &profile->locations, id);
}

struct wire profile_function(const struct profile *profile, uint64_t id)
{
    return find(profile, &profile->functions, id);
}

struct wire profile_sample(const struct profile *profile, uint32_t i)
{
    return part(profile, &profile->samples, i);
}

struct wire profile_program(const struct profile *profile)
{
    return profile_string(profile, profile_number(part(profile, &profile->mappings, 0), MAPPING_FILE));
}

void profile_values(const struct profile *profile, uint32_t sample, int64_t values[PROFILE_N_VALUES])
{
    struct wire rest = profile_sample(profile, sample);
    struct wire_field field;
    int column = 0;
    memset(values, 0, PROFILE_N_VALUES * sizeof values[0]);
    while (wire_next(&rest, &field) == 1) {
        uint64_t number;
        while (field.number == SAMPLE_VALUE && wire_next_number(&field, &number) == 1) {
            for (int value = 0; value < PROFILE_N_VALUES; value++)
                if (profile->columns[value] == column)
                    values[value] = (int64_t)number;
            column++;
        }
    }
}
