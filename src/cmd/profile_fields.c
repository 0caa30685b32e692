/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a pprof file with zlib, a field at a time.
 *
 * A large file is samples nearly alone. Their bytes go into one piece of memory, and all other fields into another, which
 * protobuf-c decodes. So the unpacked file is never held as a whole. A hostile file may be any size once it is unpacked:
 * MAX_FILE_BYTES. This code knows where a field ends, and nothing of what is in it.
 */
#include "profile_fields.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/array.h"
#include "wire.h"

#define WINDOW_BYTES ((size_t)256 << 10)
#define MAX_FILE_BYTES WIRE_MAX_BYTES

static const char malformed[] = "not a pprof profile", no_memory[] = "out of memory";

/* --- Fields --------------------------------------------------------------------------------------------------------- */

static const char *append(struct profile_bytes *to, const uint8_t *from, size_t n)
{
    if (array_reserve(&to->at, &to->capacity, to->n + n, 1))
        return no_memory;
    if (n > 0)
        memcpy(to->at + to->n, from, n);
    to->n += n;
    return NULL;
}

static const char *add_sample(struct profile_fields *f, const uint8_t *content, size_t bytes)
{
    if (f->n_samples == PROFILE_MAX_SAMPLES)
        return "too many samples, functions or strings";
    if (array_reserve(&f->samples, &f->samples_capacity, f->n_samples + 1, sizeof *f->samples))
        return no_memory;
    f->samples[f->n_samples++] = (ProtobufCBinaryData){.len = bytes};
    return append(&f->of_samples, content, bytes);
}

/* Takes all whole fields of the window out of it. *wanted: the bytes that it must have at least to go on. */
static const char *take_fields(struct profile_fields *f, struct profile_bytes *window, size_t *wanted)
{
    const char *error = NULL;
    size_t done = 0;
    struct wire_field field = {0};
    while (!error && done < window->n) {
        const uint8_t *at = window->at + done;
        *wanted = wire_field(at, window->n - done, &field);
        if (*wanted == SIZE_MAX)
            return malformed;
        if (*wanted > window->n - done)
            break;
        error = field.number == PROFILE_FIELD_SAMPLE ? add_sample(f, at + field.content, field.bytes - field.content)
                                                     : append(&f->others, at, field.bytes);
        done += field.bytes;
    }
    memmove(window->at, window->at + done, window->n - done);
    window->n -= done;
    return error;
}

/* --- The file ------------------------------------------------------------------------------------------------------- */

/* gzread() returns 0 at the end of the file, also if the gzip stream goes on. */
static const char *describe_end(gzFile file)
{
    int code;
    gzerror(file, &code);
    switch (code) {
    case Z_OK:
    case Z_STREAM_END:
        return NULL;
    case Z_BUF_ERROR:
        return "the file is truncated";
    case Z_ERRNO:
        return strerror(errno);
    case Z_MEM_ERROR:
        return no_memory;
    default:
        return "the gzip data is damaged";
    }
}

/* Damaged gzip data may unpack to what is no profile before zlib notices. So the rest is unpacked too. */
static const char *explain(gzFile file, struct profile_bytes *window)
{
    for (size_t all = 0; all <= MAX_FILE_BYTES;) {
        int n = gzread(file, window->at, (unsigned)WINDOW_BYTES);
        const char *damage = n <= 0 ? describe_end(file) : NULL;
        if (n <= 0)
            return damage ? damage : malformed;
        all += (size_t)n;
    }
    return malformed;
}

/* zlib passes files that are not gzipped through. */
static const char *read_all(gzFile file, struct profile_fields *f, struct profile_bytes *window)
{
    size_t wanted = 0, all = 0;
    for (;;) {
        size_t room = wanted > WINDOW_BYTES ? wanted : WINDOW_BYTES;
        if (array_reserve(&window->at, &window->capacity, room, 1))
            return no_memory;
        size_t free_bytes = window->capacity - window->n, most = INT_MAX;
        int n = gzread(file, window->at + window->n, (unsigned)(free_bytes < most ? free_bytes : most));
        if (n <= 0) {
            const char *error = describe_end(file);
            return error ? error : all == 0 ? "the file is empty" : window->n > 0 ? malformed : NULL;
        }
        window->n += (size_t)n;
        all += (size_t)n;
        if (all > MAX_FILE_BYTES)
            return "more than 1 GiB unpacked";
        const char *error = take_fields(f, window, &wanted);
        if (error)
            return error == malformed ? explain(file, window) : error;
    }
}

/* zlib closes its descriptor. */
const char *profile_fields_read(struct profile_fields *f, int given)
{
    struct profile_bytes window = {NULL, 0, 0};
    memset(f, 0, sizeof *f);
    int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return strerror(errno);
    gzFile file = gzdopen(fd, "r");
    if (!file) {
        close(fd);
        return no_memory;
    }
    gzbuffer(file, WINDOW_BYTES);
    const char *error = read_all(file, f, &window);
    gzclose_r(file);
    free(window.at);
    uint8_t *at = f->of_samples.at;
    for (size_t i = 0; i < f->n_samples; at += f->samples[i++].len)
        f->samples[i].data = at;
    return error;
}

void profile_fields_free(struct profile_fields *f)
{
    free(f->samples);
    free(f->of_samples.at);
    free(f->others.at);
}
