/* SPDX-License-Identifier: BSD-2-Clause */
/* Series of /metrics: which spans share one, counters that never fall, and a bounded number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporters/http_answer.h"
#include "exporters/http_series.h"

#define MAX_ROWS 200

/* The rows of a made program. Row 0 is the root. */
static struct snapshot_row rows[MAX_ROWS];
static struct snapshot now;

static int set_up(void **state)
{
    (void)state;
    memset(rows, 0, sizeof rows);
    rows[0] = (struct snapshot_row){.id = 1, .kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = ""};
    now = (struct snapshot){.n_rows = 1, .rows = rows};
    return 0;
}

static struct totals held(uint64_t allocated, uint64_t freed)
{
    return (struct totals){.alloc_bytes = allocated, .free_bytes = freed, .alloc_objects = allocated / 10,
                           .free_objects = freed / 10};
}

static struct snapshot_row *add(uint32_t parent, const char *name, uint64_t allocated)
{
    struct snapshot_row *row = &rows[now.n_rows];
    *row = (struct snapshot_row){.id = ++now.n_rows, .parent_row = parent, .kind = CONTEXT_SPAN, .name = name,
                                 .target = "", .file = "", .totals = held(allocated, 0)};
    return row;
}

static void scrape(struct http_series_set *set)
{
    now.epoch++;
    assert_int_equal(http_series_add(set, &now), 0);
}

static const struct http_series *series(const struct http_series_set *set, const char *labels)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (strcmp(set->series[i].labels, labels) == 0)
            return &set->series[i];
    fail_msg("no series %s", labels);
    return NULL;
}

static struct http_series_set *make(const char *labels, uint64_t max)
{
    struct http_series_set *set = http_series_make(labels, max);
    assert_non_null(set);
    return set;
}

/* Spans of one name share a series, wherever they are in the source and in the tree. */
static void test_a_name_is_one_series(void **state)
{
    (void)state;
    struct http_series_set *set = make("", 100);
    add(0, "parse", 100)->line = 1;
    add(1, "parse", 20)->line = 2;
    add(2, "other", 3)->line = 3;
    scrape(set);
    assert_int_equal(series(set, "span=\"parse\"")->alloc_bytes, 120);
    assert_int_equal(series(set, "span=\"parse\"")->inuse_bytes, 120);
    assert_int_equal(series(set, "span=\"other\"")->alloc_bytes, 3);
    assert_int_equal(set->n, 4); /* (other) and (root) */
    http_series_free(set);
}

static void test_listed_labels_alone(void **state)
{
    static const struct snapshot_label outer[] = {{"tenant", "blue"}, {"route", "/"}, {"request", "7", 7, true}};
    static const struct snapshot_label inner[] = {{"route", "/x"}, {"empty", ""}};
    (void)state;
    struct http_series_set *set = make("route|tenant|empty|absent", 100);
    struct snapshot_row *row = add(0, "outer", 100);
    row->labels = outer;
    row->n_labels = 3;
    row = add(1, "inner", 20);
    row->labels = inner;
    row->n_labels = 2;
    scrape(set);
    assert_int_equal(series(set, "span=\"outer\",route=\"/\",tenant=\"blue\"")->alloc_bytes, 100);
    assert_int_equal(series(set, "span=\"inner\",route=\"/x\",tenant=\"blue\"")->alloc_bytes, 20);
    http_series_free(set);
}

/* Prometheus allows letters, digits and _, and reserves __. No two names are the same, and none is "span". */
static void test_names_of_labels(void **state)
{
    static const struct snapshot_label labels[] = {{"span", "1"},  {"a-b", "2"}, {"a.b", "3"},        {"9", "4"},
                                                   {"__in", "5"},  {"ü", "6"},   {"label_span", "7"}, {"a_b", "8"},
                                                   {"x\"} 1", "9"}};
    (void)state;
    struct http_series_set *set = make("span|a-b|a.b||9|__in|ü|label_span|a_b|a-b|x\"} 1", 100);
    struct snapshot_row *row = add(0, "s", 1);
    row->labels = labels;
    row->n_labels = sizeof labels / sizeof labels[0];
    scrape(set);
    assert_string_equal(set->series[2].labels,
                        "span=\"s\",span_=\"1\",a_b=\"2\",a_b_=\"3\",label_9=\"4\",label___in=\"5\",label___=\"6\","
                        "label_span=\"7\",a_b__=\"8\",x___1=\"9\"");
    http_series_free(set);
}

/* Keys of the greatest length, which differ only in characters that Prometheus does not allow. */
static void test_names_of_long_labels(void **state)
{
    static char keys[3][256], list[800];
    struct snapshot_label labels[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(keys[i], 'k', 255);
        keys[i][254] = "-.+"[i];
        labels[i] = (struct snapshot_label){keys[i], (const char *const[]){"a", "b", "c"}[i], 0, false};
    }
    snprintf(list, sizeof list, "%s|%s|%s", keys[0], keys[1], keys[2]);
    struct http_series_set *set = make(list, 100);
    struct snapshot_row *row = add(0, "s", 1);
    row->labels = labels;
    row->n_labels = 3;
    scrape(set);
    assert_int_equal(strlen(set->names[0]), 255);
    assert_int_equal(strlen(set->names[1]), 256);
    assert_int_equal(strlen(set->names[2]), 257);
    http_series_free(set);
}

