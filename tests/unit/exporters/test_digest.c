/* SPDX-License-Identifier: BSD-2-Clause */
/* Digests: paths and labels, merging, folding, and the result of the pprof encoder. test_digest_memory.c has missing
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../support/check.h"
#include "../../support/made_snapshot.h"
#include "../../support/pprof_read.h"
#include "exporters/digest.h"
#include "exporters/period.h"

#define SPAN_ID "00f067aa0ba902b7"
#define TRACE_ID "4bf92f3577b34da6a3ce929d0e0e4736"

static const struct digest_shape paths = {.labels = "route|tenant", .ids = true};
static const struct digest_shape flat = {.labels = "route|tenant", .ids = true, .flat = true};
static const struct digest_shape no_ids = {.labels = "tenant"}, listed_id = {.labels = "tenant|span_id"};
static const struct digest_shape bare = {.labels = ""};
static uint64_t epoch;

static struct totals allocated(uint64_t bytes)
{
    return (struct totals){.alloc_objects = 1, .alloc_bytes = bytes};
}

static struct snapshot_row span(uint32_t parent, const char *name, const struct snapshot_label *labels,
                                uint32_t n_labels, uint64_t bytes)
{
    return (struct snapshot_row){.parent_row = parent, .kind = CONTEXT_SPAN, .name = name, .target = "t", .file = "f.c",
                                 .line = 1, .labels = labels, .n_labels = n_labels, .totals = allocated(bytes)};
}

static struct snapshot_row root(uint64_t bytes)
{
    struct snapshot_row row = {.kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = ""};
    if (bytes > 0)
        row.totals = allocated(bytes);
    return row;
}

static void add_all(struct digest *d, const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++)
        digest_add(d, s, i, &s->rows[i].totals);
}

static struct digest *digest_of(const struct digest_shape *shape, struct snapshot_row *rows, uint32_t n)
{
    struct digest *d = digest_make(shape);
    assert_non_null(d);
    for (uint32_t i = 0; i < n; i++)
        rows[i].id = i + 1;
    struct snapshot *s = made_snapshot_of(rows, n);
    s->epoch = ++epoch;
    add_all(d, s);
    made_snapshot_free(s);
    return d;
}

/* ---- Reading a view ---- */

/* "a/b{key=value,key=value}"; the root is "". */
static void write_path(const struct snapshot *s, uint32_t row, char *to, size_t bytes)
{
    char inner[1024] = "";
    for (uint32_t i = row; s->rows[i].parent_row != i; i = s->rows[i].parent_row) {
        snprintf(to, bytes, "%s%s%s", s->rows[i].name, inner[0] ? "/" : "", inner);
        snprintf(inner, sizeof inner, "%s", to);
    }
    snprintf(to, bytes, "%s", inner);
    for (uint32_t i = 0; i < s->rows[row].n_labels; i++) {
        const struct snapshot_label *l = &s->rows[row].labels[i];
        size_t n = strlen(to);
        snprintf(to + n, bytes - n, "%c%s=%s", i == 0 ? '{' : ',', l->key, l->value);
        assert_false(l->is_integer);
    }
    if (s->rows[row].n_labels > 0)
        strncat(to, "}", bytes - strlen(to) - 1);
}

/* Returns NULL if there is none. */
static const struct totals *totals_at(struct digest *d, const char *path)
{
    char text[1024];
    const struct totals *found = NULL;
    const struct snapshot *s = digest_view(d);
    assert_non_null(s);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        write_path(s, i, text, sizeof text);
        if (strcmp(text, path) != 0 || (s->rows[i].totals.alloc_objects == 0 && found != NULL))
            continue;
        assert_true(found == NULL || found->alloc_objects == 0);
        found = &s->rows[i].totals;
    }
    return found;
}

#define ABSENT UINT64_MAX

static uint64_t bytes_at(struct digest *d, const char *path)
{
    const struct totals *t = totals_at(d, path);
    return t != NULL ? t->alloc_bytes : ABSENT;
}

static struct totals sum_of(struct digest *d)
{
    struct totals sum = {0};
    const struct snapshot *s = digest_view(d);
    assert_non_null(s);
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(&sum, &s->rows[i].totals);
    return sum;
}

