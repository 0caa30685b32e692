/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes samples. A large profile is samples nearly alone, and protobuf-c makes several allocations for each. So this code
 * reads their three fields itself, into memory that the next sample uses again (docs/decisions/057). It takes and refuses
 * what protobuf-c takes and refuses. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "profile.h"
#include "wire.h"

enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES = 2, SAMPLE_LABELS = 3 };
enum { LABEL_KEY = 1, LABEL_TEXT = 2, LABEL_NUMBER = 3, LABEL_UNIT = 4 };

struct profile_decoded {
    JespanPprof__Sample sample; /* first: its address is that of the whole */
    struct profile_decoded *next; /* in the list of those that are free */
    JespanPprof__Label *labels;
    size_t location_room, value_room, label_room, pointer_room;
};

/* --- Memory --------------------------------------------------------------------------------------------------------- */

static inline int reserve(struct profile *profile, void *array, size_t *room, size_t n, size_t item_bytes)
{
    if (n <= *room)
        return 0;
    if (n > PROFILE_MAX_USED_BYTES / item_bytes || profile->used_bytes + n * item_bytes > PROFILE_MAX_USED_BYTES) {
        profile->error = -E2BIG;
        return -ENOMEM;
    }
    return array_reserve(array, room, n, item_bytes);
}

static struct profile_decoded *take(struct profile *profile)
{
    struct profile_decoded *decoded = profile->free_samples;
    if (decoded)
        profile->free_samples = decoded->next;
    else
        decoded = calloc(1, sizeof *decoded);
    return decoded;
}

void profile_sample_free(struct profile *profile, JespanPprof__Sample *sample)
{
    struct profile_decoded *decoded = (struct profile_decoded *)sample;
    if (decoded) {
        decoded->next = profile->free_samples;
        profile->free_samples = decoded;
    }
}

void profile_samples_free(struct profile *profile)
{
    while (profile->free_samples) {
        struct profile_decoded *decoded = take(profile);
        free(decoded->sample.location_id);
        free(decoded->sample.value);
        free(decoded->sample.label);
        free(decoded->labels);
        free(decoded);
    }
}

int profile_sample_set_locations(struct profile *profile, JespanPprof__Sample *sample, const uint64_t *ids, size_t n)
{
    struct profile_decoded *decoded = (struct profile_decoded *)sample;
    int error = reserve(profile, &sample->location_id, &decoded->location_room, n, sizeof *ids);
    if (error == 0 && n > 0)
        memcpy(sample->location_id, ids, n * sizeof *ids);
    sample->n_location_id = error == 0 ? n : 0;
    return error;
}

/* --- Fields --------------------------------------------------------------------------------------------------------- */

/* Whether there is a whole field. protobuf-c refuses field number 0, unless its tag has more than one byte. */
static bool read_field(const uint8_t *at, size_t n, struct wire_field *field)
{
    return at[0] >= 8 && wire_field(at, n, field) <= n;
}

/* Adds a number, or many of them in one field, to an array of *n numbers. */
static int add_numbers(struct profile *profile, const uint8_t *at, const struct wire_field *field, uint64_t **to, size_t *room, size_t *n)
{
    size_t n_added = field->type == WIRE_NUMBER;
    for (size_t i = field->content; i < field->bytes; i++)
        n_added += at[i] < 0x80;
    if (field->type != WIRE_NUMBER && field->type != WIRE_BYTES)
        return -EBADMSG;
    if (reserve(profile, to, room, *n + n_added, sizeof **to) != 0)
        return -ENOMEM;
    if (field->type == WIRE_NUMBER)
        (*to)[(*n)++] = field->value;
    for (size_t i = field->content; i < field->bytes;) {
        uint64_t number;
        size_t bytes = wire_number(at + i, field->bytes - i, WIRE_NUMBER_BYTES, &number);
        if (bytes == 0 || bytes == SIZE_MAX)
            return -EBADMSG;
        (*to)[(*n)++] = number;
        i += bytes;
    }
    return 0;
}

static int read_label(JespanPprof__Label *label, const uint8_t *at, size_t n)
{
    *label = (JespanPprof__Label)JESPAN_PPROF__LABEL__INIT;
    struct wire_field field = {0};
    for (; n > 0; at += field.bytes, n -= field.bytes) {
        if (!read_field(at, n, &field))
            return -EBADMSG;
        int64_t *member = field.number == LABEL_KEY      ? &label->key
                          : field.number == LABEL_TEXT   ? &label->str
                          : field.number == LABEL_NUMBER ? &label->num
                          : field.number == LABEL_UNIT   ? &label->num_unit
                                                         : NULL;
        if (member && field.type != WIRE_NUMBER)
            return -EBADMSG;
        if (member)
            *member = (int64_t)field.value;
    }
    return 0;
}

static int add_label(struct profile *profile, struct profile_decoded *decoded, const uint8_t *at, const struct wire_field *field)
{
    size_t n = decoded->sample.n_label;
    if (field->type != WIRE_BYTES)
        return -EBADMSG;
    if (reserve(profile, &decoded->labels, &decoded->label_room, n + 1, sizeof *decoded->labels) != 0)
        return -ENOMEM;
    decoded->sample.n_label++;
    return read_label(&decoded->labels[n], at + field->content, field->bytes - field->content);
}

static int add_field(struct profile *profile, struct profile_decoded *decoded, const uint8_t *at, const struct wire_field *field)
{
    JespanPprof__Sample *sample = &decoded->sample;
    switch (field->number) {
    case SAMPLE_LOCATIONS:
        return add_numbers(profile, at, field, &sample->location_id, &decoded->location_room, &sample->n_location_id);
    case SAMPLE_VALUES:
        return add_numbers(profile, at, field, (uint64_t **)&sample->value, &decoded->value_room, &sample->n_value);
    case SAMPLE_LABELS:
        return add_label(profile, decoded, at, field);
    default:
        return 0;
    }
}

/* Labels may move while they are read. */
static int point_at_labels(struct profile *profile, struct profile_decoded *decoded)
{
    JespanPprof__Sample *sample = &decoded->sample;
    if (reserve(profile, &sample->label, &decoded->pointer_room, sample->n_label, sizeof *sample->label) != 0)
        return -ENOMEM;
    for (size_t i = 0; i < sample->n_label; i++)
        sample->label[i] = &decoded->labels[i];
    return 0;
}

static int decode(struct profile *profile, struct profile_decoded *decoded, const uint8_t *at, size_t n)
{
    struct wire_field field = {0};
    int error = 0;
    decoded->sample.n_location_id = decoded->sample.n_value = decoded->sample.n_label = 0;
    for (; n > 0 && error == 0; at += field.bytes, n -= field.bytes) {
        if (!read_field(at, n, &field))
            return -EBADMSG;
        error = add_field(profile, decoded, at, &field);
    }
    return error == 0 ? point_at_labels(profile, decoded) : error;
}

int profile_sample(struct profile *profile, size_t i, JespanPprof__Sample **sample)
{
    ProtobufCBinaryData bytes;
    struct profile_decoded *decoded = take(profile);
    int error = decoded ? profile_fields_sample(&profile->fields, i, &bytes) : -ENOMEM;
    if (error == 0)
        error = decode(profile, decoded, bytes.data, bytes.len);
    if (error == 0 && decoded->sample.n_value != profile->parts->n_sample_type)
        error = -EBADMSG;
    if (error == 0 && profile->frames)
        error = profile_frames_apply(profile, &decoded->sample);
    if (error != 0 && decoded)
        profile_sample_free(profile, &decoded->sample);
    *sample = error == 0 ? &decoded->sample : NULL;
    return error;
}
