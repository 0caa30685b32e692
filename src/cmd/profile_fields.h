/* SPDX-License-Identifier: BSD-2-Clause */
/* The fields of a pprof file: samples, and all others. */
#ifndef JESPAN_CMD_PROFILE_FIELDS_H
#define JESPAN_CMD_PROFILE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define PROFILE_FIELD_SAMPLE 2 /* its number in profile.proto */
#define PROFILE_MAX_SAMPLES ((size_t)1 << 24)

struct profile_bytes {
    uint8_t *at;
    size_t n, capacity;
};

struct profile_fields {
    struct profile_bytes others; /* fields, as in the file */
    struct profile_bytes of_samples; /* their bytes, one after the other */
    ProtobufCBinaryData *samples;
    size_t n_samples, samples_capacity;
};

/* Reads all of a descriptor, gzipped or plain. Returns NULL, or the reason in words. `f` is overwritten, and freed by the caller in either
 * case. */
const char *profile_fields_read(struct profile_fields *f, int fd);
void profile_fields_free(struct profile_fields *f);

#endif
