/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an HTTP request of the profiles of a period. */
#include "pyroscope_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "pprof.h"
#include "push.pb-c.h"
#include "pyroscope_queue.h"
#include "random.h"

#define GZIP_WINDOW_BITS (15 + 16)
#define GZIP_LEVEL 4 /* see pprof_out.c */
#define OWN_LABELS 4 /* __name__, __session_id__, __delta__, pyroscope_spy */

/* ---- A profile in memory ---- */

struct buffer {
    struct exporter_sink sink; /* first */
    unsigned char *data;
    size_t bytes, capacity;
};

static int append(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct buffer *b = (struct buffer *)sink;
    if (array_reserve(&b->data, &b->capacity, b->bytes + bytes, 1))
        return -ENOMEM;
    if (bytes > 0)
        memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return 0;
}

static int encode(struct buffer *to, struct digest *digest, const struct pprof_kind *kind)
{
    const struct snapshot *view = digest_view(digest);
    to->sink.write = append;
    to->bytes = 0;
    return view ? pprof_encode(view, kind, PPROF_PLAIN, &to->sink) : -ENOMEM;
}

/* The values of the profile for this period. */
static const struct pprof_kind *kind_of(const struct waiting *period, int profile)
{
    return period->inuse ? pyroscope_profiles[profile].kind : pyroscope_profiles[profile].flows;
}

static size_t count_samples(struct digest *digest, const struct pprof_kind *kind)
{
    const struct snapshot *view = digest_view(digest);
    size_t n = 0;
    for (uint32_t i = 0; view && i < view->n_rows; i++) {
        int64_t values[PPROF_MAX_VALUES] = {0}, any = 0;
        kind->read(&view->rows[i].totals, values);
        for (int k = 0; k < kind->n_values; k++)
            any |= values[k];
        n += any != 0;
    }
    return view ? n : 1; /* no memory to count: assume one */
}

/* Chooses the profiles: for push.v1 all that have samples, for /ingest the first of them. */
static bool choose(struct pyroscope_request *request, const struct pyroscope_source *source, const struct waiting *period)
{
    bool any = false;
    for (int i = 0; i < PYROSCOPE_N_PROFILES && !(any && source->conf->pyroscope_api == PYROSCOPE_INGEST); i++) {
        size_t samples = period->accepted[i] || source->conf->track_time < pyroscope_profiles[i].track_time
            ? 0 : count_samples(period->digest, kind_of(period, i));
        request->profiles[i] = samples > 0;
        request->samples = samples > request->samples ? samples : request->samples;
        any |= samples > 0;
    }
    return any;
}

static int encode_all(struct buffer to[PYROSCOPE_N_PROFILES], struct pyroscope_request *request,
                      const struct waiting *period, size_t *bytes)
{
    int error = 0;
    *bytes = 0;
    for (int i = 0; i < PYROSCOPE_N_PROFILES && error == 0; i++) {
        if (!request->profiles[i])
            continue;
        error = encode(&to[i], period->digest, kind_of(period, i));
        *bytes += request->profile_bytes[i] = to[i].bytes;
    }
    return error;
}

/* Halves the number of samples by folding until the bytes fit. 16 samples are small enough. */
static int encode_within(struct buffer to[PYROSCOPE_N_PROFILES], struct pyroscope_request *request,
                         const struct waiting *period, size_t max_samples, size_t max_bytes)
{
    for (;; max_samples = max_samples / 2 > 16 ? max_samples / 2 : 16) {
        size_t bytes;
        request->folded += digest_fold(period->digest, (uint32_t)max_samples);
        request->samples = max_samples < request->samples ? max_samples : request->samples;
        int error = encode_all(to, request, period, &bytes);
        if (error != 0 || bytes <= max_bytes || max_samples <= 16)
            return error;
    }
}

/* ---- push.v1 ---- */

static char *make_text(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

void pyroscope_request_id(char text[37], const struct waiting *period, int profile)
{
    const unsigned char *id = period->id;
    snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2], id[3],
             id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15] ^ (unsigned)profile);
}

