/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers of 16 bits: each tag comes back, plain or wide, with the mark of a survivor or without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap/header.h"

/* A header of a small object, with its second word far behind. */
static header_t *small;

static int make(void **state)
{
    (void)state;
    small = calloc(1, HEADER_MORE_BYTES + sizeof(header_t));
    return small ? 0 : -1;
}

static int unmake(void **state)
{
    (void)state;
    free(small);
    return 0;
}

static void check(uint32_t tag)
{
    header_t big[2] = {0, 0};
    header_set(small, false, tag);
    header_set(big, true, tag);
    if (header_get(small, false) != tag || header_get(big, true) != tag || header_unpack(header_pack(tag)) != tag)
        fail_msg("tag %#x: small %#x, big %#x, packed %#x", tag, header_get(small, false), header_get(big, true),
                 header_unpack(header_pack(tag)));
    uint32_t words = load_relaxed(&big[0]) | (uint32_t)load_relaxed(&big[1]) << 16;
    if (words != header_pack(tag))
        fail_msg("tag %#x: two words %#x, packed %#x", tag, words, header_pack(tag));
    if (!load_relaxed(small))
        fail_msg("tag %#x looks like a free object", tag);
}

/* Garbage in the second word changes nothing where a tag is plain. */
static void test_each_tag_comes_back(void **state)
{
    (void)state;
    for (uint32_t tag = 1; tag < TAGS_MAX; tag += tag < 0x20000 ? 1 : 251) {
        store_relaxed(header_more(small, false), 0x5a5a);
        check(tag);
        check(tag | TAG_SURVIVOR);
        header_set_fast(small, false, tag);
        if (header_get(small, false) != tag)
            fail_msg("tag %#x, set on the fast path: %#x", tag, header_get(small, false));
    }
    check(TAGS_MAX - 1);
    check((TAGS_MAX - 1) | TAG_SURVIVOR);
}

/* header_is() answers for plain tags only, and is never wrong. Current contexts are numbers without the mark. */
static void test_no_header_is_taken_for_another_tag(void **state)
{
    (void)state;
    for (uint32_t value = 0; value <= UINT16_MAX; value++) {
        if (value >= HEADER_PLAIN && value < HEADER_SPECIAL) /* no tag has such a header */
            continue;
        store_relaxed(small, (uint16_t)value);
        for (uint32_t more = 0; more <= UINT16_MAX; more += 4369) {
            store_relaxed(header_more(small, false), (uint16_t)more);
            uint32_t tag = header_get(small, false);
            assert_int_equal(header_is(small, tag), value < HEADER_PLAIN);
            for (uint32_t other = 1; other < TAGS_MAX; other += 65537)
                if (other != tag && header_is(small, other))
                    fail_msg("header %#x of tag %#x is taken for %#x", value, tag, other);
        }
    }
}

/* A survivor is marked by the first word alone. */
static void test_a_survivor_has_the_same_second_word(void **state)
{
    (void)state;
    for (uint32_t tag = 1; tag < TAGS_MAX; tag = tag * 5 / 4 + 1) {
        header_set(small, false, tag);
        store_relaxed(small, header_of_tag(tag | TAG_SURVIVOR));
        assert_int_equal(header_get(small, false), tag | TAG_SURVIVOR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tag_comes_back),
        cmocka_unit_test(test_no_header_is_taken_for_another_tag),
        cmocka_unit_test(test_a_survivor_has_the_same_second_word),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
