/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a pprof profile of the heap or of times, gzipped or plain. Any file may be given: this code never crashes on one,
 * and a reference that leads nowhere is an empty text or NULL. Decoding is protobuf-c's (docs/decisions/019). */
#ifndef JESPAN_PROFILE_PROFILE_H
#define JESPAN_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "profile.pb-c.h"
#include "profile_fields.h"
#include "src/profile/profile_parts.pb-c.h"

#define PROFILE_MAX_USED_BYTES ((size_t)3 << 30) /* decoded */

enum profile_kind { PROFILE_HEAP, PROFILE_TIME, PROFILE_N_KINDS };

/* The values of a sample, in this order whatever the order in the file. */
enum {
    PROFILE_ALLOC_OBJECTS, PROFILE_ALLOC_BYTES, PROFILE_INUSE_OBJECTS, PROFILE_INUSE_BYTES, PROFILE_TEMPORARY,
    PROFILE_LIFETIMES, /* in µs */
    PROFILE_N_VALUES
};
enum { PROFILE_OPENS, PROFILE_WALL, PROFILE_BUSY, PROFILE_CPU };
/* The peaks of a context, in bytes: alone, with all below it, and what it had when the process had most, which adds up.
 * Differences have none of these. */
enum { PROFILE_PEAK_OWN, PROFILE_PEAK_TOTAL, PROFILE_AT_PEAK, PROFILE_N_PEAKS };

struct profile {
    JespanParts__Profile *parts; /* locations and functions are sorted by id */
    enum profile_kind kind;
    int columns[PROFILE_N_VALUES]; /* the place of each value in a sample; -1 = the profile does not have it */
    int peak_columns[PROFILE_N_PEAKS];
    struct profile_fields fields;  /* the bytes of samples; parts->sample points there if all are kept */
    ProtobufCAllocator allocator;
    struct profile_decoded *free_samples; /* memory for samples to be decoded; profile_sample.c */
    size_t used_bytes; /* allocated now */
    struct profile_frames *frames; /* profile_frames.c; NULL: samples are as in the file */
    int error;         /* why an allocation failed: -ENOMEM, or -E2BIG for the bound on used_bytes */
};

/* Reads a file, or a descriptor from where it is; samples of more than `most_sample_bytes` are left in the file, if they can
 * be read again from there. Returns NULL, or the reason in words. `profile` must stay where it is, and is freed in either case. */
const char *profile_read(struct profile *profile, const char *path);
const char *profile_read_descriptor(struct profile *profile, int fd, size_t most_sample_bytes);
void profile_free(struct profile *profile);

/* ---- profile_sample.c ---- */

/* Decodes one sample, which the caller frees. Returns 0, -ENOMEM, or -EBADMSG if its bytes are no sample or do not
 * have a value of each type. */
int profile_sample(struct profile *profile, size_t i, JespanPprof__Sample **sample);
void profile_sample_free(struct profile *profile, JespanPprof__Sample *sample);

/* For profile.c and profile_frames.c. The latter sets the locations of a decoded sample. Returns 0 or -ENOMEM. */
void profile_samples_free(struct profile *profile);
int profile_sample_set_locations(struct profile *profile, JespanPprof__Sample *sample, const uint64_t *ids, size_t n);

/* ---- profile.c ---- */

/* The values of a sample. Missing values are 0. */
void profile_values(const struct profile *profile, const JespanPprof__Sample *sample, int64_t values[PROFILE_N_VALUES]);

void profile_peaks(const struct profile *profile, const JespanPprof__Sample *sample, int64_t peaks[PROFILE_N_PEAKS]);

/* Whether the sample is of a context that never allocated: it has the peaks of contexts below it. */
bool profile_has_peaks_only(const int64_t values[PROFILE_N_VALUES], const int64_t peaks[PROFILE_N_PEAKS]);

ProtobufCBinaryData profile_string(const struct profile *profile, int64_t index);
/* The place of a location in parts->location; their number if there is none. */
size_t profile_location_index(const struct profile *profile, uint64_t id);
const JespanPprof__Location *profile_location(const struct profile *profile, uint64_t id);
const JespanPprof__Function *profile_function(const struct profile *profile, uint64_t id);

/* The file of the main program. */
ProtobufCBinaryData profile_program(const struct profile *profile);

/* ---- profile_edit.c ---- */

/* Adds functions and lines to a profile that was read, and writes it. All else in it stays as it was, also what this code does
 * not know. */

struct profile_edit {
    struct profile *profile;
    size_t string_room, function_room;
    struct hash_table strings, functions; /* that were added, by their contents */
    uint64_t next_function;
};

struct profile_line {
    uint64_t function;
    int64_t line;
};

/* The edit is freed by the caller; the profile keeps what was added. */
void profile_edit_begin(struct profile_edit *edit, struct profile *profile);
void profile_edit_end(struct profile_edit *edit);

/* Sets *id to a function with these texts. Returns 0 or -ENOMEM. */
int profile_edit_function(struct profile_edit *edit, const char *name, const char *system, const char *file, int64_t start_line,
                          uint64_t *id);

/* Gives a location its lines, the innermost function first. Returns 0 or -ENOMEM. */
int profile_edit_lines(struct profile_edit *edit, JespanPprof__Location *location, const struct profile_line *lines, size_t n);

/* Writes the profile, gzipped. Returns 0 or a negative errno. */
int profile_write(const struct profile *profile, int fd);

/* ---- profile_frames.c ---- */

/* Which frames the samples of a profile have when they are read: all as in the file, those of spans, or those of spans and
 * calls as people read them. */

enum profile_frames_kind {
    PROFILE_SPANS, /* without the calls below the spans; a profile that is not jespan's keeps all */
    PROFILE_CALLS, /* inlined functions are locations of their own; the allocator and libc's start are left out */
    PROFILE_ALL_CALLS, /* the same, and nothing is left out */
};

/* From now on profile_sample() returns such samples. Where calls are read, the profile should have names. Returns 0 or -ENOMEM. */
int profile_frames_set(struct profile *profile, enum profile_frames_kind kind);

/* Whether any location is a call. Only after profile_frames_set(). */
bool profile_frames_has_calls(const struct profile *profile);

/* Whether a location is a call, and not a span. */
bool profile_frames_is_call(const struct profile *profile, uint64_t location);

/* For profile.c. */
int profile_frames_apply(struct profile *profile, JespanPprof__Sample *sample);
void profile_frames_free(struct profile *profile);

#endif
