/* SPDX-License-Identifier: BSD-2-Clause */
/* The fields of a pprof file: samples, and all others. */
#ifndef JESPAN_PROFILE_PROFILE_FIELDS_H
#define JESPAN_PROFILE_PROFILE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include <protobuf-c/protobuf-c.h>

#define PROFILE_FIELD_SAMPLE 2 /* its number in profile.proto */
#define PROFILE_MAX_SAMPLES ((size_t)1 << 24)

struct profile_bytes {
    uint8_t *at;
    size_t n, capacity;
};

/* The unpacked file, from some place on. */
struct profile_stream {
    gzFile file;
    struct profile_bytes window;
    size_t at;   /* where the next field begins in the window */
    size_t all;  /* the bytes that were read */
    size_t next; /* the number of the next sample */
    bool is_ended, can_rewind;
};

struct profile_fields {
    struct profile_bytes others; /* fields, as in the file */
    size_t n_samples;
    /* Samples that are kept: their bytes lie in `of_samples`, one after the other. */
    struct profile_bytes of_samples;
    ProtobufCBinaryData *samples;
    uint32_t *numbers; /* of each kept sample, in the order of the file; NULL: all are kept, or none */
    size_t n_kept, samples_capacity;
    struct profile_stream stream; /* open if not all are kept */
};

/* Reads all of a descriptor, gzipped or plain. Keeps the samples unless they take more than `most` bytes and the file can be
 * read again. Returns NULL, or the reason in words. `f` is overwritten, and freed by the caller in either case. */
const char *profile_fields_read(struct profile_fields *f, int fd, size_t most);
void profile_fields_free(struct profile_fields *f);

static inline bool profile_fields_has_all(const struct profile_fields *f)
{
    return f->n_kept == f->n_samples;
}

/* Sets *bytes to those of sample i, which stay until the next call. A sample that is not kept is searched from the one that
 * was asked for last; a smaller number searches from the beginning. Returns 0, -ENOMEM, or -EBADMSG: the file has changed. */
int profile_fields_sample(struct profile_fields *f, size_t i, ProtobufCBinaryData *bytes);

/* From now on keeps the samples with these numbers only. If they are kept already, nothing changes. Returns as above. */
int profile_fields_keep(struct profile_fields *f, const uint32_t *numbers, size_t n);

#endif