static uint32_t count_figures(struct digest *d)
{
    static const struct totals none;
    uint32_t n = 0;
    const struct snapshot *s = digest_view(d);
    assert_non_null(s);
    for (uint32_t i = 0; i < s->n_rows; i++)
        n += memcmp(&s->rows[i].totals, &none, sizeof none) != 0;
    return n;
}

static void check_totals(const struct totals *a, const struct totals *b)
{
    assert_memory_equal(a, b, sizeof *a);
}

/* ---- Paths and labels ---- */

static void test_paths(void **state)
{
    static const struct snapshot_label other[] = {{"request", "1"}}, more[] = {{"request", "2"}};
    struct snapshot_row rows[] = {
        root(1), span(0, "a", other, 1, 10), span(0, "a", more, 1, 20), span(1, "b", NULL, 0, 100),
        span(2, "b", NULL, 0, 200), span(0, "b", NULL, 0, 1000), span(1, "a", NULL, 0, 0)};
    (void)state;
    rows[6].totals = (struct totals){0};
    struct digest *d = digest_of(&paths, rows, 7);
    assert_int_equal(bytes_at(d, ""), 1);
    assert_int_equal(bytes_at(d, "a"), 30);
    assert_int_equal(bytes_at(d, "a/b"), 300);
    assert_int_equal(bytes_at(d, "b"), 1000);
    assert_int_equal(digest_view(d)->n_rows, 4);
    digest_free(d);
    d = digest_of(&flat, rows, 7);
    assert_int_equal(bytes_at(d, "a"), 30);
    assert_int_equal(bytes_at(d, "b"), 1300);
    assert_int_equal(digest_view(d)->n_rows, 3);
    digest_free(d);
}

/* A site is its name, target, file and line. */
static void test_sites(void **state)
{
    struct snapshot_row rows[] = {root(0), span(0, "a", NULL, 0, 1), span(0, "a", NULL, 0, 1), span(0, "a", NULL, 0, 1),
                                  span(0, "a", NULL, 0, 1), span(0, "a", NULL, 0, 1)};
    (void)state;
    rows[1].target = "other";
    rows[2].file = "other";
    rows[3].line = 2;
    struct digest *d = digest_of(&paths, rows, 6);
    assert_int_equal(digest_view(d)->n_rows, 5);
    digest_free(d);
}

static void test_labels(void **state)
{
    static const struct snapshot_label kept[] = {
        {"route", "/a"}, {"routes", "x"}, {"rout", "x"}, {"", "x"}, {"tenant", ""}},
        integer[] = {{"tenant", "-7", -7, true}}, nearest[] = {{"tenant", "inner"}, {"tenant", "no"}};
    struct snapshot_row rows[] = {root(0), span(0, "a", kept, 5, 1), span(1, "b", integer, 1, 10),
                                  span(1, "b", NULL, 0, 100), span(1, "c", nearest, 2, 1000),
                                  span(4, "d", NULL, 0, 10000)};
    (void)state;
    struct digest *d = digest_of(&paths, rows, 6);
    assert_int_equal(bytes_at(d, "a{route=/a,tenant=}"), 1);
    assert_int_equal(bytes_at(d, "a/b{tenant=-7,route=/a}"), 10);
    assert_int_equal(bytes_at(d, "a/b{route=/a,tenant=}"), 100);
    assert_int_equal(bytes_at(d, "a/c{tenant=inner,route=/a}"), 1000);
    assert_int_equal(bytes_at(d, "a/c/d{tenant=inner,route=/a}"), 10000);
    digest_free(d);
    d = digest_of(&flat, rows, 6);
    assert_int_equal(bytes_at(d, "b{tenant=-7,route=/a}"), 10);
    assert_int_equal(bytes_at(d, "d{tenant=inner,route=/a}"), 10000);
    digest_free(d);
    d = digest_of(&bare, rows, 6);
    assert_int_equal(bytes_at(d, "a"), 1);
    assert_int_equal(bytes_at(d, "a/b"), 110);
    digest_free(d);
}

