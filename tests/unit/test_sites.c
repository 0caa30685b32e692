/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites and label sets as jespan keeps them: cut to their limits, and in memory that is used again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "meta.h"
#include "sites.h"

static void test_a_site_is_kept_once(void **state)
{
    char name[] = "name";
    struct jespan_site site = {name, NULL, NULL, 5}, same = {"name", "", "", 5};
    (void)state;
    const struct site *kept = site_intern(&site);
    uint64_t bytes = meta_alloc_bytes();
    assert_ptr_equal(site_intern(&same), kept);
    assert_int_equal(meta_alloc_bytes(), bytes);
    memset(name, 'x', sizeof name - 1);
    assert_string_equal(kept->name, "name");
    assert_string_equal(kept->target, "");
    assert_string_equal(kept->file, "");
    assert_int_equal(kept->line, 5);
    assert_ptr_not_equal(site_intern(&site), kept);
}

static void test_long_strings_are_cut_between_characters(void **state)
{
    char text[1000], cut[JESPAN_MAX_STRING_BYTES + 1] = "";
    struct jespan_label label = {"k", text};
    union label_draft draft;
    (void)state;
    for (size_t n = JESPAN_MAX_STRING_BYTES - 4; n <= JESPAN_MAX_STRING_BYTES + 1; n++) {
        bool whole = n + 3 <= JESPAN_MAX_STRING_BYTES; /* a character of three bytes after n of one */
        memset(text, 'x', n);
        strcpy(text + n, "\u20ac");
        memset(cut, 'x', sizeof cut - 1);
        strcpy(cut + (whole || n < sizeof cut ? n : sizeof cut - 1), whole ? "\u20ac" : "");
        uint64_t before = sites_truncated();
        assert_int_equal(labels_draft(&draft, &label, 1), 0);
        assert_string_equal(draft.set.text + 2, cut);
        assert_int_equal(sites_truncated() - before, !whole);
    }
}

static void test_as_many_labels_as_there_may_be(void **state)
{
    struct jespan_label labels[JESPAN_MAX_LABELS + 1];
    union label_draft draft;
    char text[JESPAN_MAX_STRING_BYTES + 1] = "";
    (void)state;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i <= JESPAN_MAX_LABELS; i++)
        labels[i] = (struct jespan_label){text, text};
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
        assert_ptr_equal(labels_copy(&draft.set), other); /* their memory is used again */
        assert_ptr_equal(labels_copy(&draft.set), set);
        labels_free(set);
        labels_free(other);
    }
    labels[JESPAN_MAX_LABELS].value = NULL; /* beyond what is looked at */
    assert_int_equal(labels_draft(&draft, labels, JESPAN_MAX_LABELS + 1), 0);
    assert_int_equal(draft.set.count, JESPAN_MAX_LABELS);
    labels[JESPAN_MAX_LABELS - 1].key = NULL;
    assert_int_equal(labels_draft(&draft, labels, JESPAN_MAX_LABELS), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_site_is_kept_once),
        cmocka_unit_test(test_long_strings_are_cut_between_characters),
        cmocka_unit_test(test_as_many_labels_as_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
