/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to an OpenTelemetry collector. zlib and protobuf-c read them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "../../support/made_snapshot.h"
#include "exporters/otlp.pb-c.h"
#include "exporters/otlp_request.h"
#include "exporters/period.h"

static struct conf configured;
static struct otlp_source source;
static struct waiting waiting;
static struct push_request request;

/* What was read of the last request. */
static Jespan__Otlp__ExportProfilesServiceRequest *message;
static Jespan__Otlp__ProfilesDictionary *tables;
static Jespan__Otlp__Profile *profiles[16];
static size_t n_profiles;

static int make_source(void)
{
    return otlp_source_make(&source, &(struct service_host){.conf = &configured, .pid = 42, .program = "test"});
}

static int set_up(void **state)
{
    (void)state;
    configured = (struct conf){.otlp_max_bytes = 1 << 23, .track_time = TRACK_TIME_CPU, .otlp_url = "http://collector"};
    return make_source();
}

static void forget(void)
{
    push_request_free(&request);
    jespan__otlp__export_profiles_service_request__free_unpacked(message, NULL);
    jespan__otlp__profiles_dictionary__free_unpacked(tables, NULL);
    for (size_t i = 0; i < n_profiles; i++)
        jespan__otlp__profile__free_unpacked(profiles[i], NULL);
    message = NULL;
    tables = NULL;
    n_profiles = 0;
}

static int tear_down(void **state)
{
    (void)state;
    forget();
    otlp_source_free(&source);
    digest_free(waiting.digest);
    waiting = (struct waiting){0};
    return 0;
}

/* Makes the first period of a snapshot. */
static void fill_with(struct snapshot *s)
{
    static const struct digest_shape shape = {.labels = "", .all = true, .ids = true};
    struct period *p = period_make();
    waiting.digest = digest_make(&shape);
    assert_int_equal(period_next(p, s, digest_add, waiting.digest), 0);
    waiting.inuse = true;
    digest_set_time(waiting.digest, s->start_unix_ns, s->time_unix_ns);
    period_free(p);
    made_snapshot_free(s);
}

static void read_request(void)
{
    static uint8_t plain[1 << 23];
    z_stream gzip = {.next_in = request.body, .avail_in = (uInt)request.bytes, .next_out = plain, .avail_out = sizeof plain};
    assert_int_equal(inflateInit2(&gzip, 15 + 16), Z_OK);
    assert_int_equal(inflate(&gzip, Z_FINISH), Z_STREAM_END);
    inflateEnd(&gzip);
    message = jespan__otlp__export_profiles_service_request__unpack(NULL, gzip.total_out, plain);
    assert_non_null(message);
    tables = jespan__otlp__profiles_dictionary__unpack(NULL, message->dictionary.len, message->dictionary.data);
    assert_non_null(tables);
    const Jespan__Otlp__ScopeProfiles *scoped = message->resource_profiles[0]->scope_profiles[0];
    for (size_t i = 0; i < scoped->n_profiles; i++) {
        profiles[n_profiles] = jespan__otlp__profile__unpack(NULL, scoped->profiles[i].len, scoped->profiles[i].data);
        assert_non_null(profiles[n_profiles++]);
    }
}

static void make_and_read(size_t max_samples)
{
    forget();
    assert_int_equal(otlp_request_make(&request, &source, &waiting, max_samples), 1);
    read_request();
}

static const char *type_of(const Jespan__Otlp__Profile *p)
{
    return tables->string_table[p->sample_type->type_strindex];
}

/* ---- Rules of the protocol ---- */

static bool is_equal(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    static uint8_t x[1 << 16], y[1 << 16];
    size_t n = protobuf_c_message_get_packed_size(a);
    if (n != protobuf_c_message_get_packed_size(b) || n > sizeof x)
        return false;
    protobuf_c_message_pack(a, x);
    protobuf_c_message_pack(b, y);
    return memcmp(x, y, n) == 0;
}