static int gzip(unsigned char **to, size_t *to_bytes, const unsigned char *from, size_t bytes)
{
    z_stream z = {0};
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t bound = deflateBound(&z, bytes);
    *to = malloc(bound);
    z.next_in = (Bytef *)from;
    z.avail_in = (uInt)bytes;
    z.next_out = *to;
    z.avail_out = (uInt)bound;
    int result = *to ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    *to_bytes = z.total_out;
    deflateEnd(&z);
    return result == Z_STREAM_END ? 0 : -ENOMEM;
}

static int pack(struct pyroscope_request *request, const Jespan__Push__PushRequest *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(&message->base);
    unsigned char *packed = bytes <= UINT32_MAX ? malloc(bytes) : NULL;
    if (!packed)
        return -ENOMEM;
    protobuf_c_message_pack(&message->base, packed);
    int error = gzip(&request->body, &request->bytes, packed, bytes);
    free(packed);
    return error;
}

/* Each series has one sample and its own labels. */
struct series {
    Jespan__Push__LabelPair pairs[PYROSCOPE_MAX_LABELS + OWN_LABELS], *labels[PYROSCOPE_MAX_LABELS + OWN_LABELS];
    Jespan__Push__RawSample sample, *samples;
    Jespan__Push__RawProfileSeries series;
    char id[37];
};

static void fill_series(struct series *s, const struct pyroscope_source *source, const struct waiting *period, int profile,
                        const struct buffer *encoded)
{
    const struct pyroscope_label own[OWN_LABELS] = {
        {"__delta__", "false"}, /* the alloc values are differences already */
        {"__name__", (char *)pyroscope_profiles[profile].name},
        {"__session_id__", (char *)source->session},
        {"pyroscope_spy", "jespan"}};
    size_t n = 0;
    for (; n < OWN_LABELS + source->labels.n; n++) {
        const struct pyroscope_label *from = n < OWN_LABELS ? &own[n] : &source->labels.pairs[n - OWN_LABELS];
        jespan__push__label_pair__init(&s->pairs[n]);
        s->pairs[n].name = from->name;
        s->pairs[n].value = from->value;
        s->labels[n] = &s->pairs[n];
    }
    jespan__push__raw_sample__init(&s->sample);
    pyroscope_request_id(s->id, period, profile);
    s->sample.raw_profile = (ProtobufCBinaryData){encoded->bytes, encoded->data};
    s->sample.id = s->id;
    s->samples = &s->sample;
    jespan__push__raw_profile_series__init(&s->series);
    s->series.n_labels = n;
    s->series.labels = s->labels;
    s->series.n_samples = 1;
    s->series.samples = &s->samples;
}

/* One request has all profiles: servers take about half a second for any request. */
static int make_push(struct pyroscope_request *request, const struct pyroscope_source *source, struct waiting *period,
                     const struct buffer encoded[PYROSCOPE_N_PROFILES])
{
    struct series *all = calloc(PYROSCOPE_N_PROFILES, sizeof *all);
    Jespan__Push__RawProfileSeries *series[PYROSCOPE_N_PROFILES];
    Jespan__Push__PushRequest message = JESPAN__PUSH__PUSH_REQUEST__INIT;
    if (!all)
        return -ENOMEM;
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++) {
        if (!request->profiles[i])
            continue;
        fill_series(&all[i], source, period, i, &encoded[i]);
        series[message.n_series++] = &all[i].series;
    }
    message.series = series;
    request->path = strdup("/push.v1.PusherService/Push");
    request->content_type = strdup("application/proto");
    request->content_encoding = "gzip";
    int error = pack(request, &message);
    free(all);
    return error;
}

/* ---- /ingest ---- */

/* Writes a part of the application's name with its labels, app{name=value,…}, for a query string. In the braces,
 * characters that would end a value become underscores. */
static void write_escaped(FILE *to, const char *text, bool in_braces)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (in_braces && strchr("{},=", c))
            c = '_';
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("-_.~", c))
            fputc(c, to);
        else
            fprintf(to, "%%%02X", c);
    }
}

static void write_name(FILE *to, const struct pyroscope_source *source)
{
    write_escaped(to, pyroscope_labels_get(&source->labels, "service_name"), true);
    write_escaped(to, "{__session_id__=", false);
    write_escaped(to, source->session, true);
    for (size_t i = 0; i < source->labels.n; i++) {
        const struct pyroscope_label *label = &source->labels.pairs[i];
        write_escaped(to, ",", false);
        write_escaped(to, label->name, true);
        write_escaped(to, "=", false);
        write_escaped(to, label->value, true);
    }
    write_escaped(to, "}", false);
}

