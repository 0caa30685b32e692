/* SPDX-License-Identifier: BSD-2-Clause */
/* Label sets: strings and integers that are cut to their limits and chosen by record_labels. Their memory is reused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/lock.h"
#include "conf/conf.h"
#include "span/labels.h"
#include "span/sites.h"

static union label_draft draft;

/* The pairs of a draft must be `expected`: "key\0value\0…" with the number of bytes. */
#define ASSERT_TEXT(expected)                                                                                          \
    do {                                                                                                               \
        assert_int_equal(draft.set.bytes, sizeof(expected) - 1);                                                       \
        assert_memory_equal(draft.set.text, (expected), sizeof(expected) - 1);                                         \
    } while (0)

static void draft_one(const struct jespan_label label)
{
    assert_int_equal(labels_draft(&draft, &label, 1), 0);
}

#define DRAFT(...)                                                                                                     \
    do {                                                                                                               \
        const struct jespan_label all[] = {__VA_ARGS__};                                                               \
        assert_int_equal(labels_draft(&draft, all, sizeof all / sizeof *all), 0);                                      \
    } while (0)

static void test_integers_are_numbers(void **state)
{
    static const int64_t numbers[] = {0, 1, -1, 7, -12, 4096, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        draft_one((struct jespan_label)JESPAN_LABEL_INT("n", numbers[i]));
        assert_int_equal(draft.set.integers, 1);
        assert_true(labels_integer(draft.set.text + 2) == numbers[i]);
    }
    draft_one((struct jespan_label)JESPAN_LABEL_INT("n", INT64_MIN));
    ASSERT_TEXT("n\0-9223372036854775808\0");
    const struct jespan_label ignored = {"n", "not looked at", 5, JESPAN_TYPE_INTEGER};
    draft_one(ignored);
    ASSERT_TEXT("n\0005\0");
}

static void test_the_type_is_part_of_the_identity(void **state)
{
    (void)state;
    DRAFT({"a", "7"}, {"b", "7"});
    struct label_set *strings = labels_copy(&draft.set);
    DRAFT({"a", "7"}, JESPAN_LABEL_INT("b", 7));
    ASSERT_TEXT("a\0007\0b\0007\0");
    assert_int_equal(draft.set.integers, 2);
    assert_false(labels_equal(strings, &draft.set));
    assert_int_not_equal(strings->hash, draft.set.hash);
    struct label_set *typed = labels_copy(&draft.set);
    DRAFT(JESPAN_LABEL("a", "7"), JESPAN_LABEL_INT("b", 7));
    assert_true(labels_equal(typed, &draft.set));
    DRAFT(JESPAN_LABEL("a", "7"), JESPAN_LABEL("b", "7"));
    assert_true(labels_equal(strings, &draft.set));
    labels_free(strings);
    labels_free(typed);
}

static void test_what_is_no_label(void **state)
{
    static const struct jespan_label wrong[] = {
        {NULL, "v", 0, JESPAN_TYPE_STRING}, {"k", NULL, 0, JESPAN_TYPE_STRING}, {NULL, NULL, 1, JESPAN_TYPE_INTEGER},
        {"k", "v", 0, 2},              {"k", "v", 0, UINT32_MAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(labels_draft(&draft, &wrong[i], 1), -EINVAL);
        assert_int_equal(labels_draft_with(&draft, NULL, &wrong[i]), -EINVAL);
    }
}

/* Characters of one to four bytes, at each place around the limit, in keys and in values. */
static void test_long_strings_are_cut_between_characters(void **state)
{
    static const char *const characters[] = {"x", "\u00e9", "\u20ac", "\U0001f980"};
    (void)state;
    for (size_t c = 0; c < 4; c++)
        for (size_t n = JESPAN_MAX_STRING_BYTES - 5; n <= JESPAN_MAX_STRING_BYTES + 1; n++) {
            char text[1000], cut[sizeof text];
            bool whole = n + c + 1 <= JESPAN_MAX_STRING_BYTES;
            memset(text, 'x', n);
            strcpy(text + n, characters[c]);
            strcpy(cut, text);
            cut[whole ? n + c + 1 : n < JESPAN_MAX_STRING_BYTES ? n : JESPAN_MAX_STRING_BYTES] = '\0';
            uint64_t before = sites_truncated();
            DRAFT({"k", text}, {text, "v"}, JESPAN_LABEL_INT(text, 1));
            const char *second = draft.set.text + 2 + strlen(cut) + 1;
            assert_string_equal(draft.set.text + 2, cut);
            assert_string_equal(second, cut);
            assert_string_equal(second + strlen(cut) + 1, "v");
            assert_int_equal(sites_truncated() - before, whole ? 0 : 3);
        }
}

/* A string of continuation bytes alone is cut at the limit, not down to nothing. */
static void test_what_is_no_utf8_is_cut_too(void **state)
{
    char text[JESPAN_MAX_STRING_BYTES + 10] = "";
    (void)state;
    memset(text, 0x80, sizeof text - 1);
    DRAFT({"k", text});
    assert_int_equal(strlen(draft.set.text + 2), JESPAN_MAX_STRING_BYTES);
}

static void test_as_many_labels_as_there_may_be(void **state)
{
    struct jespan_label labels[JESPAN_MAX_LABELS + 1];
    char text[JESPAN_MAX_STRING_BYTES + 1] = "";
    (void)state;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i <= JESPAN_MAX_LABELS; i++)
        labels[i] = (struct jespan_label)JESPAN_LABEL(text, text);
    labels[JESPAN_MAX_LABELS - 1] = (struct jespan_label)JESPAN_LABEL_INT(text, INT64_MIN);
    for (int n = 1; n <= JESPAN_MAX_LABELS; n++) {
        assert_int_equal(labels_draft(&draft, labels, (size_t)n), 0);
        struct label_set *set = labels_copy(&draft.set);
        assert_int_equal(set->count, n);
        assert_true(set->capacity >= set->bytes);
        assert_true(labels_equal(set, &draft.set));
        set->text[set->bytes - 2] = 'y';
        assert_false(labels_equal(set, &draft.set));
        struct label_set *other = labels_copy(&draft.set);
        labels_free(set);
        labels_free(other);
        assert_ptr_equal(labels_copy(&draft.set), other); /* the memory was reused */
        assert_ptr_equal(labels_copy(&draft.set), set);
        labels_free(set);
        labels_free(other);
    }
    assert_int_equal(draft.set.integers, 1 << (JESPAN_MAX_LABELS - 1));
    labels[JESPAN_MAX_LABELS].value = NULL; /* nobody looks at further labels */
    uint64_t truncated = sites_truncated();
    assert_int_equal(labels_draft(&draft, labels, JESPAN_MAX_LABELS + 1), 0);
    assert_int_equal(draft.set.count, JESPAN_MAX_LABELS);
    assert_int_equal(sites_truncated(), truncated + 1);
    labels[JESPAN_MAX_LABELS - 1].key = NULL;
    assert_int_equal(labels_draft(&draft, labels, JESPAN_MAX_LABELS), -EINVAL);
}