/* No entry of a table occurs twice. */
#define CHECK_DISTINCT(table)                                                                                          \
    for (size_t i = 0; i < tables->n_##table; i++)                                                                     \
        for (size_t k = 0; k < i; k++)                                                                                 \
            assert_false(is_equal(&tables->table[i]->base, &tables->table[k]->base))

static void check_tables(void)
{
    CHECK_DISTINCT(mapping_table);
    CHECK_DISTINCT(location_table);
    CHECK_DISTINCT(function_table);
    CHECK_DISTINCT(attribute_table);
    CHECK_DISTINCT(stack_table);
    CHECK_DISTINCT(link_table);
    for (size_t i = 0; i < tables->n_string_table; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(tables->string_table[i], tables->string_table[k]);
    assert_string_equal(tables->string_table[0], "");
    assert_int_equal(protobuf_c_message_get_packed_size(&tables->mapping_table[0]->base), 0);
    assert_int_equal(protobuf_c_message_get_packed_size(&tables->location_table[0]->base), 0);
    assert_int_equal(protobuf_c_message_get_packed_size(&tables->function_table[0]->base), 0);
    assert_int_equal(protobuf_c_message_get_packed_size(&tables->attribute_table[0]->base), 0);
    assert_int_equal(protobuf_c_message_get_packed_size(&tables->stack_table[0]->base), 0);
    for (size_t i = 0; i < tables->n_link_table; i++) {
        assert_int_equal(tables->link_table[i]->trace_id.len, 16);
        assert_int_equal(tables->link_table[i]->span_id.len, 8);
    }
}

static void check_sample(const Jespan__Otlp__Sample *s)
{
    assert_in_range(s->stack_index, 1, tables->n_stack_table - 1);
    assert_in_range(s->link_index, 0, tables->n_link_table - 1);
    assert_int_equal(s->n_values, 1);
    const Jespan__Otlp__Stack *stack = tables->stack_table[s->stack_index];
    for (size_t i = 0; i < stack->n_location_indices; i++) {
        assert_in_range(stack->location_indices[i], 1, tables->n_location_table - 1);
        const Jespan__Otlp__Location *location = tables->location_table[stack->location_indices[i]];
        assert_in_range(location->mapping_index, 1, tables->n_mapping_table - 1);
        assert_in_range(location->lines[0]->function_index, 1, tables->n_function_table - 1);
    }
    for (size_t i = 0; i < s->n_attribute_indices; i++) {
        assert_in_range(s->attribute_indices[i], 1, tables->n_attribute_table - 1);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(tables->attribute_table[s->attribute_indices[i]]->key_strindex,
                                 tables->attribute_table[s->attribute_indices[k]]->key_strindex);
    }
}

static void check_profiles(void)
{
    for (size_t i = 0; i < n_profiles; i++) {
        assert_int_equal(profiles[i]->profile_id.len, 16);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(profiles[i]->profile_id.data, profiles[k]->profile_id.data, 16);
        for (size_t k = 0; k < profiles[i]->n_samples; k++)
            check_sample(profiles[i]->samples[k]);
    }
}

static int64_t sum_of(const char *type)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n_profiles; i++)
        for (size_t k = 0; strcmp(type_of(profiles[i]), type) == 0 && k < profiles[i]->n_samples; k++)
            sum += profiles[i]->samples[k]->values[0];
    return sum;
}

static void check_sums(const struct totals *t)
{
    assert_int_equal(sum_of("alloc_objects"), t->alloc_objects);
    assert_int_equal(sum_of("alloc_space"), t->alloc_bytes);
    assert_int_equal(sum_of("inuse_objects"), totals_inuse_objects(t));
    assert_int_equal(sum_of("inuse_space"), totals_inuse_bytes(t));
    assert_int_equal(sum_of("cpu"), t->cpu);
    assert_int_equal(sum_of("wall"), t->wall);
}

/* ---- Tests ---- */

static void test_all_kinds(void **state)
{
    static const char *const kinds[] = {"small", "twins", "chain", "rows"};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct snapshot *s = made_snapshot(kinds[i], 600);
        struct totals sums = s->retired;
        for (uint32_t row = 0; row < s->n_rows; row++)
            totals_add(&sums, &s->rows[row].totals);
        fill_with(s);
        make_and_read(16000);
        check_tables();
        check_profiles();
        check_sums(&sums);
        assert_string_equal(type_of(profiles[0]), "inuse_space"); /* viewers show it first */
        digest_free(waiting.digest);
    }
    waiting.digest = NULL;
}

/* Each attempt sends the same bytes. */
static void test_again(void **state)
{
    struct push_request again;
    (void)state;
    fill_with(made_snapshot("small", 0));
    make_and_read(16000);
    assert_int_equal(otlp_request_make(&again, &source, &waiting, 16000), 1);
    assert_int_equal(again.bytes, request.bytes);
    assert_memory_equal(again.body, request.body, request.bytes);
    push_request_free(&again);
}

static void test_what_was_accepted(void **state)
{
    (void)state;
    fill_with(made_snapshot("small", 0));
    waiting.accepted[PUSH_MEMORY] = true;
    make_and_read(16000);
    assert_int_equal(sum_of("alloc_space"), 0);
    waiting.accepted[1] = waiting.accepted[2] = true;
    forget();
    assert_int_equal(otlp_request_make(&request, &source, &waiting, 16000), 0);
}

