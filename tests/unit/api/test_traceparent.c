/* SPDX-License-Identifier: BSD-2-Clause */
/* traceparent headers: the cases of the specification and of its test suite (https://www.w3.org/TR/trace-context/,
 * https://github.com/w3c/trace-context), and hostile ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jespan/jespan.h"

#define TRACE "12345678901234567890123456789012"
#define PARENT "1234567890123456"
#define EXAMPLE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

/* The text is in memory of exactly its size, so AddressSanitizer sees a read behind its end. */
static int parse(const char *header, struct jespan_traceparent *out)
{
    char *exact = strdup(header);
    int result = jespan_parse_traceparent(exact, out);
    free(exact);
    return result;
}

static void test_the_example(void **state)
{
    struct jespan_traceparent t;
    (void)state;
    errno = 12345;
    assert_int_equal(parse(EXAMPLE, &t), 0);
    assert_string_equal(t.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(t.span_id, "00f067aa0ba902b7");
    assert_int_equal(t.flags, JESPAN_TRACE_SAMPLED);
    assert_int_equal(parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", &t), 0);
    assert_int_equal(t.flags, 0);
    assert_int_equal(errno, 12345);
}

/* Version 00 keeps its flags. Later versions keep only the flag that is known. */
static void test_flags(void **state)
{
    struct jespan_traceparent t;
    (void)state;
    assert_int_equal(parse("00-" TRACE "-" PARENT "-ff", &t), 0);
    assert_int_equal(t.flags, 0xff);
    assert_int_equal(parse("00-" TRACE "-" PARENT "-02", &t), 0);
    assert_int_equal(t.flags, 0x02);
    assert_int_equal(parse("01-" TRACE "-" PARENT "-ff", &t), 0);
    assert_int_equal(t.flags, JESPAN_TRACE_SAMPLED);
    assert_int_equal(parse("01-" TRACE "-" PARENT "-fe", &t), 0);
    assert_int_equal(t.flags, 0);
}

static void test_valid(void **state)
{
    static const char *const valid[] = {
        "00-" TRACE "-" PARENT "-01",
        "cc-" TRACE "-" PARENT "-01",
        "cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like",
        "01-" TRACE "-" PARENT "-01-",
        "fe-" TRACE "-" PARENT "-01-\xff\x80 anything",
        "00-00000000000000000000000000000001-0000000000000001-00",
        "00-10000000000000000000000000000000-1000000000000000-00",
        "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-00",
        "00-abcdef01234567890000000000000000-abcdef0000000000-00",
    };
    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        struct jespan_traceparent t;
        assert_int_equal(parse(valid[i], &t), 0);
        assert_memory_equal(t.trace_id, valid[i] + 3, 32);
        assert_memory_equal(t.span_id, valid[i] + 36, 16);
        assert_int_equal(strlen(t.trace_id), 32);
        assert_int_equal(strlen(t.span_id), 16);
    }
}

static void test_invalid(void **state)
{
    static const char *const invalid[] = {
        "", "0", "00", "00-", "-", "\xff",
        /* versions */
        "ff-" TRACE "-" PARENT "-01", "ff-" TRACE "-" PARENT "-01-more", ".0-" TRACE "-" PARENT "-01",
        "0.-" TRACE "-" PARENT "-01", "000-" TRACE "-" PARENT "-01", "0000-" TRACE "-" PARENT "-01",
        "0-" TRACE "-" PARENT "-01", "-" TRACE "-" PARENT "-01", TRACE "-" PARENT "-01", "0A-" TRACE "-" PARENT "-01",
        "00-" TRACE "-" PARENT "-01.", "00-" TRACE "-" PARENT "-01-", "00-" TRACE "-" PARENT "-01 ",
        "00-" TRACE "-" PARENT "-01-what-the-future-will-be-like", "01-" TRACE "-" PARENT "-01.",
        "cc-" TRACE "-" PARENT "-01.what-the-future-will-not-be-like", "01-" TRACE "-" PARENT "-0",
        "cc-" TRACE "-" PARENT "-011",
        /* trace ids */
        "00-00000000000000000000000000000000-" PARENT "-01", "01-00000000000000000000000000000000-" PARENT "-01",
        "00-.2345678901234567890123456789012-" PARENT "-01", "00-1234567890123456789012345678901.-" PARENT "-01",
        "00-" TRACE "3-" PARENT "-01", "00-1234567890123456789012345678901-" PARENT "-01", "00--" PARENT "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", "00-ABCDEFABCDEFABCDEFABCDEFABCDEFAB-" PARENT "-01",
        "00-1234567890123456789012345678901g-" PARENT "-01",
        /* parent ids */
        "00-" TRACE "-0000000000000000-01", "00-" TRACE "-.234567890123456-01", "00-" TRACE "-123456789012345.-01",
        "00-" TRACE "-" PARENT "7-01", "00-" TRACE "-123456789012345-01", "00-" TRACE "--01", "00-" TRACE "-" PARENT,
        "00-" TRACE "-00F067AA0BA902B7-01",
        /* flags */
        "00-" TRACE "-" PARENT "-", "00-" TRACE "-" PARENT "-1", "00-" TRACE "-" PARENT "-001",
        "00-" TRACE "-" PARENT "-.0", "00-" TRACE "-" PARENT "-0.", "00-" TRACE "-" PARENT "-0A",
        /* separators and white space */
        "00_" TRACE "-" PARENT "-01", "00-" TRACE "_" PARENT "-01", "00-" TRACE "-" PARENT "_01",
        " 00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-01\t", "00 -" TRACE "-" PARENT "-01",
        "00-" TRACE "-" PARENT "-01, 00-" TRACE "-" PARENT "-01",
    };
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        struct jespan_traceparent t = {"untouched", "too", 77};
        if (parse(invalid[i], &t) != EINVAL)
            fail_msg("\"%s\" is taken for valid", invalid[i]);
        assert_string_equal(t.trace_id, "untouched");
        assert_string_equal(t.span_id, "too");
        assert_int_equal(t.flags, 77);
    }
}

