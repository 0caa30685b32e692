/* SPDX-License-Identifier: BSD-2-Clause */
/* The pprof exporter with snapshots that are built by hand. protobuf-c reads the result. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/made_snapshot.h"
#include "../../support/pprof_read.h"

/* Frees the snapshot. */
static JespanPprof__Profile *round_trip_snapshot(enum exporter_profile profile, struct snapshot *s)
{
    struct memory_sink to = {0};
    assert_int_equal(encode_to_memory(s, profile, &to), 0);
    JespanPprof__Profile *p = read_profile(&to);
    assert_non_null(p);
    free(to.data);
    made_snapshot_free(s);
    return p;
}

static JespanPprof__Profile *round_trip_of(enum exporter_profile profile, const char *kind, uint32_t n)
{
    return round_trip_snapshot(profile, made_snapshot(kind, n));
}

static JespanPprof__Profile *round_trip(const char *kind, uint32_t n)
{
    return round_trip_of(EXPORTER_HEAP, kind, n);
}

static void release(JespanPprof__Profile *p)
{
    jespan_pprof__profile__free_unpacked(p, NULL);
}

static void print_label(FILE *to, const JespanPprof__Profile *p, const JespanPprof__Label *l)
{
    fprintf(to, " %s=%s", profile_text(p, l->key), profile_text(p, l->str));
    if (l->str == 0)
        fprintf(to, "%lld/%s", (long long)l->num, profile_text(p, l->num_unit));
}

/* Returns the profile as text, one sample a line: values, path with sites, labels. Mapping and strings are left out. */
static void print_sample(FILE *to, const JespanPprof__Profile *p, const JespanPprof__Sample *s)
{
    for (size_t i = 0; i < s->n_value; i++)
        fprintf(to, "%lld ", (long long)s->value[i]);
    for (size_t i = 0; i < s->n_location_id; i++) {
        const JespanPprof__Function *f = profile_function(p, s->location_id[i]);
        fprintf(to, "%s%s[%s %s:%lld]", i > 0 ? " < " : "", profile_text(p, f->name), profile_text(p, f->system_name),
                profile_text(p, f->filename), (long long)f->start_line);
    }
    for (size_t i = 0; i < s->n_label; i++)
        print_label(to, p, s->label[i]);
    fprintf(to, "\n");
}

static char *in_words(const JespanPprof__Profile *p)
{
    char *words;
    size_t bytes;
    FILE *to = open_memstream(&words, &bytes);
    for (size_t i = 0; i < p->n_sample_type; i++)
        fprintf(to, "%s/%s ", profile_text(p, p->sample_type[i]->type), profile_text(p, p->sample_type[i]->unit));
    fprintf(to, "\n%s/%s %lld, %lld ns, %lld ns\n", profile_text(p, p->period_type->type),
            profile_text(p, p->period_type->unit), (long long)p->period, (long long)p->time_nanos,
            (long long)p->duration_nanos);
    for (size_t i = 0; i < p->n_sample; i++)
        print_sample(to, p, p->sample[i]);
    fclose(to);
    return words;
}

static void test_small_is_as_expected(void **state)
{
    static const char expected[] =
        "max_space/bytes max_total_space/bytes peak_space/bytes alloc_objects/count alloc_space/bytes inuse_objects/count "
        "inuse_space/bytes \n"
        "space/bytes 1, 1795000012345000000 ns, 12345000000 ns\n"
        "0 0 0 15 1500 10 1000 (root)[ :0]\n"
        "0 0 0 2 4096 2 4096 (jespan)[ :0]\n"
        "0 0 0 100 10000 3 300 request[server::request server.c:100] route=/doc tenant=blue\n"
        "2097152 2097152 1500000 60 3145728 50 1048576 parse[json::parse json.c:7] < request[server::request server.c:100]"
        " tenant=green format= route=/doc tenant=blue\n"
        "0 0 0 20 64000 0 0 parse[json::parse json.c:7] < request[server::request server.c:100] route=/put shard=7/count"
        " request=4096/count zero=0/count below=-12/count\n"
        "0 5000 0 0 0 0 0 idle[server::idle server.c:5]\n"
        "0 0 0 1 64 1 64 request[server::request server.c:100] route=/put shard=7/count request=4096/count zero=0/count"
        " below=-12/count\n"
        "0 0 0 1000 123456 0 0 (retired)[ :0]\n";
    (void)state;
    JespanPprof__Profile *p = round_trip("small", 0);
    char *words = in_words(p);
    assert_string_equal(words, expected);
    free(words);
    assert_int_equal(p->n_function, 6);
    assert_int_equal(p->n_location, 6);
    assert_int_equal(p->n_comment, 1);
    assert_non_null(strstr(profile_text(p, p->comment[0]), "process 4242, snapshot 7"));
    release(p);
}