/* Names that differ only in bytes that are no UTF-8 look the same, so they share a series. */
static void test_names_of_any_bytes(void **state)
{
    (void)state;
    struct http_series_set *set = make("", 100);
    add(0, "bad\xff", 1);
    add(0, "bad\xfe", 2);
    add(0, "\"\\\n", 4);
    scrape(set);
    assert_int_equal(series(set, "span=\"bad\xEF\xBF\xBD\"")->alloc_bytes, 3);
    assert_int_equal(series(set, "span=\"\\\"\\\\\\n\"")->alloc_bytes, 4);
    http_series_free(set);
}

/* The context's number goes to another context, and its figures go to "(retired)". The series keeps the figures that it
 * was told. */
static void test_counters_outlive_contexts(void **state)
{
    (void)state;
    struct http_series_set *set = make("", 100);
    struct snapshot_row *row = add(0, "first", 0);
    row->totals = (struct totals){.alloc_bytes = 100, .opens = 3, .wall = 5, .busy = 6, .cpu = 7};
    row->totals.outlived_bytes = 50;
    scrape(set);
    assert_int_equal(series(set, "span=\"first\"")->inuse_bytes, 100);
    assert_int_equal(series(set, "span=\"first\"")->outlived_bytes, 50);
    now.retired = row->totals;
    now.retired.alloc_bytes = now.retired.free_bytes = 130; /* 30 of these came after the scrape */
    now.retired.outlived_bytes = 0;
    row->name = "second";
    row->generation++;
    row->totals = held(10, 0);
    scrape(set);
    const struct http_series *first = series(set, "span=\"first\"");
    assert_int_equal(first->alloc_bytes, 100);
    assert_int_equal(first->opens, 3);
    assert_int_equal(first->wall_ns, 5);
    assert_int_equal(first->busy_ns, 6);
    assert_int_equal(first->cpu_ns, 7);
    assert_int_equal(first->inuse_bytes, 0);
    assert_int_equal(first->outlived_bytes, 0);
    assert_int_equal(series(set, "span=\"second\"")->inuse_bytes, 10);
    assert_int_equal(series(set, "span=\"(retired)\"")->alloc_bytes, 30);
    scrape(set);
    assert_int_equal(series(set, "span=\"first\"")->alloc_bytes, 100);
    assert_int_equal(series(set, "span=\"second\"")->alloc_bytes, 10);
    assert_int_equal(series(set, "span=\"second\"")->inuse_bytes, 10);
    http_series_free(set);
}

/* The first series keep their names, and no figure is lost. */
static void test_never_too_many(void **state)
{
    static char names[100][16];
    uint64_t sum = 0;
    (void)state;
    struct http_series_set *set = make("", 16);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "span %d", i);
        add(0, names[i], (uint64_t)i * 10);
    }
    scrape(set);
    assert_int_equal(set->n, 16);
    assert_int_equal(set->folded, 99 - 14); /* the first has no figures */
    assert_int_equal(series(set, "span=\"span 14\"")->alloc_bytes, 140);
    assert_int_equal(series(set, "span=\"(other)\"")->inuse_bytes, 10 * (4950 - 105));
    rows[15].totals.alloc_bytes += 5;
    rows[100].totals.alloc_bytes += 1;
    scrape(set);
    assert_int_equal(set->n, 16);
    assert_int_equal(series(set, "span=\"span 14\"")->alloc_bytes, 145);
    assert_int_equal(series(set, "span=\"(other)\"")->alloc_bytes, 10 * (4950 - 105) + 1);
    for (uint32_t i = 0; i < set->n; i++)
        sum += set->series[i].inuse_bytes;
    assert_int_equal(sum, 49506);
    http_series_free(set);
}

static void test_as_text(void **state)
{
    struct http_text text = {0};
    (void)state;
    struct http_series_set *set = make("", 16);
    add(0, "parse", 120)->totals.cpu = 1500000001;
    scrape(set);
    http_metrics_write_series(&text, set);
    http_text_bytes(&text, "", 1);
    assert_non_null(strstr(text.data, "# TYPE jespan_span_inuse_bytes gauge\n"
                                      "jespan_span_inuse_bytes{span=\"(other)\"} 0\n"
                                      "jespan_span_inuse_bytes{span=\"(root)\"} 0\n"
                                      "jespan_span_inuse_bytes{span=\"parse\"} 120\n# HELP "));
    assert_non_null(strstr(text.data, "\njespan_span_cpu_seconds_total{span=\"parse\"} 1.500000001\n"));
    http_text_free(&text);
    http_series_free(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_is_one_series),      TEST(test_listed_labels_alone), TEST(test_names_of_labels),
        TEST(test_names_of_long_labels),
        TEST(test_names_of_any_bytes),        TEST(test_counters_outlive_contexts), TEST(test_never_too_many),
        TEST(test_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
