/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes pprof profiles with protobuf-c.
 *
 * A hostile file may have many tiny messages, each of which takes much more memory than its bytes. PROFILE_MAX_USED_BYTES bounds that.
 */
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "string_is.h"

static const char malformed[] = "not a pprof profile";

/* --- Memory --------------------------------------------------------------------------------------------------------- */

static void *allocate(void *data, size_t bytes)
{
    struct profile *profile = data;
    bool fits = bytes <= PROFILE_MAX_USED_BYTES && profile->used_bytes + bytes <= PROFILE_MAX_USED_BYTES;
    void *memory = fits ? malloc(bytes) : NULL;
    if (!memory)
        profile->error = fits ? -ENOMEM : -E2BIG;
    else
        profile->used_bytes += malloc_usable_size(memory);
    return memory;
}

static void release(void *data, void *memory)
{
    struct profile *profile = data;
    profile->used_bytes -= !memory ? 0 : malloc_usable_size(memory);
    free(memory);
}

/* --- Decoding ------------------------------------------------------------------------------------------------------- */

static int by_location_id(const void *a, const void *b)
{
    const JespanPprof__Location *const *left = a, *const *right = b;
    return ((*left)->id > (*right)->id) - ((*left)->id < (*right)->id);
}

static int by_function_id(const void *a, const void *b)
{
    const JespanPprof__Function *const *left = a, *const *right = b;
    return ((*left)->id > (*right)->id) - ((*left)->id < (*right)->id);
}

static const struct {
    const char *names[PROFILE_N_VALUES]; /* NULL: the kind has no more */
    int mark; /* every profile of this kind has this value; the others may be missing */
} kinds[PROFILE_N_KINDS] = {
    [PROFILE_HEAP] = {{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "temporary_objects", "lifetimes"},
                      PROFILE_INUSE_BYTES},
    [PROFILE_TIME] = {{"opens", "wall", "busy", "cpu"}, PROFILE_BUSY},
};

/* The last one of that name. -1: there is none. */
static int find_column(const struct profile *profile, const char *name)
{
    const JespanParts__Profile *parts = profile->parts;
    int column = -1;
    for (size_t i = 0; name && i < parts->n_sample_type; i++)
        if (string_is(profile_string(profile, parts->sample_type[i]->type), name))
            column = (int)i;
    return column;
}

static bool find_columns(struct profile *profile, enum profile_kind kind)
{
    static const char *const peaks[PROFILE_N_PEAKS] = {"max_space", "max_total_space", "peak_space"};
    profile->kind = kind;
    for (int value = 0; value < PROFILE_N_VALUES; value++)
        profile->columns[value] = find_column(profile, kinds[kind].names[value]);
    for (int peak = 0; peak < PROFILE_N_PEAKS; peak++)
        profile->peak_columns[peak] = kind == PROFILE_HEAP ? find_column(profile, peaks[peak]) : -1;
    return profile->columns[kinds[kind].mark] >= 0;
}

static const char *decode(struct profile *profile)
{
    struct profile_fields *fields = &profile->fields;
    profile->used_bytes = fields->of_samples.n + fields->n_kept * sizeof *fields->samples;
    JespanParts__Profile *parts = jespan_parts__profile__unpack(&profile->allocator, fields->others.n, fields->others.at);
    profile->parts = parts;
    if (profile->error == -E2BIG)
        return "too many samples, functions or strings";
    if (!parts)
        return profile->error == -ENOMEM ? "out of memory" : malformed;
    free(fields->others.at);
    fields->others.at = NULL;
    parts->sample = fields->samples;
    parts->n_sample = fields->n_samples;
    if (parts->n_sample_type == 0)
        return malformed;
    if (parts->n_location > 0)
        qsort(parts->location, parts->n_location, sizeof *parts->location, by_location_id);
    if (parts->n_function > 0)
        qsort(parts->function, parts->n_function, sizeof *parts->function, by_function_id);
    if (find_columns(profile, PROFILE_HEAP) || find_columns(profile, PROFILE_TIME))
        return NULL;
    return "neither a heap profile nor a time profile: it has no inuse_space and no busy";
}

