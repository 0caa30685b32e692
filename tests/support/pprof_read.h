/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the pprof exporter: encodes a snapshot into memory and reads it back with protobuf-c. */
#ifndef JESPAN_TESTS_PPROF_READ_H
#define JESPAN_TESTS_PPROF_READ_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "exporters/pprof.h"
#include "exporters/profile.pb-c.h"

struct memory_sink {
    struct exporter_sink sink;
    uint8_t *data;
    size_t bytes, capacity;
    int fail_at, n_writes; /* the write that fails, from 1; 0 = none */
};

static inline int memory_write(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct memory_sink *to = (struct memory_sink *)sink;
    if (++to->n_writes == to->fail_at)
        return -ENOSPC;
    while (to->capacity - to->bytes < bytes)
        to->data = realloc(to->data, to->capacity = 2 * to->capacity + 4096);
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    return 0;
}

/* Returns the result of encode(). `to` has the bytes, which the caller frees. */
static inline int encode_to_memory(const struct snapshot *s, enum exporter_profile profile, struct memory_sink *to)
{
    to->sink.write = memory_write;
    return jespan_exporter_pprof.encode(s, profile, &to->sink);
}

/* NULL if the bytes are not one whole gzip stream with a profile. */
static inline JespanPprof__Profile *read_profile(const struct memory_sink *from)
{
    size_t capacity = (size_t)1 << 28;
    uint8_t *data = malloc(capacity);
    z_stream gzip = {.next_in = from->data, .avail_in = (uInt)from->bytes};
    gzip.next_out = data;
    gzip.avail_out = (uInt)capacity;
    int end = inflateInit2(&gzip, 15 + 16) == Z_OK ? inflate(&gzip, Z_FINISH) : Z_MEM_ERROR;
    JespanPprof__Profile *profile = NULL;
    if (end == Z_STREAM_END && gzip.avail_in == 0)
        profile = jespan_pprof__profile__unpack(NULL, gzip.total_out, data);
    inflateEnd(&gzip);
    free(data);
    return profile;
}

static inline const char *profile_text(const JespanPprof__Profile *p, int64_t index)
{
    return index >= 0 && (size_t)index < p->n_string_table ? p->string_table[index] : "(no such string)";
}

static inline const JespanPprof__Function *profile_function(const JespanPprof__Profile *p, uint64_t location)
{
    for (size_t i = 0; i < p->n_location; i++)
        if (p->location[i]->id == location)
            for (size_t k = 0; k < p->n_function; k++)
                if (p->function[k]->id == p->location[i]->line[0]->function_id)
                    return p->function[k];
    return NULL;
}

#endif
