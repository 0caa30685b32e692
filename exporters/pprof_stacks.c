/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the frames of stacks as pprof's locations. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "exporter_memory.h"
#include "pprof_parts.h"
#include "profile.pb-c.h"
#include "stacks/codes.h"

void pprof_stacks_init(struct pprof_stacks *stacks, struct pprof_strings *strings, const struct snapshot *snapshot,
                       const struct program *program)
{
    const struct exporter_memory *memory = strings->index.memory;
    memset(stacks, 0, sizeof *stacks);
    stacks->out = strings->out;
    stacks->strings = strings;
    stacks->snapshot = snapshot;
    stacks->index.memory = memory;
    if (!snapshot->n_stacks)
        return;
    stacks->locations = exporter_memory_take(memory, snapshot->n_frames, sizeof *stacks->locations);
    if (!stacks->locations)
        pprof_out_fail(stacks->out, -ENOMEM);
    code_maps_read(&stacks->maps, snapshot, memory);
    stacks->build_ids = exporter_memory_take(memory, code_maps_most(&stacks->maps), sizeof *stacks->build_ids);
    struct code_map *main_map = program->limit ? code_maps_find(&stacks->maps, program->start) : NULL;
    if (main_map && main_map != stacks->maps.generated)
        main_map->id = PPROF_PROGRAM_MAPPING_ID;
}

void pprof_stacks_free(struct pprof_stacks *stacks)
{
    const struct exporter_memory *memory = stacks->index.memory;
    hash_index_free(&stacks->index);
    exporter_memory_give(memory, stacks->locations);
    exporter_memory_give(memory, stacks->addresses);
    exporter_memory_give(memory, stacks->build_ids);
    code_maps_free(&stacks->maps);
}

/* A file that was replaced is still in memory. If it has no build id there either, what is written is that of no file: names of the
 * new file would be wrong. So it is with each piece of code that was unloaded. */
static void find_build_id(const struct pprof_stacks *stacks, const struct code_map *map, char *build_id)
{
    if (map->code) {
        code_maps_build_id(build_id, map->code);
        if (build_id[0] == '\0' && map->code->identity)
            snprintf(build_id, sizeof *stacks->build_ids, "(unloaded %u)", (unsigned)(map->code - stacks->snapshot->codes));
        return;
    }
    int file = code_maps_open(&stacks->maps, map);
    int fd = file >= 0 || !map->image ? file : code_maps_open_memory(&stacks->maps);
    if (file >= 0)
        code_maps_identify(build_id, &stacks->maps, map, file);
    else if (fd >= 0)
        pprof_head_build_id(build_id, fd, map->image);
    if (fd >= 0)
        close(fd);
    if (file == -ESTALE && build_id[0] == '\0')
        strcpy(build_id, "(replaced)");
}

static void write_mapping(struct pprof_stacks *stacks, struct code_map *map)
{
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT, *mappings = &mapping;
    map->id = PPROF_STACKS_MAPPING_ID + stacks->n_mappings;
    mapping.id = map->id;
    mapping.memory_start = map->start;
    mapping.memory_limit = map->limit;
    mapping.file_offset = map->offset;
    mapping.filename = pprof_strings_intern(stacks->strings, map->file);
    if (stacks->build_ids) {
        char *build_id = stacks->build_ids[stacks->n_mappings];
        find_build_id(stacks, map, build_id);
        mapping.build_id = pprof_strings_intern(stacks->strings, build_id);
    }
    stacks->n_mappings++;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = &mappings;
    pprof_out_message(stacks->out, &part.base);
}

static void write_location(struct pprof_stacks *stacks, uint64_t id, uint64_t address)
{
    struct code_map *map = code_maps_find(&stacks->maps, address);
    if (map && !map->id)
        write_mapping(stacks, map);
    JespanPprof__Location location = JESPAN_PPROF__LOCATION__INIT, *locations = &location;
    location.id = id;
    location.mapping_id = map ? map->id : 0;
    location.address = address;
    JespanPprof__Function function = JESPAN_PPROF__FUNCTION__INIT, *functions = &function;
    JespanPprof__Line line = JESPAN_PPROF__LINE__INIT, *lines = &line;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    if (address == CODES_CUT - 1) {
        function.id = line.function_id = id;
        function.name = function.system_name = pprof_strings_intern(stacks->strings, CODES_CUT_NAME);
        location.n_line = part.n_function = 1;
        location.line = &lines;
        part.function = &functions;
    }
    part.n_location = 1;
    part.location = &locations;
    pprof_out_message(stacks->out, &part.base);
}

static bool is_address(const void *owner, uint32_t position, const void *key)
{
    const struct pprof_stacks *stacks = owner;
    return stacks->addresses[position] == *(const uint64_t *)key;
}

static int reserve(struct pprof_stacks *stacks)
{
    if (stacks->n < stacks->capacity)
        return 0;
    uint32_t capacity = stacks->capacity ? 2 * stacks->capacity : 256;
    uint64_t *addresses = exporter_memory_grow(stacks->index.memory, stacks->addresses, stacks->capacity * sizeof *addresses,
                                               capacity * sizeof *addresses);
    if (!addresses)
        return -ENOMEM;
    stacks->addresses = addresses;
    stacks->capacity = capacity;
    return 0;
}

/* Several frames may have one address. */
static uint32_t find_location(struct pprof_stacks *stacks, uint64_t address)
{
    uint32_t hash = hash_fold(hash_bytes(HASH_START, &address, sizeof address));
    uint32_t position = hash_index_find(&stacks->index, hash, is_address, stacks, &address);
    if (position != HASH_INDEX_NONE)
        return position + 1;
    int error = reserve(stacks);
    if (!error)
        error = hash_index_add(&stacks->index, hash, stacks->n);
    if (error) {
        pprof_out_fail(stacks->out, error);
        return 1; /* nothing more is written */
    }
    stacks->addresses[stacks->n] = address;
    write_location(stacks, PPROF_STACKS_FIRST_ID + stacks->n, address);
    return ++stacks->n;
}

/* A return address is that of the instruction after the call. The call itself may be on another line. */
uint32_t pprof_stacks_walk(struct pprof_stacks *stacks, uint32_t frame, uint64_t frames[PPROF_MAX_STACK_FRAMES])
{
    uint32_t n = 0;
    for (; stacks->locations && frame && frame < stacks->snapshot->n_frames && n < PPROF_MAX_STACK_FRAMES;
         frame = stacks->snapshot->frames[frame].parent) {
        if (!stacks->locations[frame])
            stacks->locations[frame] = find_location(stacks, stacks->snapshot->frames[frame].return_address - 1);
        frames[n++] = PPROF_STACKS_FIRST_ID + stacks->locations[frame] - 1;
    }
    return n;
}
