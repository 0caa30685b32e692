/* SPDX-License-Identifier: BSD-2-Clause */
/* make_stacks: writes a heap profile with stacks to stdout, as jespan does, from lines of text on stdin:
 *
 *   map START-LIMIT PERMISSIONS OFFSET DEVICE INODE PATH     a line of /proc/PID/maps
 *   id PATH HEX                                              the build id of the mappings with this path, after them
 *   sample BYTES SPAN,SPAN KEY=VALUE ADDRESS...              "-" for no span or no label; addresses in hex, the leaf first
 *
 * Other lines are left out. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.pb-c.h"

enum { MAX_ITEMS = 40000, MAX_FRAMES = 256 };

static char *strings[MAX_ITEMS];
static JespanPprof__Mapping mappings[MAX_ITEMS];
static JespanPprof__Location locations[MAX_ITEMS];
static JespanPprof__Function functions[MAX_ITEMS];
static JespanPprof__Sample samples[MAX_ITEMS];
static JespanPprof__ValueType types[4];
static void *pointers[5][MAX_ITEMS];
static size_t n_strings, n_mappings, n_locations, n_functions, n_samples;

static int64_t intern(const char *text)
{
    for (size_t i = 0; i < n_strings; i++)
        if (strcmp(strings[i], text) == 0)
            return (int64_t)i;
    if (n_strings == MAX_ITEMS)
        exit(3);
    strings[n_strings] = strdup(text);
    return (int64_t)n_strings++;
}

static void add_mapping(uint64_t start, uint64_t limit, uint64_t offset, const char *path)
{
    JespanPprof__Mapping *mapping = &mappings[n_mappings++];
    jespan_pprof__mapping__init(mapping);
    mapping->id = n_mappings;
    mapping->memory_start = start;
    mapping->memory_limit = limit;
    mapping->file_offset = offset;
    mapping->filename = intern(path);
}

static uint64_t add_location(uint64_t mapping, uint64_t address)
{
    for (size_t i = 0; i < n_locations; i++)
        if (locations[i].mapping_id == mapping && locations[i].address == address)
            return locations[i].id;
    if (n_locations == MAX_ITEMS)
        exit(3);
    JespanPprof__Location *location = &locations[n_locations++];
    jespan_pprof__location__init(location);
    location->id = n_locations;
    location->mapping_id = mapping;
    location->address = address;
    return location->id;
}

static uint64_t find_mapping(uint64_t address)
{
    for (size_t i = 1; i < n_mappings; i++)
        if (address >= mappings[i].memory_start && address < mappings[i].memory_limit)
            return mappings[i].id;
    return 0;
}

/* Spans have a function each, and an address in the first mapping. */
static uint64_t add_span(const char *name)
{
    int64_t index = intern(name);
    uint64_t id = add_location(1, 0x100000 + (uint64_t)index);
    JespanPprof__Location *location = &locations[id - 1];
    if (location->n_line > 0)
        return id;
    JespanPprof__Function *function = &functions[n_functions++];
    jespan_pprof__function__init(function);
    function->id = n_functions;
    function->name = index;
    location->n_line = 1;
    location->line = malloc(sizeof *location->line);
    location->line[0] = malloc(sizeof *location->line[0]);
    jespan_pprof__line__init(location->line[0]);
    location->line[0]->function_id = function->id;
    return id;
}

static void add_label(JespanPprof__Sample *sample, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return;
    *equals = '\0';
    sample->label = malloc(sizeof *sample->label);
    sample->label[0] = malloc(sizeof *sample->label[0]);
    jespan_pprof__label__init(sample->label[0]);
    sample->label[0]->key = intern(text);
    sample->label[0]->str = intern(equals + 1);
    sample->n_label = 1;
}

static void add_spans(JespanPprof__Sample *sample, char *path)
{
    char *names[MAX_FRAMES];
    size_t n = 0;
    for (char *name = strtok(path, ","); name && n < MAX_FRAMES; name = strtok(NULL, ","))
        names[n++] = name;
    while (n > 0)
        sample->location_id[sample->n_location_id++] = add_span(names[--n]);
}

static void add_sample(char *line)
{
    char *bytes = strtok(line, " \n"), *path = strtok(NULL, " \n"), *label = strtok(NULL, " \n");
    JespanPprof__Sample *sample = &samples[n_samples++];
    if (!label || n_samples == MAX_ITEMS)
        exit(3);
    jespan_pprof__sample__init(sample);
    sample->location_id = calloc(2 * MAX_FRAMES, sizeof *sample->location_id);
    for (char *word; sample->n_location_id < MAX_FRAMES && (word = strtok(NULL, " \n"));) {
        uint64_t address = strtoull(word, NULL, 16);
        sample->location_id[sample->n_location_id++] = add_location(find_mapping(address), address);
    }
    sample->value = calloc(4, sizeof *sample->value);
    sample->n_value = 4;
    sample->value[0] = sample->value[2] = 1;
    sample->value[1] = sample->value[3] = (int64_t)strtoull(bytes, NULL, 10);
    add_label(sample, label);
    if (strcmp(path, "-") != 0)
        add_spans(sample, path);
}

static void read_line(char *line)
{
    uint64_t start, limit, offset;
    char path[4096] = "", id[256];
    if (sscanf(line, "map %" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095[^\n]", &start, &limit, &offset, path) >= 3)
        add_mapping(start, limit, offset, path);
    else if (sscanf(line, "id %4095s %255s", path, id) == 2)
        for (size_t i = 1; i < n_mappings; i++)
            mappings[i].build_id = mappings[i].filename == intern(path) ? intern(id) : mappings[i].build_id;
    else if (strncmp(line, "sample ", 7) == 0)
        add_sample(line + 7);
}

int main(void)
{
    static const char *const names[] = {"alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "count", "inuse_space", "bytes"};
    static char line[1 << 16];
    JespanPprof__Profile profile = JESPAN_PPROF__PROFILE__INIT;
    intern("");
    add_mapping(0x100000, 0x200000, 0, "[jespan]");
    mappings[0].has_functions = mappings[0].has_filenames = mappings[0].has_line_numbers = 1;
    while (fgets(line, sizeof line, stdin) && n_mappings < MAX_ITEMS)
        read_line(line);
    for (size_t i = 0; i < 4; i++) {
        jespan_pprof__value_type__init(&types[i]);
        types[i].type = intern(names[2 * i]);
        types[i].unit = intern(names[2 * i + 1]);
        pointers[4][i] = &types[i];
    }
    for (size_t i = 0; i < MAX_ITEMS; i++) {
        pointers[0][i] = &mappings[i];
        pointers[1][i] = &locations[i];
        pointers[2][i] = &functions[i];
        pointers[3][i] = &samples[i];
    }
    profile.n_mapping = n_mappings, profile.mapping = (JespanPprof__Mapping **)pointers[0];
    profile.n_location = n_locations, profile.location = (JespanPprof__Location **)pointers[1];
    profile.n_function = n_functions, profile.function = (JespanPprof__Function **)pointers[2];
    profile.n_sample = n_samples, profile.sample = (JespanPprof__Sample **)pointers[3];
    profile.n_sample_type = 4, profile.sample_type = (JespanPprof__ValueType **)pointers[4];
    profile.n_string_table = n_strings, profile.string_table = strings;
    profile.period_type = &types[3];
    profile.period = 1;
    size_t bytes = jespan_pprof__profile__get_packed_size(&profile);
    uint8_t *packed = malloc(bytes);
    jespan_pprof__profile__pack(&profile, packed);
    return fwrite(packed, 1, bytes, stdout) != bytes || fflush(stdout) != 0;
}
