/* SPDX-License-Identifier: BSD-2-Clause */
/* A path that is too long for its line loses whole parts from its middle if the first and the last one then fit, else characters. */
#include "src/console/text.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct text text;

/* Parts have | between them. */
static const char *fitted(const char *parts, size_t columns)
{
    static char result[1000];
    char copy[1000], *rest;
    strcpy(copy, parts);
    text_clear(&text);
    for (char *part = strtok_r(copy, "|", &rest); part; part = strtok_r(NULL, "|", &rest)) {
        text_add_part(&text);
        text_add_bytes(&text, part, strlen(part), 100);
    }
    text_fit(&text, columns);
    text_copy(&text, result, sizeof result);
    assert_true(columns_of(text.chars, text.n) <= columns);
    return result;
}

static void parts_are_cut_whole(void **state)
{
    (void)state;
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 38), "thread:a > main > parse > read > alloc");
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 34), "thread:a > main > … > read > alloc");
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 33), "thread:a > … > read > alloc");
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 27), "thread:a > … > read > alloc");
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 26), "thread:a > … > alloc");
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 20), "thread:a > … > alloc");
    assert_string_equal(fitted("map<int, list<int> > >::find|main|map<int, list<int> > >::add", 62),
                        "map<int, list<int> > >::find > … > map<int, list<int> > >::add");
}

/* The inner end gets the columns that the outer end does not need. The outer end gets those that the inner end does not need. */
static void columns_are_used(void **state)
{
    (void)state;
    assert_string_equal(fitted("a|b|c|long_part_of_the_middle|d", 24), "a > b > c > … > d");
    assert_string_equal(fitted("a|long_part_of_the_middle|b|c|d", 24), "a > … > b > c > d");
    assert_string_equal(fitted("a|b|long_part_of_the_middle|c|d", 24), "a > b > … > c > d");
    assert_string_equal(fitted("first_part|b|c|last_part", 27), "first_part > … > last_part");
}

static void characters_are_cut_where_two_parts_have_no_room(void **state)
{
    (void)state;
    assert_string_equal(fitted("thread:a|main|parse|read|alloc", 19), "thread:…ead > alloc");
    assert_string_equal(fitted("one_part_that_is_too_long", 12), "one_…oo_long");
    assert_string_equal(fitted("two_parts|that_are_too_long", 12), "two_…oo_long");
    assert_string_equal(fitted("", 12), "");
}

static void characters_of_two_columns_count_so(void **state)
{
    (void)state;
    assert_string_equal(fitted("字字|字字|字字|字字", 25), "字字 > 字字 > 字字 > 字字");
    assert_string_equal(fitted("字字|字字|字字|字字", 24), "字字 > … > 字字 > 字字");
    assert_string_equal(fitted("字字|字字|字字|字字", 21), "字字 > … > 字字");
    assert_string_equal(fitted("字字|字字|字字|字字", 14), "字字 … > 字字");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_cut_whole),
        cmocka_unit_test(columns_are_used),
        cmocka_unit_test(characters_are_cut_where_two_parts_have_no_room),
        cmocka_unit_test(characters_of_two_columns_count_so),
    };
    text_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
