/* SPDX-License-Identifier: BSD-2-Clause */
/* The path of a context as text: whole, cut at its inner end to fit any buffer, and safe to print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "span/context_path.h"
#include "span/tree.h"

static const struct jespan_site outer = {"outer", "", "", 1}, inner = {"inner", "", "", 2}, rude = {"\x1b[2J\n\x7f", "", "", 3};

static uint32_t intern_deep(void)
{
    const struct jespan_label labels[] = {{"a", "1"}, {"b", .type = JESPAN_TYPE_INTEGER, .integer = -2}};
    return intern_with(intern_with(CONTEXT_ID_ROOT, &outer, labels, 2), &inner, labels, 1);
}

static void test_outermost_first(void **state)
{
    char room[100];
    (void)state;
    assert_string_equal(context_path(intern_deep(), room, sizeof room), "outer{a=1,b=-2};inner{a=1}");
    assert_string_equal(context_path(CONTEXT_ID_ROOT, room, sizeof room), contexts[CONTEXT_ID_ROOT].site->name);
}

static void test_what_does_not_fit_is_cut_off_outside(void **state)
{
    static const char whole[] = "outer{a=1,b=-2};inner{a=1}";
    char room[sizeof whole + 1];
    uint32_t id = intern_deep();
    (void)state;
    for (size_t bytes = 4; bytes <= sizeof whole; bytes++) {
        memset(room, 'x', sizeof room);
        const char *path = context_path(id, room, bytes);
        assert_ptr_equal(path + strlen(path) + 1, room + bytes);
        assert_int_equal(room[bytes], 'x');
        const char *shown = bytes < sizeof whole ? path + 3 : path;
        assert_string_equal(shown, whole + sizeof whole - 1 - strlen(shown));
        assert_true(bytes == sizeof whole || (path == room && !memcmp(path, "...", 3)));
    }
}

static void test_control_characters_are_not_printed(void **state)
{
    const struct jespan_label label = {"k\t", "v\r\xc3\xa4"};
    char room[100];
    (void)state;
    assert_string_equal(context_path(intern_with(CONTEXT_ID_ROOT, &rude, &label, 1), room, sizeof room), "?[2J??{k?=v?\xc3\xa4}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outermost_first),
        cmocka_unit_test(test_what_does_not_fit_is_cut_off_outside),
        cmocka_unit_test(test_control_characters_are_not_printed),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
