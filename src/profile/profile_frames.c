/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frames the samples of a profile have when they are read. */
#include "profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "stack.h"

/* A location of the file. */
struct place {
    uint64_t first; /* inlined functions: the id of the first of the locations that were made for them */
    bool is_call;
};

struct profile_frames {
    enum profile_frames_kind kind;
    struct place *places; /* in the order of parts->location */
    size_t n_places;
    uint64_t *ids; /* of the present sample */
    size_t room;
};

bool profile_frames_is_call(const struct profile *profile, uint64_t location)
{
    JespanPprof__Sample sample = {.n_location_id = 1, .location_id = &location};
    return stack_locations(profile, &sample) == 1;
}

/* --- Locations of inlined functions --------------------------------------------------------------------------------------- */

static void *take(struct profile *profile, size_t bytes)
{
    return profile->allocator.alloc(profile->allocator.allocator_data, bytes);
}

static void give(struct profile *profile, void *memory)
{
    if (memory)
        profile->allocator.free(profile->allocator.allocator_data, memory);
}

/* Makes a location for one function of another location. */
static JespanPprof__Location *make_location(struct profile *profile, const JespanPprof__Location *from, size_t line, uint64_t id)
{
    JespanPprof__Location *made = take(profile, sizeof *made);
    if (!made)
        return NULL;
    jespan_pprof__location__init(made);
    made->id = id;
    made->mapping_id = from->mapping_id;
    made->address = from->address;
    made->line = take(profile, sizeof *made->line);
    JespanPprof__Line *copy = made->line ? take(profile, sizeof *copy) : NULL;
    if (!copy) {
        give(profile, made->line);
        give(profile, made);
        return NULL;
    }
    jespan_pprof__line__init(copy);
    copy->function_id = from->line[line]->function_id;
    copy->line = from->line[line]->line;
    made->line[0] = copy;
    made->n_line = 1;
    return made;
}

static size_t count_inlined(const struct profile *profile)
{
    size_t n = 0;
    for (size_t i = 0; i < profile->parts->n_location; i++)
        n += profile->parts->location[i]->n_line > 1 ? profile->parts->location[i]->n_line : 0;
    return n;
}

/* The new locations stand behind the others, so that all stay sorted by id. */
static int split_inlined(struct profile *profile, struct profile_frames *frames)
{
    JespanParts__Profile *parts = profile->parts;
    size_t n = parts->n_location, n_added = count_inlined(profile);
    uint64_t next = n == 0 ? 1 : parts->location[n - 1]->id + 1;
    if (n_added == 0 || next == 0 || next > UINT64_MAX - n_added)
        return 0;
    JespanPprof__Location **locations = take(profile, (n + n_added) * sizeof *locations);
    if (!locations)
        return -ENOMEM;
    memcpy(locations, parts->location, n * sizeof *locations);
    give(profile, parts->location);
    parts->location = locations;
    for (size_t i = 0; i < n; i++) {
        size_t n_lines = locations[i]->n_line > 1 ? locations[i]->n_line : 0;
        frames->places[i].first = n_lines > 0 && frames->places[i].is_call ? next : 0;
        for (size_t k = 0; frames->places[i].first != 0 && k < n_lines; k++) {
            JespanPprof__Location *made = make_location(profile, locations[i], k, next++);
            if (!made)
                return -ENOMEM;
            locations[parts->n_location++] = made;
        }
    }
    return 0;
}

/* --- Samples -------------------------------------------------------------------------------------------------------------- */

static bool is_jespans(const struct profile *profile)
{
    for (size_t i = 0; i < profile->parts->n_mapping; i++) {
        ProtobufCBinaryData name = profile_string(profile, profile->parts->mapping[i]->filename);
        if (name.len == 8 && memcmp(name.data, "[jespan]", 8) == 0)
            return true;
    }
    return false;
}

int profile_frames_set(struct profile *profile, enum profile_frames_kind kind)
{
    size_t n = profile->parts->n_location;
    if (kind == PROFILE_SPANS && !is_jespans(profile))
        return 0;
    struct profile_frames *frames = calloc(1, sizeof *frames);
    profile->frames = frames;
    if (frames)
        frames->places = calloc(n + 1, sizeof *frames->places);
    if (!frames || !frames->places)
        return -ENOMEM;
    frames->kind = kind;
    frames->n_places = n;
    for (size_t i = 0; i < n; i++)
        frames->places[i].is_call = profile_frames_is_call(profile, profile->parts->location[i]->id);
    return kind != PROFILE_SPANS ? split_inlined(profile, frames) : 0;
}

bool profile_frames_has_calls(const struct profile *profile)
{
    for (size_t i = 0; profile->frames && i < profile->frames->n_places; i++)
        if (profile->frames->places[i].is_call)
            return true;
    return false;
}

void profile_frames_free(struct profile *profile)
{
    if (profile->frames) {
        free(profile->frames->places);
        free(profile->frames->ids);
    }
    free(profile->frames);
}

static const struct place *place_of(const struct profile *profile, uint64_t id)
{
    static const struct place unknown = {0, true};
    size_t i = profile_location_index(profile, id);
    return i < profile->frames->n_places ? &profile->frames->places[i] : &unknown;
}

static int add_id(struct profile_frames *frames, size_t *n, uint64_t id)
{
    if (array_reserve(&frames->ids, &frames->room, *n + 1, sizeof *frames->ids))
        return -ENOMEM;
    frames->ids[(*n)++] = id;
    return 0;
}

/* The calls of a sample, each function alone. */
static int read_calls(struct profile *profile, const JespanPprof__Sample *sample, size_t n_calls, size_t *n)
{
    int error = 0;
    for (size_t i = 0; i < n_calls && error == 0; i++) {
        uint64_t id = sample->location_id[i], first = place_of(profile, id)->first;
        const JespanPprof__Location *location = profile_location(profile, id);
        size_t n_lines = first != 0 && location ? location->n_line : 1;
        for (size_t k = 0; k < n_lines && error == 0; k++)
            error = add_id(profile->frames, n, first != 0 ? first + k : id);
    }
    return error;
}

static bool has_role(const void *data, size_t i, enum service_role role)
{
    const struct profile *profile = data;
    struct stack_call call = stack_outermost(profile_location(profile, profile->frames->ids[i]));
    return stack_has_role(profile, &call, role);
}

static void leave_out(const struct profile *profile, size_t *n)
{
    struct role_stack roles = {.n = *n, .has = has_role, .data = profile};
    role_find_shown(&roles);
    *n = 0;
    for (size_t i = roles.first; i < roles.end; i++)
        if (role_shows(&roles, i))
            profile->frames->ids[(*n)++] = profile->frames->ids[i];
}

int profile_frames_apply(struct profile *profile, JespanPprof__Sample *sample)
{
    struct profile_frames *frames = profile->frames;
    size_t n_calls = sample->n_location_id, n = 0;
    int error = 0;
    while (n_calls > 0 && !place_of(profile, sample->location_id[n_calls - 1])->is_call)
        n_calls--;
    if (n_calls == 0)
        return 0;
    if (frames->kind != PROFILE_SPANS)
        error = read_calls(profile, sample, n_calls, &n);
    if (frames->kind == PROFILE_CALLS)
        leave_out(profile, &n);
    for (size_t i = n_calls; i < sample->n_location_id && error == 0; i++)
        error = add_id(frames, &n, sample->location_id[i]);
    return error == 0 ? profile_sample_set_locations(profile, sample, frames->ids, n) : error;
}