static void record(const char *keys)
{
    strcpy(conf.record_labels, keys);
}

static void test_record_labels(void **state)
{
    (void)state;
    record("route|tenant");
    DRAFT({"route", "/"}, {"user", "joe"}, JESPAN_LABEL_INT("tenant", 3), {"rout", "x"}, {"routes", "x"}, {"", "x"});
    ASSERT_TEXT("route\0/\0tenant\0003\0");
    assert_int_equal(draft.set.integers, 2);
    DRAFT({"user", "joe"}, {"user", NULL}, {"route|tenant", "x"});
    assert_int_equal(draft.set.count, 0);
    const struct jespan_label keyless = {NULL, "v"}, valueless = {"route", NULL};
    assert_int_equal(labels_draft(&draft, &keyless, 1), -EINVAL);
    assert_int_equal(labels_draft(&draft, &valueless, 1), -EINVAL);
    record("|route||");
    DRAFT({"route", "/"}, {"tenant", "x"});
    ASSERT_TEXT("route\0/\0");
    record("");
    DRAFT({"route", "/"}, {"tenant", "x"});
    assert_int_equal(draft.set.count, 2);
}

/* Labels that are left out take no room and do not count as cut. */
static void test_record_labels_comes_first(void **state)
{
    struct jespan_label labels[3 * JESPAN_MAX_LABELS];
    char text[1000] = "";
    (void)state;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 3 * JESPAN_MAX_LABELS; i++)
        labels[i] = (struct jespan_label){i % 3 == 2 ? "kept" : text, i % 3 == 2 ? "v" : text};
    record("kept");
    uint64_t truncated = sites_truncated();
    assert_int_equal(labels_draft(&draft, labels, 3 * JESPAN_MAX_LABELS), 0);
    assert_int_equal(draft.set.count, JESPAN_MAX_LABELS);
    assert_int_equal(sites_truncated(), truncated);
    record("");
}

/* The label is added at the end, or replaces the first label with its key. */
static void test_one_more(void **state)
{
    const struct jespan_label route = {"route", "/b"}, shard = JESPAN_LABEL_INT("shard", -1),
                              route_7 = JESPAN_LABEL_INT("route", 7), unlisted = {"unlisted", "x"};
    (void)state;
    assert_int_equal(labels_draft_with(&draft, NULL, &route), 0);
    ASSERT_TEXT("route\0/b\0");
    DRAFT({"route", "/a"}, JESPAN_LABEL_INT("n", 5), {"route", "again"}, {"tenant", "t"});
    struct label_set *set = labels_copy(&draft.set);
    assert_int_equal(labels_draft_with(&draft, set, &shard), 0);
    ASSERT_TEXT("route\0/a\0n\0005\0route\0again\0tenant\0t\0shard\0-1\0");
    assert_int_equal(draft.set.integers, 1 << 1 | 1 << 4);
    assert_int_equal(labels_draft_with(&draft, set, &route), 0);
    ASSERT_TEXT("route\0/b\0n\0005\0tenant\0t\0");
    assert_int_equal(draft.set.integers, 1 << 1);
    struct label_set *replaced = labels_copy(&draft.set);
    DRAFT({"route", "/b"}, JESPAN_LABEL_INT("n", 5), {"tenant", "t"});
    assert_true(labels_equal(replaced, &draft.set));
    assert_int_equal(labels_draft_with(&draft, set, &route_7), 0);
    ASSERT_TEXT("route\0007\0n\0005\0tenant\0t\0");
    assert_int_equal(draft.set.integers, 1 << 0 | 1 << 1);
    record("route|n|tenant");
    assert_int_equal(labels_draft_with(&draft, set, &unlisted), 0);
    assert_true(labels_equal(set, &draft.set));
    record("");
    labels_free(set);
    labels_free(replaced);
}