/* Keys that servers refuse get other names, which differ. If several spans of a path have a key, the nearest span's
 * label counts. */
static void test_names(void **state)
{
    struct label_names names;
    (void)state;
    assert_true(label_names_make(&names, "tenant.id|tenant-id|tenant_id||9lives|route"));
    assert_int_equal(names.n, 5);
    assert_string_equal(label_names_find(&names, "tenant.id"), "tenant_id");
    assert_string_equal(label_names_find(&names, "tenant-id"), "tenant_id_");
    assert_string_equal(label_names_find(&names, "tenant_id"), "tenant_id__");
    assert_string_equal(label_names_find(&names, "9lives"), "_9lives");
    assert_string_equal(label_names_find(&names, "route"), "route");
    assert_null(label_names_find(&names, "tenant"));
    const struct digest_shape shape = {.labels = "tenant.id|tenant-id|tenant_id||9lives|route", .names = &names, .ids = true};
    struct snapshot_label outer[] = {{"tenant.id", "a"}, {"tenant_id", "b"}}, inner[] = {{"tenant-id", "c"}, {"tenant.id", "d"}};
    struct snapshot_row rows[] = {root(0), span(0, "outer", outer, 2, 5), span(1, "inner", inner, 2, 7)};
    struct digest *d = digest_of(&shape, rows, 3);
    const struct snapshot *view = digest_view(d);
    const struct snapshot_row *last = &view->rows[view->n_rows - 1];
    assert_int_equal(last->n_labels, 3);
    for (uint32_t i = 0; i < last->n_labels; i++) {
        const char *key = last->labels[i].key, *value = last->labels[i].value;
        assert_string_equal(value, strcmp(key, "tenant_id") == 0 ? "d" : strcmp(key, "tenant_id_") == 0 ? "c" : "b");
    }
    digest_free(d);
    label_names_free(&names);
}

/* Contexts share a node if they differ only in labels that nearer spans replace. */
static void test_labels_that_are_hidden(void **state)
{
    static const struct snapshot_label one[] = {{"tenant", "1"}}, two[] = {{"tenant", "2"}},
        inner[] = {{"tenant", "3"}};
    struct snapshot_row rows[] = {root(0), span(0, "a", one, 1, 1), span(0, "a", two, 1, 10),
                                  span(1, "b", inner, 1, 100), span(2, "b", inner, 1, 1000)};
    (void)state;
    struct digest *d = digest_of(&paths, rows, 5);
    assert_int_equal(bytes_at(d, "a{tenant=1}"), 1);
    assert_int_equal(bytes_at(d, "a/b{tenant=3}"), 1100);
    digest_free(d);
}

static void test_ids(void **state)
{
    static const struct snapshot_label right[] = {{"span_id", SPAN_ID}, {"trace_id", TRACE_ID}, {"tenant", "x"}};
    static const struct snapshot_label wrong[][1] = {
        {{"span_id", ""}}, {{"span_id", "00f067aa0ba902b"}}, {{"span_id", "00f067aa0ba902b70"}},
        {{"span_id", "00F067AA0BA902B7"}}, {{"span_id", "00f067aa0ba902bg"}}, {{"trace_id", SPAN_ID}},
        {{"trace_id", TRACE_ID "0"}}, {{"span_id", "1234567890123456\n"}}, {{"span_ids", SPAN_ID}}};
    struct snapshot_row rows[2] = {root(0), span(0, "a", right, 3, 5)};
    (void)state;
    struct digest *d = digest_of(&paths, rows, 2);
    assert_int_equal(bytes_at(d, "a{span_id=" SPAN_ID ",trace_id=" TRACE_ID ",tenant=x}"), 5);
    digest_free(d);
    d = digest_of(&no_ids, rows, 2);
    assert_int_equal(bytes_at(d, "a{tenant=x}"), 5);
    digest_free(d);
    d = digest_of(&listed_id, rows, 2);
    assert_int_equal(bytes_at(d, "a{span_id=" SPAN_ID ",tenant=x}"), 5);
    digest_free(d);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rows[1] = span(0, "a", wrong[i], 1, 5);
        d = digest_of(i % 2 == 0 ? &paths : &listed_id, rows, 2);
        assert_int_equal(bytes_at(d, "a"), 5);
        digest_free(d);
    }
}

