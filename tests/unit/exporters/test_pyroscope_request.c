/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to a Pyroscope server. zlib and protobuf-c read them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "../../support/made_snapshot.h"
#include "exporters/period.h"
#include "exporters/profile.pb-c.h"
#include "exporters/pyroscope.pb-c.h"
#include "exporters/push_queue.h"
#include "exporters/pyroscope_request.h"

static struct conf configured;
static struct pyroscope_source source;
static struct digest_shape shape;
static struct waiting waiting;

static int set_up(void **state)
{
    (void)state;
    configured = (struct conf){.pyroscope_max_bytes = 1 << 22, .track_time = TRACK_TIME_CPU, .pyroscope_app = "shop, \"{a}\""};
    shape = (struct digest_shape){.labels = "route", .ids = true};
    pyroscope_source_make(&source, &(struct service_host){.conf = &configured, .pid = getpid(), .program = program_invocation_short_name});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyroscope_source_free(&source);
    digest_free(waiting.digest);
    waiting = (struct waiting){0};
    return 0;
}

/* Makes the first period of a made snapshot. */
static void fill(const char *kind, uint32_t n)
{
    struct snapshot *s = made_snapshot(kind, n);
    struct period *p = period_make();
    waiting.digest = digest_make(&shape);
    assert_int_equal(period_next(p, s, digest_add, waiting.digest), 0);
    waiting.inuse = true;
    digest_set_time(waiting.digest, s->start_unix_ns, s->time_unix_ns);
    period_free(p);
    made_snapshot_free(s);
}

static Jespan__Push__PushRequest *read_push(const struct push_request *request)
{
    static uint8_t plain[1 << 23];
    z_stream gzip = {.next_in = request->body, .avail_in = (uInt)request->bytes, .next_out = plain, .avail_out = sizeof plain};
    assert_int_equal(inflateInit2(&gzip, 15 + 16), Z_OK);
    assert_int_equal(inflate(&gzip, Z_FINISH), Z_STREAM_END);
    assert_int_equal(gzip.avail_in, 0);
    inflateEnd(&gzip);
    Jespan__Push__PushRequest *push = jespan__push__push_request__unpack(NULL, gzip.total_out, plain);
    assert_non_null(push);
    return push;
}

static const char *label_of(const Jespan__Push__RawProfileSeries *series, const char *name)
{
    for (size_t i = 0; i < series->n_labels; i++)
        if (strcmp(series->labels[i]->name, name) == 0)
            return series->labels[i]->value;
    return "";
}

static void check_series(const Jespan__Push__RawProfileSeries *series, int profile)
{
    char id[37];
    const struct pprof_kind *kind = push_profiles[profile].kind;
    assert_string_equal(label_of(series, "__name__"), push_profiles[profile].name);
    assert_string_equal(label_of(series, "service_name"), "shop, \"{a}\"");
    assert_string_equal(label_of(series, "__delta__"), "false");
    assert_string_equal(label_of(series, "pyroscope_spy"), "jespan");
    assert_int_equal(strlen(label_of(series, "__session_id__")), 16);
    assert_int_equal(series->n_samples, 1);
    push_request_id(id, &waiting, profile);
    assert_string_equal(series->samples[0]->id, id);
    ProtobufCBinaryData raw = series->samples[0]->raw_profile;
    JespanPprof__Profile *p = jespan_pprof__profile__unpack(NULL, raw.len, raw.data);
    assert_non_null(p);
    assert_int_equal((int)p->n_sample_type, kind->n_values);
    assert_string_equal(p->string_table[p->sample_type[0]->type], kind->values[0].name);
    assert_int_equal(p->time_nanos, 1795000012345000000);
    assert_int_equal(p->duration_nanos, 12345000000);
    jespan_pprof__profile__free_unpacked(p, NULL);
}

/* All profiles of a period are in one request. */
static void test_push(void **state)
{
    (void)state;
    struct push_request request;
    fill("small", 0);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    assert_string_equal(request.path, "/push.v1.PusherService/Push");
    assert_string_equal(request.content_type, "application/proto");
    assert_string_equal(request.content_encoding, "gzip");
    assert_int_equal(request.folded, 0);
    Jespan__Push__PushRequest *push = read_push(&request);
    assert_int_equal(push->n_series, PUSH_N_PROFILES);
    for (int profile = 0; profile < PUSH_N_PROFILES; profile++) {
        assert_true(request.profiles[profile]);
        check_series(push->series[profile], profile);
        assert_int_equal(request.profile_bytes[profile], push->series[profile]->samples[0]->raw_profile.len);
    }
    jespan__push__push_request__free_unpacked(push, NULL);
    push_request_free(&request);
}

/* Pyroscope refuses a profile with two labels of one name. */
static void test_own_spy(void **state)
{
    (void)state;
    struct push_request request;
    size_t n = 0;
    pyroscope_source_free(&source);
    strcpy(configured.pyroscope_labels, "pyroscope_spy=mine");
    pyroscope_source_make(&source, &(struct service_host){.conf = &configured, .pid = getpid(), .program = program_invocation_short_name});
    fill("small", 0);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    Jespan__Push__PushRequest *push = read_push(&request);
    const Jespan__Push__RawProfileSeries *series = push->series[0];
    for (size_t i = 0; i < series->n_labels; i++)
        n += strcmp(series->labels[i]->name, "pyroscope_spy") == 0;
    assert_int_equal(n, 1);
    assert_string_equal(label_of(series, "pyroscope_spy"), "mine");
    assert_int_equal(strlen(label_of(series, "__session_id__")), 16);
    jespan__push__push_request__free_unpacked(push, NULL);
    push_request_free(&request);
}