static void test_one_more_than_there_may_be(void **state)
{
    struct jespan_label labels[JESPAN_MAX_LABELS];
    char keys[JESPAN_MAX_LABELS][2] = {0};
    (void)state;
    for (int i = 0; i < JESPAN_MAX_LABELS; i++) {
        keys[i][0] = (char)('a' + i);
        labels[i] = (struct jespan_label)JESPAN_LABEL(keys[i], "v");
    }
    assert_int_equal(labels_draft(&draft, labels, JESPAN_MAX_LABELS), 0);
    struct label_set *set = labels_copy(&draft.set);
    uint64_t truncated = sites_truncated();
    assert_int_equal(labels_draft_with(&draft, set, &(struct jespan_label)JESPAN_LABEL("z", "v")), -ENOSPC);
    assert_int_equal(sites_truncated(), truncated + 1);
    assert_true(labels_equal(set, &draft.set));
    assert_int_equal(labels_draft_with(&draft, set, &(struct jespan_label)JESPAN_LABEL("p", "w")), 0);
    assert_int_equal(draft.set.count, JESPAN_MAX_LABELS);
    labels_free(set);
}

/* A key that was cut when it was kept is found again. */
static void test_a_long_key_is_replaced(void **state)
{
    char key[400] = "";
    (void)state;
    memset(key, 'k', sizeof key - 1);
    draft_one((struct jespan_label)JESPAN_LABEL(key, "old"));
    struct label_set *set = labels_copy(&draft.set);
    assert_int_equal(labels_draft_with(&draft, set, &(struct jespan_label)JESPAN_LABEL(key, "new")), 0);
    assert_int_equal(draft.set.count, 1);
    assert_string_equal(draft.set.text + JESPAN_MAX_STRING_BYTES + 1, "new");
    key[JESPAN_MAX_STRING_BYTES - 1] = '\0';
    assert_int_equal(labels_draft_with(&draft, set, &(struct jespan_label)JESPAN_LABEL(key, "new")), 0);
    assert_int_equal(draft.set.count, 2);
    labels_free(set);
}

/* The tree's table uses the low bits of the hash. Labels that differ in a digit only, as numbers of requests do, must not meet
 * there: wherever that digit stands. */
static void test_numbers_are_spread(void **state)
{
    enum { NUMBERS = 4096 };
    static const char *const values[] = {"0000", "0000 abcdefghijklmno", "abcdefghijkl 0000", "abc 0000 defghijk"};
    (void)state;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        static unsigned char used[NUMBERS];
        char value[32];
        unsigned free = 0, at = (unsigned)(strchr(values[v], '0') - values[v]);
        strcpy(value, values[v]);
        memset(used, 0, sizeof used);
        for (unsigned n = 0; n < NUMBERS; n++) {
            for (unsigned digit = 0, left = n; digit < 4; digit++, left /= 10)
                value[at + 3 - digit] = (char)('0' + left % 10);
            draft_one((struct jespan_label)JESPAN_LABEL("request", value));
            used[draft.set.hash % NUMBERS] = 1;
        }
        for (unsigned i = 0; i < NUMBERS; i++)
            free += !used[i];
        assert_in_range(free, NUMBERS / 3, NUMBERS * 2 / 5); /* 37 % where chance chooses */
    }
}

/* The tested functions run under LOCK_TREE. */
static int take_lock(void **state)
{
    (void)state;
    lock(LOCK_TREE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_numbers),
        cmocka_unit_test(test_the_type_is_part_of_the_identity),
        cmocka_unit_test(test_what_is_no_label),
        cmocka_unit_test(test_long_strings_are_cut_between_characters),
        cmocka_unit_test(test_what_is_no_utf8_is_cut_too),
        cmocka_unit_test(test_as_many_labels_as_there_may_be),
        cmocka_unit_test(test_record_labels),
        cmocka_unit_test(test_record_labels_comes_first),
        cmocka_unit_test(test_one_more),
        cmocka_unit_test(test_one_more_than_there_may_be),
        cmocka_unit_test(test_a_long_key_is_replaced),
        cmocka_unit_test(test_numbers_are_spread),
    };
    return cmocka_run_group_tests(tests, take_lock, NULL);
}
