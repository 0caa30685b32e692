/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns of names, compared with their definition: a `*` stands for any text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/parse.h"

static bool fits_by_definition(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return fits_by_definition(pattern + 1, text) || (*text && fits_by_definition(pattern, text + 1));
    return *pattern == *text && (!*text || fits_by_definition(pattern + 1, text + 1));
}

/* Writes n in base 3, with the three given letters as digits. */
static const char *spell(char *text, unsigned n, const char *letters)
{
    char *at = text;
    for (; n; n = (n - 1) / 3)
        *at++ = letters[(n - 1) % 3];
    *at = '\0';
    return text;
}

static void test_every_short_pattern(void **state)
{
    char pattern[8], text[8];
    unsigned fitting = 0;
    (void)state;
    for (unsigned i = 0; i < 364; i++)
        for (unsigned k = 0; k < 364; k++) {
            bool fits = pattern_fits(spell(pattern, i, "ab*"), spell(text, k, "abc"));
            if (fits != fits_by_definition(pattern, text))
                fail_msg("\"%s\" and \"%s\"", pattern, text);
            fitting += fits;
        }
    assert_in_range(fitting, 1000, 100000);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(pattern_fits("db.*", "db.query"));
    assert_false(pattern_fits("db.*", "db"));
    assert_true(pattern_fits("*", ""));
    assert_true(pattern_fits("*.get.*", "http.get.users"));
    assert_false(pattern_fits("", "x"));
    assert_true(pattern_fits("gr\xc3\xbc*", "gr\xc3\xbc\xc3\x9f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_short_pattern), cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
