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

#include "pprof.h"
#include "pyroscope.pb-c.h"
#include "push_queue.h"
#include "random.h"

#define OWN_LABELS 4 /* __name__, __session_id__, __delta__, pyroscope_spy */

/* ---- Profiles ---- */

static int encode(struct push_buffer *to, struct digest *digest, const struct pprof_kind *kind)
{
    const struct snapshot *view = digest_view(digest);
    to->sink.write = push_buffer_append;
    to->bytes = 0;
    return view ? pprof_encode(view, kind, PPROF_PLAIN, &to->sink) : -ENOMEM;
}

static int encode_all(void *buffers, struct push_request *request, const struct waiting *period, size_t *bytes)
{
    struct push_buffer *to = buffers;
    int error = 0;
    *bytes = 0;
    for (int i = 0; i < PUSH_N_PROFILES && error == 0; i++) {
        if (!request->profiles[i])
            continue;
        error = encode(&to[i], period->digest, push_request_kind(period, i));
        *bytes += request->profile_bytes[i] = to[i].bytes;
    }
    return error;
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

/* Each series has one sample and its own labels. */
struct series {
    Jespan__Push__LabelPair pairs[PYROSCOPE_MAX_LABELS + OWN_LABELS], *labels[PYROSCOPE_MAX_LABELS + OWN_LABELS];
    Jespan__Push__RawSample sample, *samples;
    Jespan__Push__RawProfileSeries series;
    char id[37];
};

static void fill_series(struct series *s, const struct pyroscope_source *source, const struct waiting *period, int profile,
                        const struct push_buffer *encoded)
{
    const struct pyroscope_label own[OWN_LABELS] = {
        {"__delta__", "false"}, /* the alloc values are differences already */
        {"__name__", (char *)push_profiles[profile].name},
        {"__session_id__", (char *)source->session},
        {"pyroscope_spy", "jespan"}}; /* the last one: Pyroscope refuses two labels of one name, and a program may have it */
    size_t n_own = pyroscope_labels_get(&source->labels, "pyroscope_spy")[0] ? OWN_LABELS - 1 : OWN_LABELS, n = 0;
    for (; n < n_own + source->labels.n; n++) {
        const struct pyroscope_label *from = n < n_own ? &own[n] : &source->labels.pairs[n - n_own];
        jespan__push__label_pair__init(&s->pairs[n]);
        s->pairs[n].name = from->name;
        s->pairs[n].value = from->value;
        s->labels[n] = &s->pairs[n];
    }
    jespan__push__raw_sample__init(&s->sample);
    push_request_id(s->id, period, profile);
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
static int make_push(struct push_request *request, const struct pyroscope_source *source, struct waiting *period,
                     const struct push_buffer encoded[PUSH_N_PROFILES])
{
    struct series *all = calloc(PUSH_N_PROFILES, sizeof *all);
    Jespan__Push__RawProfileSeries *series[PUSH_N_PROFILES];
    Jespan__Push__PushRequest message = JESPAN__PUSH__PUSH_REQUEST__INIT;
    if (!all)
        return -ENOMEM;
    for (int i = 0; i < PUSH_N_PROFILES; i++) {
        if (!request->profiles[i])
            continue;
        fill_series(&all[i], source, period, i, &encoded[i]);
        series[message.n_series++] = &all[i].series;
    }
    message.series = series;
    request->path = strdup("/push.v1.PusherService/Push");
    request->content_type = strdup("application/proto");
    request->content_encoding = "gzip";
    int error = push_request_pack(request, &message.base);
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

static int append_text(struct push_buffer *to, const char *text)
{
    return push_buffer_append(&to->sink, text, strlen(text));
}

/* /ingest sums values unless it is told to average them, and takes them for totals unless it is told that they are
 * differences. Its only unit of nanoseconds is named after locks. */
#define SUM(name, units)                                                                                               \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"sum\",\"display-name\":\"" name "\","                     \
    "\"sampled\":false,\"cumulative\":false}"
#define AVERAGE(name, units)                                                                                           \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"average\",\"display-name\":\"" name "\","                 \
    "\"sampled\":false,\"cumulative\":false}"

/* By profile, its sample types in JSON. */
static const char *const ingest_types[PUSH_N_PROFILES] = {
    "{" SUM("alloc_objects", "objects") "," SUM("alloc_space", "bytes") "," AVERAGE("inuse_objects", "objects") ","
    AVERAGE("inuse_space", "bytes") "}",
    "{" SUM("cpu", "lock_nanoseconds") "}",
    "{" SUM("wall", "lock_nanoseconds") "}",
};

#define PART(name, file) "Content-Disposition: form-data; name=\"" name "\"; filename=\"" file "\"\r\n\r\n"

/* Makes multipart/form-data (RFC 7578). The boundary is random, so that no profile contains it. */
static int make_ingest(struct push_request *request, const struct pyroscope_source *source, struct waiting *period,
                       const struct push_buffer all[PUSH_N_PROFILES])
{
    int profile = 0;
    while (!request->profiles[profile])
        profile++;
    const struct push_buffer *encoded = &all[profile];
    const struct snapshot *view = digest_view(period->digest);
    struct push_buffer body = {.sink = {push_buffer_append}};
    char boundary[37 + 16];
    unsigned char *compressed = NULL;
    size_t bytes;
    push_request_id(boundary + 2, period, profile);
    memcpy(boundary, "--", 2);
    int error = push_gzip(&compressed, &bytes, encoded->data, encoded->bytes);
    if (error == 0 && view
        && (append_text(&body, boundary) != 0 || append_text(&body, "\r\n" PART("profile", "profile.pprof")) != 0
            || push_buffer_append(&body.sink, compressed, bytes) != 0 || append_text(&body, "\r\n") != 0
            || append_text(&body, boundary) != 0
            || append_text(&body, "\r\n" PART("sample_type_config", "sample_type_config.json")) != 0
            || append_text(&body, ingest_types[profile]) != 0 || append_text(&body, "\r\n") != 0
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

int pyroscope_request_make(struct push_request *request, const struct pyroscope_source *source,
                           struct waiting *period, size_t max_samples)
{
    struct push_buffer encoded[PUSH_N_PROFILES] = {{{0}}};
    *request = (struct push_request){0};
    if (!push_request_choose(request, period, source->conf->track_time, source->conf->pyroscope_api == PYROSCOPE_INGEST))
        return 0;
    int error = push_request_encode_within(request, period, max_samples, source->conf->pyroscope_max_bytes, encode_all, encoded);
    if (error == 0)
        error = (source->conf->pyroscope_api == PYROSCOPE_PUSH ? make_push : make_ingest)(request, source, period, encoded);
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        free(encoded[i].data);
    if (error == 0 && (!request->path || !request->content_type))
        error = -ENOMEM;
    if (error != 0)
        push_request_free(request);
    return error != 0 ? error : 1;
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