/* Of a process whose resident memory is known. */
static void test_resident_memory(void **state)
{
    (void)state;
    struct snapshot *s = made_snapshot("small", 0);
    s->resident_bytes = UINT64_C(5000000000);
    JespanPprof__Profile *p = round_trip_snapshot(EXPORTER_HEAP, s);
    assert_int_equal(p->n_comment, 2);
    assert_string_equal(profile_text(p, p->comment[1]), "resident memory: 5000000000 bytes");
    release(p);
}

/* The same rows with the figures of times. */
static void test_time_is_as_expected(void **state)
{
    static const char expected[] =
        "opens/count wall/nanoseconds busy/nanoseconds cpu/nanoseconds \n"
        "cpu/nanoseconds 1, 1795000012345000000 ns, 12345000000 ns\n"
        "0 0 12000000000 1500000 (root)[ :0]\n"
        "0 0 7200000000000 999 thread:main[ :0]\n"
        "100 3000000000 250000000 200000000 request[server::request server.c:100] route=/doc tenant=blue\n"
        "60 90000000 90000000 80000000 parse[json::parse json.c:7] < request[server::request server.c:100]"
        " tenant=green format= route=/doc tenant=blue\n"
        "20 15500 15500 15500 parse[json::parse json.c:7] < request[server::request server.c:100] route=/put"
        " shard=7/count request=4096/count zero=0/count below=-12/count\n"
        "1 0 0 0 idle[server::idle server.c:5]\n"
        "1000 65000000000 64000000000 5000000 (retired)[ :0]\n";
    (void)state;
    JespanPprof__Profile *p = round_trip_of(EXPORTER_TIME, "small", 0);
    char *words = in_words(p);
    assert_string_equal(words, expected);
    free(words);
    release(p);
}

static void test_unknown_profile(void **state)
{
    (void)state;
    struct snapshot *s = made_snapshot("small", 0);
    struct memory_sink to = {0};
    assert_int_equal(encode_to_memory(s, EXPORTER_N_PROFILES, &to), -EINVAL);
    assert_int_equal(to.n_writes, 0);
    made_snapshot_free(s);
}

static void test_first_mapping_is_this_program(void **state)
{
    char self[PATH_MAX] = "";
    (void)state;
    JespanPprof__Profile *p = round_trip("small", 0);
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    assert_int_equal(p->n_mapping, 2);
    const JespanPprof__Mapping *m = p->mapping[0];
    assert_string_equal(profile_text(p, m->filename), self);
    uint64_t here = (uint64_t)(uintptr_t)&test_first_mapping_is_this_program;
    assert_true(m->memory_start <= here && here < m->memory_limit);
    assert_true(m->has_functions && m->has_filenames && m->has_line_numbers);
    release(p);
}

/* ---- Addresses ---- */

static uint64_t address_of(const JespanPprof__Profile *p, const char *name, int64_t line)
{
    for (size_t i = 0; i < p->n_location; i++) {
        const JespanPprof__Function *f = profile_function(p, p->location[i]->id);
        if (strcmp(profile_text(p, f->name), name) == 0 && f->start_line == line)
            return p->location[i]->address;
    }
    fail_msg("no location %s:%d", name, (int)line);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* All addresses are in a mapping that no program has, and no two are the same. */
static void assert_addresses(const JespanPprof__Profile *p)
{
    const JespanPprof__Mapping *m = p->mapping[1];
    uint64_t *sorted = calloc(p->n_location, sizeof *sorted);
    assert_string_equal(profile_text(p, m->filename), "[jespan]");
    assert_true(m->has_functions && m->has_filenames && m->has_line_numbers);
    for (size_t i = 0; i < p->n_location; i++) {
        assert_int_equal(p->location[i]->mapping_id, m->id);
        sorted[i] = p->location[i]->address;
        assert_true(m->memory_start <= sorted[i] && sorted[i] < m->memory_limit);
    }
    qsort(sorted, p->n_location, sizeof *sorted, by_value);
    for (size_t i = 1; i < p->n_location; i++)
        assert_int_not_equal(sorted[i - 1], sorted[i]);
    free(sorted);
}

static void test_addresses_differ(void **state)
{
    static const char *const kinds[] = {"small", "hostile", "rows", "chain"};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        JespanPprof__Profile *p = round_trip(kinds[i], 3000);
        assert_addresses(p);
        release(p);
    }
}