/* Strings are copied. The snapshot is not needed afterwards, and the same text at another address is the same string. */
static void test_strings_are_copied(void **state)
{
    char name[] = "name", value[] = "value";
    struct snapshot_label labels[] = {{"tenant", value}};
    struct snapshot_row rows[] = {root(0), span(0, name, labels, 1, 5)};
    (void)state;
    struct digest *d = digest_of(&paths, rows, 2);
    memset(name, 'x', 4);
    memset(value, 'x', 5);
    assert_int_equal(bytes_at(d, "name{tenant=value}"), 5);
    digest_free(d);
}

static void test_retired(void **state)
{
    struct snapshot_row rows[] = {root(1)};
    const struct totals t = allocated(7);
    (void)state;
    struct digest *d = digest_of(&flat, rows, 1);
    digest_add(d, NULL, PERIOD_RETIRED, &t);
    digest_add(d, NULL, PERIOD_RETIRED, &t);
    assert_int_equal(bytes_at(d, "(retired)"), 14);
    digest_free(d);
}

/* ---- Merging ---- */

static struct totals period_totals(uint64_t held_before, uint64_t came, uint64_t went)
{
    return (struct totals){.alloc_bytes = came, .free_bytes = went, .credited_in_bytes = held_before};
}

static void test_merge(void **state)
{
    static const struct snapshot_label x[] = {{"tenant", "x"}};
    struct snapshot_row first[] = {root(0), span(0, "a", NULL, 0, 0), span(0, "gone", x, 1, 0),
                                   span(1, "b", NULL, 0, 0)};
    struct snapshot_row second[] = {root(0), span(0, "new", NULL, 0, 0), span(0, "a", NULL, 0, 0)};
    const struct totals went = {.free_bytes = 70, .credited_in_bytes = 70};
    (void)state;
    first[1].totals = period_totals(10, 100, 30); /* holds 80 */
    first[1].totals.outlived_bytes = 33;
    first[2].totals = period_totals(0, 70, 0);
    first[3].totals = period_totals(0, 5, 5);
    second[1].totals = period_totals(0, 1000, 0);
    second[2].totals = period_totals(80, 200, 40); /* holds 240 */
    second[2].totals.outlived_bytes = 11;
    struct digest *older = digest_of(&paths, first, 4), *newer = digest_of(&paths, second, 3);
    digest_add(newer, NULL, PERIOD_RETIRED, &went);
    digest_set_time(older, 100, 200);
    digest_set_time(newer, 200, 300);
    uint64_t in_use = 240 + 1000;
    digest_merge(newer, older);
    digest_free(older);
    const struct totals *a = totals_at(newer, "a");
    assert_int_equal(a->alloc_bytes, 300);
    assert_int_equal(a->free_bytes, 70);
    assert_int_equal(totals_inuse_bytes(a), 240);
    assert_int_equal(a->outlived_bytes, 11);
    const struct totals *gone = totals_at(newer, "gone{tenant=x}");
    assert_int_equal(gone->alloc_bytes, 70);
    assert_int_equal(totals_inuse_bytes(gone), 0);
    assert_int_equal(bytes_at(newer, "a/b"), 5);
    assert_int_equal(bytes_at(newer, "new"), 1000);
    struct totals sum = sum_of(newer);
    assert_int_equal(totals_inuse_bytes(&sum), in_use);
    assert_int_equal(sum.alloc_bytes, 1375);
    assert_int_equal(digest_view(newer)->start_unix_ns, 100);
    assert_int_equal(digest_view(newer)->time_unix_ns, 300);
    digest_free(newer);
}

/* ---- Folding ---- */

