/* SPDX-License-Identifier: BSD-2-Clause */
/* Text that the service http writes: numbers, and names of any bytes in JSON and in labels of Prometheus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exporters/http_text.h"

static void assert_written(struct http_text *t, const char *expected)
{
    http_text_bytes(t, "", 1);
    assert_false(t->failed);
    assert_string_equal(t->data, expected);
    http_text_free(t);
}

static void assert_json(const char *text, const char *expected)
{
    struct http_text t = {0};
    http_text_json(&t, text);
    assert_written(&t, expected);
}

static void assert_label(const char *text, const char *expected)
{
    struct http_text t = {0};
    http_text_label(&t, text);
    assert_written(&t, expected);
}

static void test_numbers(void **state)
{
    struct http_text t = {0};
    (void)state;
    http_text_number(&t, 0);
    http_text_put(&t, " ");
    http_text_number(&t, UINT64_MAX);
    http_text_put(&t, " ");
    http_text_seconds(&t, 0);
    http_text_put(&t, " ");
    http_text_seconds(&t, 1000000001);
    http_text_put(&t, " ");
    http_text_seconds(&t, UINT64_MAX);
    assert_written(&t, "0 18446744073709551615 0.000000000 1.000000001 18446744073.709551615");
}

static void test_json(void **state)
{
    (void)state;
    assert_json("", "\"\"");
    assert_json("plain 日本語 🦀", "\"plain 日本語 🦀\"");
    assert_json("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    assert_json("\n\t\r\x01\x1f\x7f", "\"\\u000a\\u0009\\u000d\\u0001\\u001f\\u007f\"");
    assert_json("</script>", "\"</script>\"");
}

static void test_label(void **state)
{
    (void)state;
    assert_label("", "\"\"");
    assert_label("a\"b\\c\nd\te", "\"a\\\"b\\\\c\\nd\te\"");
    assert_label("{x=\"1\"}, 日本語", "\"{x=\\\"1\\\"}, 日本語\"");
}

/* Overlong, cut-off, too large and lone sequences, and surrogates: each byte is replaced, and the following bytes are
 * read on. */
static void test_not_utf8(void **state)
{
    (void)state;
    assert_json("a\xff" "b", "\"a\xEF\xBF\xBD" "b\"");
    assert_label("\xc0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_json("\xe2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_label("\xed\xa0\x80!", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD!\"");
    assert_json("\xf5\"", "\"\xEF\xBF\xBD\\\"\"");
    assert_label("\xe2\"", "\"\xEF\xBF\xBD\\\"\"");
}

static void test_grows(void **state)
{
    struct http_text t = {0};
    char *expected = calloc(1, 1000001);
    (void)state;
    for (int i = 0; i < 100000; i++) {
        http_text_put(&t, "0123456789");
        memcpy(expected + i * 10, "0123456789", 10);
    }
    assert_int_equal(t.n, 1000000);
    assert_written(&t, expected);
    free(expected);
}

/* Without memory, nothing is written, and the failure is remembered. */
static void test_no_memory(void **state)
{
    struct http_text t = {0};
    (void)state;
    http_text_put(&t, "before");
    t.capacity = t.n; /* full */
    t.failed = true;
    http_text_put(&t, "after");
    assert_int_equal(t.n, 6);
    assert_true(t.failed);
    http_text_free(&t);
    assert_false(t.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_json),  cmocka_unit_test(test_label),
        cmocka_unit_test(test_not_utf8), cmocka_unit_test(test_grows), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