/* Figures that the server has accepted are not in the next request. */
static void test_the_rest(void **state)
{
    (void)state;
    struct push_request request;
    fill("small", 0);
    waiting.accepted[0] = waiting.accepted[2] = true;
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    assert_true(!request.profiles[0] && request.profiles[1] && !request.profiles[2]);
    Jespan__Push__PushRequest *push = read_push(&request);
    assert_int_equal(push->n_series, 1);
    check_series(push->series[0], 1);
    jespan__push__push_request__free_unpacked(push, NULL);
    push_request_free(&request);
    waiting.accepted[1] = true;
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 0);
}

/* A period that does not tell memory in use has no values of it, and no zeros. */
static void test_without_inuse(void **state)
{
    (void)state;
    struct push_request request;
    fill("small", 0);
    waiting.inuse = false;
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    Jespan__Push__PushRequest *push = read_push(&request);
    ProtobufCBinaryData raw = push->series[0]->samples[0]->raw_profile;
    JespanPprof__Profile *p = jespan_pprof__profile__unpack(NULL, raw.len, raw.data);
    assert_int_equal((int)p->n_sample_type, 2);
    assert_string_equal(p->string_table[p->sample_type[0]->type], "alloc_objects");
    assert_string_equal(p->string_table[p->sample_type[1]->type], "alloc_space");
    jespan_pprof__profile__free_unpacked(p, NULL);
    jespan__push__push_request__free_unpacked(push, NULL);
    push_request_free(&request);
}

/* A request that is sent again is the same, so a server can recognise it. */
static void test_same_again(void **state)
{
    (void)state;
    struct push_request one, two;
    fill("small", 0);
    pyroscope_request_make(&one, &source, &waiting, 16000);
    pyroscope_request_make(&two, &source, &waiting, 16000);
    assert_int_equal(one.bytes, two.bytes);
    assert_memory_equal(one.body, two.body, one.bytes);
    push_request_free(&one);
    push_request_free(&two);
}

static void test_nothing_to_tell(void **state)
{
    (void)state;
    struct push_request request;
    fill("empty", 0);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 0);
}

static void test_times_are_off(void **state)
{
    (void)state;
    struct push_request request;
    configured.track_time = TRACK_TIME_OFF;
    fill("small", 0);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    assert_true(request.profiles[0] && !request.profiles[1] && !request.profiles[2]);
    push_request_free(&request);
}

/* Returns the sum of all alloc_space values of a request. `bytes` gets the size of all its profiles. */
static int64_t allocated_bytes(const struct push_request *request, size_t *n_samples, size_t *bytes)
{
    Jespan__Push__PushRequest *push = read_push(request);
    ProtobufCBinaryData raw = push->series[0]->samples[0]->raw_profile;
    JespanPprof__Profile *p = jespan_pprof__profile__unpack(NULL, raw.len, raw.data);
    int64_t sum = 0;
    for (size_t i = 0; i < p->n_sample; i++)
        sum += p->sample[i]->value[1];
    *n_samples = p->n_sample;
    *bytes = 0;
    for (size_t i = 0; i < push->n_series; i++)
        *bytes += push->series[i]->samples[0]->raw_profile.len;
    jespan_pprof__profile__free_unpacked(p, NULL);
    jespan__push__push_request__free_unpacked(push, NULL);
    return sum;
}

static void test_limits(void **state)
{
    (void)state;
    struct push_request request;
    size_t n, bytes;
    fill("rows", 5000);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    int64_t all = allocated_bytes(&request, &n, &bytes);
    assert_true(n > 1000 && bytes > 65536);
    push_request_free(&request);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 1000), 1);
    assert_int_equal(allocated_bytes(&request, &n, &bytes), all);
    assert_true(n <= 1000 && request.folded > 0);
    push_request_free(&request);
    configured.pyroscope_max_bytes = bytes / 3;
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 1000), 1);
    assert_int_equal(allocated_bytes(&request, &n, &bytes), all);
    assert_true(bytes <= configured.pyroscope_max_bytes);
    push_request_free(&request);
}

static void test_ingest(void **state)
{
    (void)state;
    struct push_request request;
    configured.pyroscope_api = PYROSCOPE_INGEST;
    fill("small", 0);
    assert_int_equal(pyroscope_request_make(&request, &source, &waiting, 16000), 1);
    assert_ptr_equal(strstr(request.path, "/ingest?name=shop_%20%22_a_%22%7B__session_id__%3D"), request.path);
    assert_non_null(strstr(request.path, "&from=1795000012345000000&until=1795000012345000000&"));
    assert_null(strstr(request.path, "format="));
    assert_null(request.content_encoding);
    assert_ptr_equal(strstr(request.content_type, "multipart/form-data; boundary="), request.content_type);
    const char *boundary = strchr(request.content_type, '=') + 1;
    size_t n = strlen(boundary);
    const char *end = (const char *)request.body + request.bytes;
    assert_memory_equal(request.body, "--", 2);
    assert_memory_equal(request.body + 2, boundary, n);
    assert_memory_equal(end - n - 6, "--", 2);
    assert_memory_equal(end - n - 4, boundary, n);
    assert_memory_equal(end - 4, "--\r\n", 4);
    assert_non_null(memmem(request.body, request.bytes, "name=\"profile\"", 14));
    assert_non_null(memmem(request.body, request.bytes, "name=\"sample_type_config\"", 25));
    assert_non_null(memmem(request.body, request.bytes, "\"cumulative\":false", 18));
    push_request_free(&request);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_push), TEST(test_own_spy), TEST(test_the_rest), TEST(test_without_inuse), TEST(test_same_again),
        TEST(test_nothing_to_tell), TEST(test_times_are_off), TEST(test_limits), TEST(test_ingest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