static JespanPprof__Profile *encode_rows(struct snapshot_row *rows, uint32_t n)
{
    struct memory_sink to = {0};
    const struct snapshot s = {.rows = rows, .n_rows = n};
    assert_int_equal(encode_to_memory(&s, EXPORTER_HEAP, &to), 0);
    JespanPprof__Profile *p = read_profile(&to);
    assert_non_null(p);
    free(to.data);
    return p;
}

static struct snapshot_row site_row(const char *name, uint32_t line)
{
    return (struct snapshot_row){.kind = CONTEXT_SPAN, .name = name, .target = "", .file = "c.c", .line = line,
                                 .totals = {.alloc_objects = 1}};
}

/* A site has the same address whatever else is in the profile, and in whatever order. Another profile has other ids and
 * other strings. */
static void test_addresses_are_the_sites_own(void **state)
{
    (void)state;
    struct snapshot_row rows[] = {site_row("(root)", 0), site_row("alpha", 1), site_row("alpha", 2), site_row("beta", 1)};
    struct snapshot_row others[] = {site_row("(root)", 0), site_row("new", 7), site_row("beta", 1), site_row("alpha", 2)};
    JespanPprof__Profile *p = encode_rows(rows, 4), *other = encode_rows(others, 4);
    assert_int_equal(address_of(p, "alpha", 2), address_of(other, "alpha", 2));
    assert_int_equal(address_of(p, "beta", 1), address_of(other, "beta", 1));
    assert_addresses(p);
    assert_addresses(other);
    release(p);
    release(other);
}

/* Two lines that hash to the same address. They were found among 150 million lines. */
static void test_addresses_that_collide(void **state)
{
    (void)state;
    struct snapshot_row rows[] = {site_row("(root)", 0), site_row("collides", 31013838), site_row("collides", 118336671)};
    JespanPprof__Profile *p = encode_rows(rows, 3);
    assert_addresses(p);
    assert_int_equal(address_of(p, "collides", 31013838) + 1, address_of(p, "collides", 118336671));
    release(p);
}

static void test_strings_begin_empty_and_are_distinct(void **state)
{
    (void)state;
    JespanPprof__Profile *p = round_trip("small", 0);
    assert_string_equal(p->string_table[0], "");
    for (size_t i = 0; i < p->n_string_table; i++)
        for (size_t k = i + 1; k < p->n_string_table; k++)
            if (p->string_table[k][0] != '\0') /* a second empty one stands for empty label values */
                assert_string_not_equal(p->string_table[i], p->string_table[k]);
    release(p);
}

static void test_equal_snapshots_give_equal_bytes(void **state)
{
    (void)state;
    struct snapshot *s = made_snapshot("rows", 3000);
    struct memory_sink first = {0}, second = {0};
    assert_int_equal(encode_to_memory(s, EXPORTER_HEAP, &first), 0);
    assert_int_equal(encode_to_memory(s, EXPORTER_HEAP, &second), 0);
    assert_int_equal(first.bytes, second.bytes);
    assert_memory_equal(first.data, second.data, first.bytes);
    free(first.data);
    free(second.data);
    made_snapshot_free(s);
}

static void test_empty(void **state)
{
    (void)state;
    JespanPprof__Profile *p = round_trip("empty", 0);
    assert_int_equal(p->n_sample, 0);
    assert_int_equal(p->n_sample_type, 7);
    assert_int_equal(p->n_mapping, 2);
    release(p);
}

static bool has_string(const JespanPprof__Profile *p, const char *text)
{
    for (size_t i = 0; i < p->n_string_table; i++)
        if (strcmp(p->string_table[i], text) == 0)
            return true;
    return false;
}

static void test_hostile_names(void **state)
{
    (void)state;
    JespanPprof__Profile *p = round_trip("hostile", 0);
    assert_int_equal(p->n_sample, 11);
    assert_true(has_string(p, "(unnamed)"));
    assert_true(has_string(p, "bad \uFFFD\uFFFD utf8 \uFFFD\uFFFD\uFFFD"));
    assert_true(has_string(p, "\uFFFD.c"));
    assert_true(has_string(p, "new\nline\ttab\x1b]0;title\x07"));
    assert_true(has_string(p, "日本語 Ünïcödé 🦀"));
    assert_true(has_string(p, "std::vector<int>::push_back(int const&)"));
    for (size_t i = 0; i < p->n_sample; i++)
        for (size_t k = 0; k < p->sample[i]->n_location_id; k++)
            assert_non_null(profile_function(p, p->sample[i]->location_id[k]));
    assert_int_equal(p->sample[1]->n_label, 5);
    assert_int_not_equal(p->sample[1]->label[0]->str, 0);
    release(p);
}

