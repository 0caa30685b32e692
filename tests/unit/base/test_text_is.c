/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparing a text with a kept copy of it, for texts at any place of a block, up to the last byte of readable memory. */
#include "base/text_is.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define LONGEST 70

static char kept[LONGEST + 1 + 2 * TEXT_MARGIN];
static char *end; /* of readable memory, which begins a page earlier */

static int map(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages, page, PROT_NONE), 0);
    assert_int_equal(mprotect(pages + 2 * page, page, PROT_NONE), 0);
    end = pages + 2 * page;
    return 0;
}

static const char *keep(const char *text)
{
    memset(kept, '#', sizeof kept);
    strcpy(kept + TEXT_MARGIN, text);
    return kept + TEXT_MARGIN;
}

static void fill(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 26);
    text[n] = '\0';
}

/* Calls `check` for each length of a text, at each place in a block, and at both ends of memory. */
static void at_all_places(void (*check)(char *text, size_t n))
{
    char *start = end - sysconf(_SC_PAGESIZE);
    for (size_t n = 0; n < LONGEST; n++)
        for (size_t i = 0; i < TEXT_BLOCK; i++) {
            memset(start, '~', (size_t)(end - start));
            check(start + i, n);
            check(end - i - n - 1, n);
        }
}

static void is_itself(char *text, size_t n)
{
    fill(text, n);
    assert_true(text_is(text, keep(text), n));
}

static void is_no_text_with_another_byte(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fill(text, n);
        const char *copy = keep(text);
        text[i] = '\x80';
        assert_false(text_is(text, copy, n));
    }
}

static void is_no_shorter_text(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fill(text, n);
        const char *copy = keep(text);
        text[i] = '\0';
        assert_false(text_is(text, copy, n));
    }
}

static void is_no_longer_text(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fill(text, n);
        const char *copy = keep(text);
        kept[TEXT_MARGIN + i] = '\0';
        assert_false(text_is(text, copy, i));
    }
}

static void test_equal(void **state)
{
    (void)state;
    at_all_places(is_itself);
}

static void test_different(void **state)
{
    (void)state;
    at_all_places(is_no_text_with_another_byte);
}

static void test_shorter(void **state)
{
    (void)state;
    at_all_places(is_no_shorter_text);
}

static void test_longer(void **state)
{
    (void)state;
    at_all_places(is_no_longer_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_different),
        cmocka_unit_test(test_shorter),
        cmocka_unit_test(test_longer),
    };
    return cmocka_run_group_tests(tests, map, NULL);
}
