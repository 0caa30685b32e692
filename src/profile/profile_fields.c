/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a pprof file with zlib, a field at a time.
 *
 * A large file is samples nearly alone. Their bytes go into one piece of memory, and all other fields into another, which
 * protobuf-c decodes. Samples that are too many for memory are left in the file, and read again from there: one after the
 * other, or some that are kept. A hostile file may be any size once it is unpacked: MAX_FILE_BYTES.
 */
#include "profile_fields.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "wire.h"

#define WINDOW_BYTES ((size_t)256 << 10)
#define MAX_FILE_BYTES WIRE_MAX_BYTES

static const char malformed[] = "not a pprof profile", no_memory[] = "out of memory";

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
static const char *explain(struct profile_stream *s)
{
    for (size_t all = 0; all <= MAX_FILE_BYTES;) {
        int n = gzread(s->file, s->window.at, (unsigned)WINDOW_BYTES);
        const char *damage = n <= 0 ? describe_end(s->file) : NULL;
        if (n <= 0)
            return damage ? damage : malformed;
        all += (size_t)n;
    }
    return malformed;
}

/* Reads on, so that the window has at least `wanted` bytes of the next field, if the file has more. */
static const char *fill(struct profile_stream *s, size_t wanted)
{
    struct profile_bytes *window = &s->window;
    size_t most = INT_MAX;
    if (array_reserve(&window->at, &window->capacity, wanted, 1))
        return no_memory;
    memmove(window->at, window->at + s->at, window->n - s->at);
    window->n -= s->at;
    s->at = 0;
    size_t free_bytes = window->capacity - window->n;
    int n = gzread(s->file, window->at + window->n, (unsigned)(free_bytes < most ? free_bytes : most));
    s->is_ended = n <= 0;
    if (s->is_ended) {
        const char *error = describe_end(s->file);
        return error ? error : s->all == 0 ? "the file is empty" : window->n > 0 ? malformed : NULL;
    }
    window->n += (size_t)n;
    s->all += (size_t)n;
    return s->all > MAX_FILE_BYTES ? "more than 1 GiB unpacked" : NULL;
}

/* Sets *at to the next field, or to NULL at the end. The field is there until the next call. */
static const char *next_field(struct profile_stream *s, struct wire_field *field, const uint8_t **at)
{
    *at = NULL;
    for (;;) {
        size_t n = s->window.n - s->at, wanted = wire_field(s->window.at + s->at, n, field);
        if (wanted == SIZE_MAX)
            return explain(s);
        if (wanted <= n) {
            *at = s->window.at + s->at;
            s->at += wanted;
            return NULL;
        }
        const char *error = fill(s, wanted);
        if (error || s->is_ended)
            return error;
    }
}

/* zlib closes its descriptor, and passes files that are not gzipped through. */
static const char *open_stream(struct profile_stream *s, int given)
{
    struct stat status;
    int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return strerror(errno);
    s->file = gzdopen(fd, "r");
    if (!s->file) {
        close(fd);
        return no_memory;
    }
    gzbuffer(s->file, WINDOW_BYTES);
    s->can_rewind = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    return array_reserve(&s->window.at, &s->window.capacity, WINDOW_BYTES, 1) ? no_memory : NULL;
}

static void close_stream(struct profile_stream *s)
{
    if (s->file)
        gzclose_r(s->file);
    free(s->window.at);
    *s = (struct profile_stream){0};
}

static void rewind_stream(struct profile_stream *s)
{
    gzrewind(s->file);
    s->window.n = s->at = s->all = s->next = 0;
}

/* --- Samples that are kept in memory -------------------------------------------------------------------------------- */

static const char *append(struct profile_bytes *to, const uint8_t *from, size_t n)
{
    if (array_reserve(&to->at, &to->capacity, to->n + n, 1))
        return no_memory;
    if (n > 0)
        memcpy(to->at + to->n, from, n);
    to->n += n;
    return NULL;
}

static const char *keep(struct profile_fields *f, const uint8_t *content, size_t bytes)
{
    if (array_reserve(&f->samples, &f->samples_capacity, f->n_kept + 1, sizeof *f->samples))
        return no_memory;
    f->samples[f->n_kept++] = (ProtobufCBinaryData){.len = bytes};
    return append(&f->of_samples, content, bytes);
}

/* The bytes moved while they grew. */
static void point_at_kept(struct profile_fields *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_kept && f->of_samples.at; n += f->samples[i++].len)
        f->samples[i].data = f->of_samples.at + n;
}