static void test_bounds(void **state)
{
    (void)state;
    fill_with(made_snapshot("rows", 3000));
    make_and_read(16000);
    int64_t sum = sum_of("alloc_space");
    assert_true(profiles[0]->n_samples > 1000);
    make_and_read(1000);
    assert_true(profiles[0]->n_samples <= 1000 && request.samples == 1000);
    assert_int_equal(sum_of("alloc_space"), sum);
    configured.otlp_max_bytes = 65536;
    make_and_read(1000);
    assert_true(message->dictionary.len <= 65536 && profiles[0]->n_samples < 1000);
    assert_int_equal(sum_of("alloc_space"), sum);
}

/* trace_id and span_id become a link, if both are there. Other labels become attributes. */
static void test_labels(void **state)
{
    static const struct snapshot_label both[] = {
        {"trace_id", "0123456789abcdef0123456789abcdef"}, {"route", "/a"}, {"span_id", "fedcba9876543210"}};
    static const struct snapshot_label one[] = {{"span_id", "fedcba9876543210"}, {"route", ""}};
    const struct snapshot_row rows[] = {
        {.id = 1, .name = "(root)", .target = "", .file = ""},
        {.id = 2, .kind = CONTEXT_SPAN, .name = "a", .target = "", .file = "", .labels = both, .n_labels = 3,
         .totals.alloc_bytes = 10, .totals.alloc_objects = 1},
        {.id = 3, .kind = CONTEXT_SPAN, .name = "a", .target = "", .file = "", .labels = one, .n_labels = 2,
         .totals.alloc_bytes = 20, .totals.alloc_objects = 1}};
    static const uint8_t trace_id[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    static const uint8_t span_id[] = {0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    (void)state;
    fill_with(made_snapshot_of(rows, 3));
    make_and_read(16000);
    check_tables();
    assert_int_equal(tables->n_link_table, 2);
    assert_memory_equal(tables->link_table[1]->trace_id.data, trace_id, sizeof trace_id);
    assert_memory_equal(tables->link_table[1]->span_id.data, span_id, sizeof span_id);
    assert_int_equal(profiles[0]->n_samples, 2);
    for (size_t i = 0; i < 2; i++) {
        const Jespan__Otlp__Sample *s = profiles[0]->samples[i];
        assert_int_equal(s->n_attribute_indices, s->values[0] == 10 ? 1 : 2);
        assert_int_equal(s->link_index, s->values[0] == 10 ? 1 : 0);
        assert_int_equal(s->stack_index, profiles[0]->samples[0]->stack_index);
    }
}

static const Jespan__Otlp__AnyValue *resource_value(const char *key)
{
    const Jespan__Otlp__AnyValue *found = NULL;
    const Jespan__Otlp__Resource *r = message->resource_profiles[0]->resource;
    for (size_t i = 0; i < r->n_attributes; i++)
        if (strcmp(r->attributes[i]->key, key) == 0) {
            assert_null(found);
            found = r->attributes[i]->value;
        }
    assert_non_null(found);
    return found;
}

static void test_resource(void **state)
{
    char host[256] = "";
    (void)state;
    gethostname(host, sizeof host - 1);
    fill_with(made_snapshot("small", 0));
    make_and_read(16000);
    assert_string_equal(resource_value("service.name")->string_value, "test");
    assert_string_equal(resource_value("host.name")->string_value, host);
    assert_int_equal(resource_value("process.pid")->int_value, 42);
    otlp_source_free(&source);
    strcpy(configured.resource_attributes, "service.name=by%20attribute|host.name=other|tier=we%C3%A4b|broken");
    assert_int_equal(make_source(), 0);
    make_and_read(16000);
    assert_string_equal(resource_value("service.name")->string_value, "by attribute");
    assert_string_equal(resource_value("host.name")->string_value, "other");
    assert_string_equal(resource_value("tier")->string_value, "we\xc3\xa4" "b");
    otlp_source_free(&source);
    strcpy(configured.pyroscope_app, "given");
    assert_int_equal(make_source(), 0);
    make_and_read(16000);
    assert_string_equal(resource_value("service.name")->string_value, "given");
}

static void test_paths(void **state)
{
    static const char *const cases[][2] = {
        {"http://h", OTLP_PATH}, {"http://h/x/", OTLP_PATH}, {"http://h" OTLP_PATH, ""}, {"http://h" OTLP_PATH "/", ""}};
    (void)state;
    fill_with(made_snapshot("small", 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(configured.otlp_url, cases[i][0]);
        make_and_read(16000);
        assert_string_equal(request.path, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_accepted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resource, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