static void test_null(void **state)
{
    struct jespan_traceparent t;
    (void)state;
    assert_int_equal(jespan_parse_traceparent(NULL, &t), EINVAL);
    assert_int_equal(jespan_parse_traceparent(EXAMPLE, NULL), EINVAL);
    assert_int_equal(jespan_parse_traceparent(NULL, NULL), EINVAL);
}

/* The grammar, written a second time for comparison. */
static bool is_valid(const char *s)
{
    size_t n = strlen(s);
    if (n < 55 || (n > 55 && (!strncmp(s, "00", 2) || s[55] != '-')) || !strncmp(s, "ff", 2))
        return false;
    for (size_t i = 0; i < 55; i++)
        if (!strchr(i == 2 || i == 35 || i == 52 ? "-" : "0123456789abcdef", s[i]))
            return false;
    return strspn(s + 3, "0") < 32 && strspn(s + 36, "0") < 16;
}

static uint32_t next_random(void)
{
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static char random_byte(void)
{
    static const char likely[] = "0123456789abcdefABCDEFg-- .\t";
    uint32_t r = next_random();
    return r % 8 ? likely[r / 8 % (sizeof likely - 1)] : (char)(r >> 24 ? r >> 24 : 1);
}

/* Changes the text: replaces, inserts, removes, cuts or repeats a part. */
static void mutate(char *s, size_t capacity)
{
    size_t n = strlen(s), at = next_random() % (n + 1);
    switch (next_random() % 5) {
    case 0:
        if (at < n)
            s[at] = random_byte();
        break;
    case 1:
        if (n + 2 < capacity) {
            memmove(s + at + 1, s + at, n - at + 1);
            s[at] = random_byte();
        }
        break;
    case 2:
        if (at < n)
            memmove(s + at, s + at + 1, n - at);
        break;
    case 3:
        s[at] = '\0';
        break;
    default:
        for (size_t i = at; i < n && i < at + 32; i++)
            s[i] = s[at] == '-' ? '0' : s[at];
    }
}

static void test_mutations(void **state)
{
    static const char *const seeds[] = {EXAMPLE, "cc-" TRACE "-" PARENT "-01-more",
                                        "fe-00000000000000000000000000000001-0000000000000001-00"};
    unsigned n_valid = 0;
    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        char text[128];
        struct jespan_traceparent t;
        strcpy(text, seeds[i % 3]);
        for (uint32_t mutations = next_random() % 4; mutations > 0; mutations--)
            mutate(text, sizeof text);
        bool valid = is_valid(text);
        if ((parse(text, &t) == 0) != valid)
            fail_msg("\"%s\" is %s", text, valid ? "valid" : "not valid");
        n_valid += valid;
    }
    assert_in_range(n_valid, 40000, 160000);
}

static void test_its_labels(void **state)
{
    struct jespan_traceparent t;
    (void)state;
    assert_int_equal(jespan_parse_traceparent(EXAMPLE, &t), 0);
    const struct jespan_label labels[] = {JESPAN_LABEL("route", "/"), JESPAN_TRACE_LABELS(t)};
    assert_int_equal(sizeof labels / sizeof *labels, 3);
    assert_string_equal(labels[1].key, "trace_id");
    assert_ptr_equal(labels[1].value, t.trace_id);
    assert_string_equal(labels[2].key, "span_id");
    assert_ptr_equal(labels[2].value, t.span_id);
    assert_int_equal(labels[2].type, JESPAN_TYPE_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example), cmocka_unit_test(test_flags),     cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),     cmocka_unit_test(test_null),      cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_its_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