static void keep_none(struct profile_fields *f)
{
    free(f->samples);
    free(f->of_samples.at);
    free(f->numbers);
    f->samples = NULL;
    f->numbers = NULL;
    f->of_samples = (struct profile_bytes){NULL, 0, 0};
    f->n_kept = f->samples_capacity = 0;
}

/* --- Reading -------------------------------------------------------------------------------------------------------- */

static const char *add_sample(struct profile_fields *f, const uint8_t *content, size_t bytes, size_t most)
{
    if (f->n_samples == PROFILE_MAX_SAMPLES)
        return "too many samples, functions or strings";
    const char *error = profile_fields_has_all(f) ? keep(f, content, bytes) : NULL;
    f->stream.next = ++f->n_samples;
    if (f->of_samples.n + f->n_kept * sizeof *f->samples > most && f->stream.can_rewind)
        keep_none(f);
    return error;
}

const char *profile_fields_read(struct profile_fields *f, int fd, size_t most)
{
    memset(f, 0, sizeof *f);
    const uint8_t *at = NULL;
    const char *error = open_stream(&f->stream, fd);
    do {
        struct wire_field field;
        error = error ? error : next_field(&f->stream, &field, &at);
        if (!error && at)
            error = field.number == PROFILE_FIELD_SAMPLE ? add_sample(f, at + field.content, field.bytes - field.content, most)
                                                         : append(&f->others, at, field.bytes);
    } while (!error && at);
    point_at_kept(f);
    if (error || profile_fields_has_all(f))
        close_stream(&f->stream);
    return error;
}

/* Sets *sample to the next one of the stream. */
static int next_sample(struct profile_stream *s, ProtobufCBinaryData *sample)
{
    struct wire_field field;
    const uint8_t *at;
    do {
        const char *error = next_field(s, &field, &at);
        if (error || !at)
            return error == no_memory ? -ENOMEM : -EBADMSG;
    } while (field.number != PROFILE_FIELD_SAMPLE);
    *sample = (ProtobufCBinaryData){field.bytes - field.content, (uint8_t *)at + field.content};
    s->next++;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static const uint32_t *find_kept(const struct profile_fields *f, uint32_t number)
{
    return f->numbers ? bsearch(&number, f->numbers, f->n_kept, sizeof number, compare) : NULL;
}

int profile_fields_sample(struct profile_fields *f, size_t i, ProtobufCBinaryData *sample)
{
    const uint32_t *found = find_kept(f, (uint32_t)i);
    if (profile_fields_has_all(f) || found) {
        *sample = f->samples[found ? (size_t)(found - f->numbers) : i];
        return 0;
    }
    if (f->stream.next > i)
        rewind_stream(&f->stream);
    int error = 0;
    while (error == 0 && f->stream.next <= i)
        error = next_sample(&f->stream, sample);
    return error;
}

static bool has_kept(const struct profile_fields *f, const uint32_t *numbers, size_t n)
{
    bool has = profile_fields_has_all(f) || f->numbers;
    for (size_t i = 0; i < n && has; i++)
        has = profile_fields_has_all(f) || find_kept(f, numbers[i]);
    return has;
}

/* Sets *sorted to the numbers in ascending order, each once. */
static int sort(const uint32_t *numbers, size_t n, uint32_t **sorted, size_t *n_sorted)
{
    *n_sorted = 0;
    *sorted = malloc((n + 1) * sizeof **sorted);
    if (!*sorted)
        return -ENOMEM;
    if (n > 0)
        memcpy(*sorted, numbers, n * sizeof *numbers);
    qsort(*sorted, n, sizeof **sorted, compare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || (*sorted)[i] != (*sorted)[*n_sorted - 1])
            (*sorted)[(*n_sorted)++] = (*sorted)[i];
    return 0;
}

int profile_fields_keep(struct profile_fields *f, const uint32_t *numbers, size_t n)
{
    ProtobufCBinaryData sample;
    uint32_t *sorted;
    size_t n_sorted;
    if (has_kept(f, numbers, n))
        return 0;
    int error = sort(numbers, n, &sorted, &n_sorted);
    if (error != 0)
        return error;
    keep_none(f);
    for (size_t i = 0; i < n_sorted && error == 0; i++) {
        error = profile_fields_sample(f, sorted[i], &sample);
        if (error == 0 && keep(f, sample.data, sample.len))
            error = -ENOMEM;
    }
    f->numbers = sorted;
    point_at_kept(f);
    return error;
}

void profile_fields_free(struct profile_fields *f)
{
    keep_none(f);
    close_stream(&f->stream);
    free(f->others.at);
}