const char *profile_read_descriptor(struct profile *profile, int fd, size_t most_sample_bytes)
{
    memset(profile, 0, sizeof *profile);
    profile->allocator = (ProtobufCAllocator){allocate, release, profile};
    const char *error = profile_fields_read(&profile->fields, fd, most_sample_bytes);
    return error ? error : decode(profile);
}

const char *profile_read(struct profile *profile, const char *path)
{
    memset(profile, 0, sizeof *profile);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    const char *error = profile_read_descriptor(profile, fd, SIZE_MAX);
    close(fd);
    return error;
}

void profile_free(struct profile *profile)
{
    profile_frames_free(profile);
    profile_samples_free(profile);
    if (profile->parts) {
        profile->parts->sample = NULL;
        profile->parts->n_sample = 0;
        jespan_parts__profile__free_unpacked(profile->parts, &profile->allocator);
    }
    profile_fields_free(&profile->fields);
}

void profile_values(const struct profile *profile, const JespanPprof__Sample *sample, int64_t values[PROFILE_N_VALUES])
{
    for (int value = 0; value < PROFILE_N_VALUES; value++) {
        int column = profile->columns[value];
        values[value] = column >= 0 && (size_t)column < sample->n_value ? sample->value[column] : 0;
    }
}

void profile_peaks(const struct profile *profile, const JespanPprof__Sample *sample, int64_t peaks[PROFILE_N_PEAKS])
{
    for (int peak = 0; peak < PROFILE_N_PEAKS; peak++) {
        int column = profile->peak_columns[peak];
        peaks[peak] = column >= 0 && (size_t)column < sample->n_value ? sample->value[column] : 0;
    }
}

bool profile_has_peaks_only(const int64_t values[PROFILE_N_VALUES], const int64_t peaks[PROFILE_N_PEAKS])
{
    int64_t any = 0, any_peak = 0;
    for (int value = 0; value < PROFILE_N_VALUES; value++)
        any |= values[value];
    for (int peak = 0; peak < PROFILE_N_PEAKS; peak++)
        any_peak |= peaks[peak];
    return any == 0 && any_peak != 0;
}

/* --- References ----------------------------------------------------------------------------------------------------- */

/* Text 0 is "" by profile.proto, and stands for what is missing. A hostile file may have another one there. */
ProtobufCBinaryData profile_string(const struct profile *profile, int64_t index)
{
    bool exists = index > 0 && (uint64_t)index < profile->parts->n_string_table;
    return exists ? profile->parts->string_table[index] : (ProtobufCBinaryData){0, NULL};
}

/* Ids are mostly 1, 2, 3 and so on, so the place of the id comes first. */
size_t profile_location_index(const struct profile *profile, uint64_t id)
{
    size_t n = profile->parts->n_location;
    const JespanPprof__Location key = {.id = id}, *searched = &key;
    if (id - 1 < n && profile->parts->location[id - 1]->id == id)
        return (size_t)id - 1;
    JespanPprof__Location *const *found =
        n == 0 ? NULL : bsearch(&searched, profile->parts->location, n, sizeof searched, by_location_id);
    return found ? (size_t)(found - profile->parts->location) : n;
}

const JespanPprof__Location *profile_location(const struct profile *profile, uint64_t id)
{
    size_t index = profile_location_index(profile, id);
    return index < profile->parts->n_location ? profile->parts->location[index] : NULL;
}

const JespanPprof__Function *profile_function(const struct profile *profile, uint64_t id)
{
    size_t n = profile->parts->n_function;
    const JespanPprof__Function key = {.id = id}, *searched = &key;
    if (id - 1 < n && profile->parts->function[id - 1]->id == id)
        return profile->parts->function[id - 1];
    JespanPprof__Function *const *found =
        n == 0 ? NULL : bsearch(&searched, profile->parts->function, n, sizeof searched, by_function_id);
    return found ? *found : NULL;
}

ProtobufCBinaryData profile_program(const struct profile *profile)
{
    const JespanParts__Profile *parts = profile->parts;
    return profile_string(profile, parts->n_mapping == 0 ? 0 : parts->mapping[0]->filename);
}
