/* SPDX-License-Identifier: BSD-2-Clause */
/* What counts as a constant of the program. Does not run in a program that is not position independent. */
#include "base/constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct named {
    const char *name;
};

static const struct named relocated = {"name"}; /* has an address in it, which the dynamic linker writes */
static struct named variable = {"name"};

static void test_constants_of_the_program(void **state)
{
    (void)state;
    assert_true(constants_have_text("text"));
    assert_true(constants_have_text(""));
    assert_true(constants_have(&relocated, sizeof relocated));
    assert_true(constants_have_text(relocated.name));
}

static void test_what_may_change(void **state)
{
    char array[] = "text", *copy = strdup("text");
    (void)state;
    assert_false(constants_have_text(array));
    assert_false(constants_have_text(copy));
    assert_false(constants_have(&variable, sizeof variable));
    assert_false(constants_have_text(NULL));
    free(copy);
}

/* A library may be unloaded. */
static void test_constants_of_libraries(void **state)
{
    (void)state;
    assert_false(constants_have_text(strerror(2)));
}

static void test_constants_have_an_end(void **state)
{
    (void)state;
    assert_false(constants_have(&relocated, (size_t)1 << 40));
    assert_false(constants_have(&relocated, SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants_of_the_program),
        cmocka_unit_test(test_what_may_change),
        cmocka_unit_test(test_constants_of_libraries),
        cmocka_unit_test(test_constants_have_an_end),
    };
    constants_boot();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