/* A node that loses its labels is added to the node without labels, which may then be large enough to stay. */
static void test_fold_into_the_site(void **state)
{
    static struct snapshot_row rows[101];
    static struct snapshot_label labels[101];
    static char ids[101][20];
    (void)state;
    rows[0] = root(0);
    for (uint32_t i = 1; i <= 100; i++) {
        snprintf(ids[i], sizeof ids[i], "%016x", i);
        labels[i] = (struct snapshot_label){.key = "span_id", .value = ids[i]};
        rows[i] = span(0, i % 2 ? "odd" : "even", &labels[i], 1, i == 50 ? 100000 : 100);
    }
    struct digest *d = digest_of(&paths, rows, 101);
    assert_int_equal(digest_fold(d, 101), 0);
    assert_int_equal(digest_fold(d, 4), 99);
    assert_int_equal(bytes_at(d, "even{span_id=0000000000000032}"), 100000);
    assert_int_equal(bytes_at(d, "even"), 4900);
    assert_int_equal(bytes_at(d, "odd"), 5000);
    digest_free(d);
}

/* If nodes have equal weights, as many stay as the bound allows. */
static void test_fold_equal_ones(void **state)
{
    static struct snapshot_row rows[1001];
    static char names[1001][8];
    (void)state;
    rows[0] = root(0);
    for (uint32_t i = 1; i <= 1000; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        rows[i] = span(0, names[i], NULL, 0, 100);
    }
    struct digest *d = digest_of(&paths, rows, 1001);
    digest_fold(d, 500);
    assert_in_range(count_figures(d), 490, 500);
    assert_int_equal(sum_of(d).alloc_bytes, 100000);
    digest_free(d);
}

static uint32_t next_random(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

struct random_tree {
    struct snapshot_row rows[2000];
    struct snapshot_label labels[2000];
    char ids[2000][20];
    uint32_t n;
};

/* The trees are bushy or deep, with and without labels, and with few or many sites. Some rows have no figures, and some
 * have huge ones. */
static void make_random_tree(struct random_tree *t, uint32_t *seed)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    uint32_t depth = next_random(seed, 3), labelled = next_random(seed, 4), sites = 1 + next_random(seed, 8);
    t->n = 1 + next_random(seed, 2000);
    t->rows[0] = root(next_random(seed, 2));
    for (uint32_t i = 1; i < t->n; i++) {
        uint32_t parent = depth == 0 ? i - 1 : depth == 1 ? next_random(seed, i) : i / 8;
        snprintf(t->ids[i], sizeof t->ids[i], "%016x", next_random(seed, 1u << 20));
        t->labels[i] = (struct snapshot_label){.key = "span_id", .value = t->ids[i]};
        t->rows[i] = span(parent, names[next_random(seed, sites)], &t->labels[i], next_random(seed, 4) < labelled, 0);
        t->rows[i].line = depth == 1 ? i : 1;
        t->rows[i].totals = (struct totals){0};
        uint64_t bytes = next_random(seed, 1000);
        if (next_random(seed, 3) > 0)
            t->rows[i].totals = (struct totals){.alloc_bytes = bytes == 0 ? 1u << 30 : bytes,
                                                .free_bytes = next_random(seed, 100), .cpu = next_random(seed, 50),
                                                .credited_in_bytes = next_random(seed, 500), .enters = 1};
    }
}

static void check_view(const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        assert_true(i == 0 ? s->rows[i].parent_row == 0 : s->rows[i].parent_row < i);
        assert_int_equal(s->rows[i].id, i + 1);
        assert_true(s->rows[i].name && s->rows[i].target && s->rows[i].file);
    }
}

static void check_same(const struct snapshot *a, const struct snapshot *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    for (uint32_t i = 0; i < a->n_rows; i++)
        check_totals(&a->rows[i].totals, &b->rows[i].totals);
}

static void check_fold(const struct random_tree *t, uint32_t max)
{
    struct digest *d = digest_of(&paths, ((struct random_tree *)t)->rows, t->n);
    struct digest *again = digest_of(&paths, ((struct random_tree *)t)->rows, t->n);
    struct totals before = sum_of(d), after;
    uint32_t n = count_figures(d), folded;
    folded = digest_fold(d, max);
    after = sum_of(d);
    check_totals(&before, &after);
    check_view(digest_view(d));
    assert_true(count_figures(d) <= (max > 1 ? max : 1));
    assert_true(folded > 0 || n <= max);
    assert_int_equal(digest_fold(again, max), folded);
    check_same(digest_view(d), digest_view(again));
    digest_free(d);
    digest_free(again);
}