/* A missing parent counts as the root. A path in a circle is cut as a path that is too long is. */
static void test_broken_trees_end(void **state)
{
    (void)state;
    JespanPprof__Profile *p = round_trip("hostile", 0);
    const JespanPprof__Sample *loop = p->sample[8];
    assert_int_equal(p->sample[7]->n_location_id, 1);
    assert_int_equal(loop->n_location_id, PPROF_MAX_FRAMES + 1);
    assert_string_equal(profile_text(p, profile_function(p, loop->location_id[PPROF_MAX_FRAMES])->name), "(path cut)");
    release(p);
}

static void test_deep_paths_lose_their_outer_end(void **state)
{
    enum { DEPTH = PPROF_MAX_FRAMES + 500 };
    (void)state;
    JespanPprof__Profile *p = round_trip("chain", DEPTH + 1); /* and the root */
    assert_int_equal(p->n_sample, DEPTH);
    for (size_t i = 0; i < DEPTH; i++) {
        const JespanPprof__Sample *s = p->sample[i];
        bool whole = i < PPROF_MAX_FRAMES;
        size_t labels = (i + 1) / 10 + 1;
        char leaf[32];
        snprintf(leaf, sizeof leaf, "level%zu", i + 1);
        assert_int_equal(s->n_location_id, whole ? i + 1 : PPROF_MAX_FRAMES + 1);
        assert_int_equal(s->value[6], (i + 1) * 16);
        if (whole)
            assert_int_equal(s->n_label, labels < PPROF_MAX_LABELS ? labels : PPROF_MAX_LABELS);
        if (i % 97 == 0)
            assert_string_equal(profile_text(p, profile_function(p, s->location_id[0])->name), leaf);
    }
    release(p);
}

static void add_values(uint64_t sums[4], const struct totals *t, enum exporter_profile profile)
{
    const uint64_t values[EXPORTER_N_PROFILES][4] = {
        [EXPORTER_HEAP] = {t->alloc_objects, t->alloc_bytes, totals_inuse_objects(t), totals_inuse_bytes(t)},
        [EXPORTER_TIME] = {t->opens, t->wall, t->busy, t->cpu},
    };
    for (int k = 0; k < 4; k++)
        sums[k] += values[profile][k];
}

static void check_sums_of_many_rows(enum exporter_profile profile)
{
    enum { ROWS = 100000 };
    struct snapshot *s = made_snapshot("rows", ROWS);
    uint64_t expected[4] = {0}, actual[4] = {0};
    for (uint32_t i = 0; i < ROWS; i++)
        add_values(expected, &s->rows[i].totals, profile);
    made_snapshot_free(s);
    JespanPprof__Profile *p = round_trip_of(profile, "rows", ROWS);
    size_t before = profile == EXPORTER_HEAP ? 3 : 0; /* the peaks */
    for (size_t i = 0; i < p->n_sample; i++)
        for (size_t k = 0; k < 4; k++)
            actual[k] += (uint64_t)p->sample[i]->value[before + k];
    assert_memory_equal(actual, expected, sizeof expected);
    assert_int_equal(p->n_sample, ROWS - 1);
    assert_int_equal(p->n_function, 1000);
    release(p);
}

static void test_sums_of_many_rows(void **state)
{
    (void)state;
    check_sums_of_many_rows(EXPORTER_HEAP);
    check_sums_of_many_rows(EXPORTER_TIME);
}

static void test_errors_of_the_sink_come_back(void **state)
{
    (void)state;
    struct snapshot *s = made_snapshot("rows", 30000);
    struct memory_sink whole = {0};
    assert_int_equal(encode_to_memory(s, EXPORTER_HEAP, &whole), 0);
    assert_true(whole.n_writes > 3);
    for (int i = 1; i <= whole.n_writes; i++) {
        struct memory_sink broken = {.fail_at = i};
        assert_int_equal(encode_to_memory(s, EXPORTER_HEAP, &broken), -ENOSPC);
        assert_int_equal(broken.n_writes, i);
        free(broken.data);
    }
    free(whole.data);
    made_snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_is_as_expected),
        cmocka_unit_test(test_resident_memory),
        cmocka_unit_test(test_time_is_as_expected),
        cmocka_unit_test(test_unknown_profile),
        cmocka_unit_test(test_first_mapping_is_this_program),
        cmocka_unit_test(test_addresses_differ),
        cmocka_unit_test(test_addresses_are_the_sites_own),
        cmocka_unit_test(test_addresses_that_collide),
        cmocka_unit_test(test_strings_begin_empty_and_are_distinct),
        cmocka_unit_test(test_equal_snapshots_give_equal_bytes),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_broken_trees_end),
        cmocka_unit_test(test_deep_paths_lose_their_outer_end),
        cmocka_unit_test(test_sums_of_many_rows),
        cmocka_unit_test(test_errors_of_the_sink_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