/* Both times are the end of the period. Servers of this API distribute the values of a longer period over their steps
 * of 10 s, also memory in use, and cut off fractions. */
static char *make_ingest_path(const struct pyroscope_source *source, const struct snapshot *view)
{
    char *path = NULL;
    size_t bytes;
    FILE *to = open_memstream(&path, &bytes);
    if (!to)
        return NULL;
    fputs("/ingest?name=", to);
    write_name(to, source);
    fprintf(to, "&from=%" PRIu64 "&until=%" PRIu64 "&spyName=jespan", view->time_unix_ns,
            view->time_unix_ns);
    if (fclose(to) == 0)
        return path;
    free(path);
    return NULL;
}

static int append_text(struct buffer *to, const char *text)
{
    return append(&to->sink, text, strlen(text));
}

#define PART(name, file) "Content-Disposition: form-data; name=\"" name "\"; filename=\"" file "\"\r\n\r\n"

/* Makes multipart/form-data (RFC 7578). The boundary is random, so that no profile contains it. */
static int make_ingest(struct pyroscope_request *request, const struct pyroscope_source *source, struct waiting *period,
                       const struct buffer all[PYROSCOPE_N_PROFILES])
{
    int profile = 0;
    while (!request->profiles[profile])
        profile++;
    const struct buffer *encoded = &all[profile];
    const struct snapshot *view = digest_view(period->digest);
    struct buffer body = {.sink = {append}};
    char boundary[37 + 16];
    unsigned char *compressed = NULL;
    size_t bytes;
    pyroscope_request_id(boundary + 2, period, profile);
    memcpy(boundary, "--", 2);
    int error = gzip(&compressed, &bytes, encoded->data, encoded->bytes);
    if (error == 0 && view
        && (append_text(&body, boundary) != 0 || append_text(&body, "\r\n" PART("profile", "profile.pprof")) != 0
            || append(&body.sink, compressed, bytes) != 0 || append_text(&body, "\r\n") != 0
            || append_text(&body, boundary) != 0
            || append_text(&body, "\r\n" PART("sample_type_config", "sample_type_config.json")) != 0
            || append_text(&body, pyroscope_profiles[profile].ingest_types) != 0 || append_text(&body, "\r\n") != 0
            || append_text(&body, boundary) != 0 || append_text(&body, "--\r\n") != 0))
        error = -ENOMEM;
    free(compressed);
    request->path = view ? make_ingest_path(source, view) : NULL;
    request->content_type = make_text("multipart/form-data; boundary=%s", boundary + 2);
    request->body = body.data;
    request->bytes = body.bytes;
    return error;
}

/* ---- Both ---- */

int pyroscope_request_make(struct pyroscope_request *request, const struct pyroscope_source *source,
                           struct waiting *period, size_t max_samples)
{
    struct buffer encoded[PYROSCOPE_N_PROFILES] = {{{0}}};
    *request = (struct pyroscope_request){0};
    if (!choose(request, source, period))
        return 0;
    int error = encode_within(encoded, request, period, max_samples, source->conf->pyroscope_max_bytes);
    if (error == 0)
        error = (source->conf->pyroscope_api == PYROSCOPE_PUSH ? make_push : make_ingest)(request, source, period, encoded);
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++)
        free(encoded[i].data);
    if (error == 0 && (!request->path || !request->content_type))
        error = -ENOMEM;
    if (error != 0)
        pyroscope_request_free(request);
    return error != 0 ? error : 1;
}

void pyroscope_request_free(struct pyroscope_request *request)
{
    free(request->path);
    free(request->content_type);
    free(request->body);
    *request = (struct pyroscope_request){0};
}

void pyroscope_source_make(struct pyroscope_source *source, const struct service_host *host)
{
    uint64_t random_bits;
    random_fill(&random_bits, sizeof random_bits);
    source->conf = host->conf;
    pyroscope_labels_make(&source->labels, host);
    snprintf(source->session, sizeof source->session, "%016" PRIx64, random_bits);
}

void pyroscope_source_free(struct pyroscope_source *source)
{
    pyroscope_labels_free(&source->labels);
}