static void test_fold_random_trees(void **state)
{
    static struct random_tree t;
    uint32_t seed = 7;
    (void)state;
    uint64_t trees = check_rounds("DIGEST_TREES", 200);
    for (uint64_t i = 0; i < trees; i++) {
        make_random_tree(&t, &seed);
        check_fold(&t, i % 10 == 0 ? (uint32_t)i % 3 : 1 + next_random(&seed, t.n + 5));
    }
}

/* Each node that stays weighs more than each node that went. The nodes are siblings with different figures. */
static void test_the_largest_stay(void **state)
{
    static struct snapshot_row rows[1001];
    static char names[1001][8];
    uint64_t least = UINT64_MAX;
    (void)state;
    rows[0] = root(0);
    for (uint32_t i = 1; i <= 1000; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        rows[i] = span(0, names[i], NULL, 0, 1 + i * 7919u % 1009u);
    }
    struct digest *d = digest_of(&paths, rows, 1001);
    digest_fold(d, 300);
    const struct snapshot *s = digest_view(d);
    for (uint32_t i = 1; i < s->n_rows; i++)
        least = s->rows[i].totals.alloc_bytes < least ? s->rows[i].totals.alloc_bytes : least;
    uint32_t larger = 0;
    for (uint32_t i = 1; i <= 1000; i++)
        larger += rows[i].totals.alloc_bytes >= least;
    assert_int_equal(larger, s->n_rows - 1);
    assert_in_range(larger, 290, 299);
    digest_free(d);
}

/* ---- Encoding ---- */

static const JespanPprof__Sample *find_sample(const JespanPprof__Profile *p, const char *leaf)
{
    const JespanPprof__Sample *found = NULL;
    for (size_t i = 0; i < p->n_sample; i++) {
        const JespanPprof__Function *f = profile_function(p, p->sample[i]->location_id[0]);
        if (f != NULL && strcmp(profile_text(p, f->name), leaf) == 0) {
            assert_null(found);
            found = p->sample[i];
        }
    }
    return found;
}

static void check_frame(const JespanPprof__Profile *p, const JespanPprof__Sample *sample, size_t frame,
                        const char *name)
{
    const JespanPprof__Function *f = profile_function(p, sample->location_id[frame]);
    assert_non_null(f);
    assert_string_equal(profile_text(p, f->name), name);
}

/* A sample has its path without the root, and for each key the nearest label only. */
static void test_encode(void **state)
{
    static const struct snapshot_label outer[] = {{"tenant", "outer"}, {"span_id", "0000000000000001"}},
        inner[] = {{"span_id", SPAN_ID}, {"tenant", "7", 7, true}};
    struct snapshot_row rows[] = {root(1), span(0, "a", outer, 2, 10), span(1, "b", inner, 2, 100),
                                  span(2, "c", NULL, 0, 1000)};
    struct memory_sink to = {{memory_write}};
    (void)state;
    struct digest *d = digest_of(&paths, rows, 4);
    assert_int_equal(pprof_encode(digest_view(d), &pprof_heap, PPROF_GZIP, &to.sink), 0);
    JespanPprof__Profile *p = read_profile(&to);
    assert_non_null(p);
    assert_int_equal(p->n_sample, 4);
    assert_int_equal(find_sample(p, "(root)")->n_label, 0);
    const JespanPprof__Sample *c = find_sample(p, "c");
    assert_non_null(c);
    assert_int_equal(c->n_location_id, 3);
    check_frame(p, c, 1, "b");
    check_frame(p, c, 2, "a");
    assert_int_equal(c->value[1], 1000);
    assert_int_equal(c->n_label, 2);
    for (size_t i = 0; i < 2; i++) {
        bool id = strcmp(profile_text(p, c->label[i]->key), "span_id") == 0;
        assert_string_equal(profile_text(p, c->label[i]->str), id ? SPAN_ID : "7");
    }
    jespan_pprof__profile__free_unpacked(p, NULL);
    free(to.data);
    digest_free(d);
}

