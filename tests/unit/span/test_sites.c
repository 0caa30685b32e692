/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites in jespan's memory: there is one copy of each, cut to its limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/lock.h"
#include "base/meta.h"
#include "span/sites.h"

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

static void test_long_strings_are_cut_and_counted(void **state)
{
    char text[1000] = "";
    struct jespan_site site = {text, text, text, 1};
    (void)state;
    memset(text, 'x', sizeof text - 1);
    uint64_t before = sites_truncated();
    const struct site *kept = site_intern(&site);
    assert_int_equal(sites_truncated() - before, 3);
    assert_int_equal(strlen(kept->name), JESPAN_MAX_STRING_BYTES);
    assert_int_equal(strlen(kept->target), JESPAN_MAX_STRING_BYTES);
    assert_int_equal(strlen(kept->file), JESPAN_MAX_STRING_BYTES);
    assert_ptr_equal(site_intern(&site), kept);
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
        cmocka_unit_test(test_a_site_is_kept_once),
        cmocka_unit_test(test_long_strings_are_cut_and_counted),
    };
    return cmocka_run_group_tests(tests, take_lock, NULL);
}
