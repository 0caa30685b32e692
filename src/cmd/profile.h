/* SPDX-License-Identifier: BSD-2-Clause */
/* A pprof profile, of the heap or of times, as read from a file: where its parts are in the unpacked bytes. See
 * exporters/profile.proto for the format. Any file may be given: references that lead nowhere give empty parts. */
#ifndef JESPAN_CMD_PROFILE_H
#define JESPAN_CMD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

enum profile_kind { PROFILE_HEAP, PROFILE_TIME, PROFILE_N_KINDS };

/* The values of a sample, whatever their order in the file. */
enum { PROFILE_ALLOC_OBJECTS, PROFILE_ALLOC_BYTES, PROFILE_INUSE_OBJECTS, PROFILE_INUSE_BYTES, PROFILE_N_VALUES };
enum { PROFILE_OPENS, PROFILE_WALL, PROFILE_BUSY, PROFILE_CPU };

/* Field numbers. */
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STR = 2, LABEL_NUM = 3 };
enum { LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1 };
enum { FUNCTION_NAME = 2, FUNCTION_FILE = 4, FUNCTION_START_LINE = 5 };

struct profile_part {
    uint64_t id;
    uint32_t at, bytes; /* in the data */
};

struct profile_parts {
    struct profile_part *items;
    uint32_t n, capacity;
    bool is_sorted; /* by id */
};

struct profile {
    const uint8_t *data; /* the caller's */
    struct profile_parts types, samples, mappings, locations, functions, strings;
    int64_t time_ns, duration_ns;
    enum profile_kind kind;
    int columns[PROFILE_N_VALUES]; /* which of a sample's values it is; -1 = none of them */
};

/* Reads `data`, which must stay as it is until profile_free(). Returns NULL, or in words why it is no profile of these
 * kinds. */
const char *profile_parse(struct profile *profile, const uint8_t *data, size_t bytes);
void profile_free(struct profile *profile);

/* An entry of the string table. */
struct wire profile_string(const struct profile *profile, uint64_t index);
struct wire profile_location(const struct profile *profile, uint64_t id);
struct wire profile_function(const struct profile *profile, uint64_t id);
struct wire profile_sample(const struct profile *profile, uint32_t i);

/* The file of the main program. */
struct wire profile_program(const struct profile *profile);

/* Values that the sample does not have are 0. */
void profile_values(const struct profile *profile, uint32_t sample, int64_t values[PROFILE_N_VALUES]);

/* The first number with this field number in a message, or 0. */
uint64_t profile_number(struct wire message, uint32_t number);

#endif