/* ---- Sizes ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Makes, merges, folds and encodes n rows of this kind. The processor time of that, in seconds. */
static double large_seconds(const char *kind, uint32_t n, const struct digest_shape *shape)
{
    struct snapshot *s = made_snapshot(kind, n);
    struct memory_sink to = {{memory_write}};
    double begin = seconds();
    struct digest *d = digest_make(shape), *newer = digest_make(shape);
    add_all(d, s);
    digest_merge(newer, d);
    digest_fold(d, 1000);
    digest_fold(newer, 1);
    assert_int_equal(pprof_encode(digest_view(d), &pprof_heap, PPROF_PLAIN, &to.sink), 0);
    double took = seconds() - begin;
    struct totals a = {0}, b = sum_of(d);
    for (uint32_t i = 0; i < n; i++)
        totals_add(&a, &s->rows[i].totals);
    check_totals(&a, &b);
    assert_int_equal(digest_nodes(newer), 1);
    assert_true(digest_bytes(newer) < 100000);
    free(to.data);
    digest_free(newer);
    digest_free(d);
    made_snapshot_free(s);
    return took;
}

/* Many rows in any shape. 32 times the rows take about 32 times the processor time, and 1,024 times if something is
 * quadratic. The bound lies between, far from both: a busy machine does not reach it. */
static void check_large(const char *kind, uint32_t full, const struct digest_shape *shape)
{
    uint32_t n = (uint32_t)check_rounds("DIGEST_ROWS", full);
    double small = large_seconds(kind, n / 32, shape), large = large_seconds(kind, n, shape);
    if (large > 250 * small)
        fail_msg("%s: %u rows take %.3f s, and %u take %.6f s", kind, n, large, n / 32, small);
}

static void test_large(void **state)
{
    static const struct digest_shape by_id = {.labels = "id"};
    (void)state;
    check_large("chain", 100000, &paths);
    check_large("chain", 100000, &by_id);
    check_large("rows", 200000, &paths);
    check_large("rows", 200000, &by_id);
    check_large("rows", 200000, &flat);
}

/* Names are copied as they are. Labels beyond the bound of a node are left out. */
static void test_hostile(void **state)
{
    static struct snapshot_label many[200];
    static char keys[200][16], list[200 * 16], long_name[100001];
    struct digest_shape shape = {.labels = list, .ids = true};
    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(keys[i], sizeof keys[i], "key%d", i);
        many[i] = (struct snapshot_label){.key = keys[i], .value = "\xff\n"};
        strcat(strcat(list, "|"), keys[i]);
    }
    strcat(list, "||");
    memset(long_name, 'x', sizeof long_name - 1);
    struct snapshot_row rows[] = {root(1), span(0, "", many, 200, 2), span(1, "\xff\xc0\x80/%s%n", NULL, 0, 4),
                                  span(0, long_name, NULL, 0, 8), span(0, "", NULL, 0, 16)};
    rows[4].target = rows[4].file = "";
    rows[4].line = 0;
    struct memory_sink to = {{memory_write}};
    struct digest *d = digest_of(&shape, rows, 5);
    assert_int_equal(sum_of(d).alloc_bytes, 31);
    assert_int_equal(digest_view(d)->n_rows, 6); /* the labels of a caller are not part of its frame */
    uint32_t most = 0;
    for (uint32_t i = 0; i < 6; i++)
        most = digest_view(d)->rows[i].n_labels > most ? digest_view(d)->rows[i].n_labels : most;
    assert_int_equal(most, 64);
    assert_int_equal(pprof_encode(digest_view(d), &pprof_heap, PPROF_GZIP, &to.sink), 0);
    digest_fold(d, 2);
    assert_int_equal(sum_of(d).alloc_bytes, 31);
    free(to.data);
    digest_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_labels), cmocka_unit_test(test_names),
        cmocka_unit_test(test_labels_that_are_hidden),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_strings_are_copied),
        cmocka_unit_test(test_retired),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_fold_into_the_site),
        cmocka_unit_test(test_fold_equal_ones),
        cmocka_unit_test(test_fold_random_trees),
        cmocka_unit_test(test_the_largest_stay),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
