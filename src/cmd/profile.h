/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a pprof profile of the heap or of times, gzipped or plain. Any file may be given: this code never crashes on one,
 * and a reference that leads nowhere is an empty text or NULL. Decoding is protobuf-c's (docs/decisions/019). */
#ifndef JESPAN_CMD_PROFILE_H
#define JESPAN_CMD_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "profile.pb-c.h"
#include "src/cmd/profile_parts.pb-c.h"

enum profile_kind { PROFILE_HEAP, PROFILE_TIME, PROFILE_N_KINDS };

/* The values of a sample, in this order whatever the order in the file. */
enum { PROFILE_ALLOC_OBJECTS, PROFILE_ALLOC_BYTES, PROFILE_INUSE_OBJECTS, PROFILE_INUSE_BYTES, PROFILE_N_VALUES };
enum { PROFILE_OPENS, PROFILE_WALL, PROFILE_BUSY, PROFILE_CPU };

struct profile {
    JespanParts__Profile *parts; /* locations and functions are sorted by id */
    enum profile_kind kind;
    int columns[PROFILE_N_VALUES]; /* the place of each value in a sample; -1 = the profile does not have it */
    ProtobufCAllocator allocator;
    size_t used_bytes; /* allocated now */
    struct profile_frames *frames; /* profile_frames.h; NULL: samples are as in the file */
    int error;         /* why an allocation failed: -ENOMEM, or -E2BIG for the bound on used_bytes */
};

/* Reads a file, or a descriptor from where it is. Returns NULL, or the reason in words. `profile` must stay where it is, and is freed in
 * either case. */
const char *profile_read(struct profile *profile, const char *path);
const char *profile_read_descriptor(struct profile *profile, int fd);
void profile_free(struct profile *profile);

/* Decodes one sample, which the caller frees. Returns 0, -ENOMEM, or -EBADMSG if its bytes are no sample or do not
 * have a value of each type. */
int profile_sample(struct profile *profile, size_t i, JespanPprof__Sample **sample);
void profile_sample_free(struct profile *profile, JespanPprof__Sample *sample);

/* The values of a sample. Missing values are 0. */
void profile_values(const struct profile *profile, const JespanPprof__Sample *sample, int64_t values[PROFILE_N_VALUES]);

ProtobufCBinaryData profile_string(const struct profile *profile, int64_t index);
/* The place of a location in parts->location; their number if there is none. */
size_t profile_location_index(const struct profile *profile, uint64_t id);
const JespanPprof__Location *profile_location(const struct profile *profile, uint64_t id);
const JespanPprof__Function *profile_function(const struct profile *profile, uint64_t id);

/* The file of the main program. */
ProtobufCBinaryData profile_program(const struct profile *profile);

#endif
