/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's table of names of calls: who asks does not wait, each call is asked for once, once more if the process is
 * killed, and memory is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sidecar/call_names.c"

/* ---- In place of the process that reads files ---- */

enum { N_NAMES = 2, LONG = 200 };
#define BUILD_ID "0123456789abcdef"
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* closed: it does not answer */
static _Atomic uint32_t n_asked;
static _Atomic bool has_long_names, was_unsorted, were_others /* other build ids */;
static const char *killer; /* a file at which the process is killed so many times */
static _Atomic uint32_t n_kills;

static void answer(uint32_t i, const char *path, uint64_t offset,
                   void (*take_one)(void *data, uint32_t i, const struct service_function *functions, uint32_t n_functions), void *data)
{
    char name[CALL_NAMES_TEXT_BYTES];
    struct service_function functions[CALL_NAMES_FUNCTIONS];
    snprintf(name, sizeof name, "%s+%d", path, (int)offset);
    if (has_long_names)
        memset(name, 'x', LONG);
    for (uint32_t k = 0; k < CALL_NAMES_FUNCTIONS; k++)
        functions[k] = (struct service_function){name, "file.c", k + 1, SERVICE_OTHER};
    take_one(data, i, functions, has_long_names ? CALL_NAMES_FUNCTIONS : N_NAMES);
}

/* Odd offsets have no names. */
bool call_names_ask(const struct call_names_call *asked, uint32_t n,
                    void (*take_one)(void *data, uint32_t i, const struct service_function *functions, uint32_t n_functions), void *data)
{
    bool lives = true;
    pthread_mutex_lock(&gate);
    for (uint32_t i = 0; i < n && lives; i++) {
        n_asked++;
        if (n_kills > 0 && strcmp(asked[i].path, killer) == 0) {
            n_kills--;
            lives = false;
            break;
        }
        was_unsorted |= i > 0 && asked[i].path == asked[i - 1].path && asked[i].offset <= asked[i - 1].offset;
        were_others |= strcmp(asked[i].build_id, BUILD_ID) != 0;
        if (asked[i].offset % 2 == 0)
            answer(i, asked[i].path, asked[i].offset, take_one, data);
    }
    pthread_mutex_unlock(&gate);
    return lives;
}

/* ---- What services ask ---- */

static struct service_call calls[MOST_CALLS + 100];

static void make(const char *path, uint64_t identity, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        calls[i] = (struct service_call){.path = path, .build_id = BUILD_ID, .identity = identity, .offset = first + i};
}

static size_t find(size_t n)
{
    size_t missing = call_names_find(calls, n);
    call_names_end();
    return missing;
}

/* Asks until nothing is looked for. Returns how many questions there were meanwhile. Each question for all calls holds the mutex for
 * some ms under a sanitizer, so the pauses are longer. */
static uint32_t await(size_t n)
{
    uint32_t before = n_asked;
    while (find(n) > 0)
        usleep(20000);
    assert_false(was_unsorted);
    assert_false(were_others);
    return n_asked - before;
}

static void test_nobody_waits(void **state)
{
    (void)state;
    make("/a", 1, 10, 3);
    calls[3] = (struct service_call){.offset = 7};
    pthread_mutex_lock(&gate);
    assert_int_equal(find(4), 3);
    assert_int_equal(find(4), 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(calls[i].n_functions, 0);
    pthread_mutex_unlock(&gate);
    await(4);
    assert_int_equal(n_asked, 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(calls[i].n_functions, i == 0 || i == 2 ? N_NAMES : 0);
    assert_string_equal(calls[0].functions[0].name, "/a+10");
    assert_string_equal(calls[2].functions[1].name, "/a+12");
    assert_string_equal(calls[2].functions[1].file, "file.c");
    assert_int_equal(calls[2].functions[1].line, 2);
    assert_int_equal(calls[2].functions[1].role, SERVICE_OTHER);
}

static void test_once(void **state)
{
    (void)state;
    make("/once", 1, 0, 1000);
    assert_int_equal(await(1000), 1000);
    assert_int_equal(await(1000), 0);
    make("/once", 2, 0, 10); /* the file was replaced */
    assert_int_equal(await(10), 10);
    make("/twice", 1, 0, 10);
    assert_int_equal(await(10), 10);
    assert_string_equal(calls[4].functions[0].name, "/twice+4");
}

static void test_full(void **state)
{
    (void)state;
    make("/many", 1, 0, MOST_CALLS);
    assert_int_equal(await(MOST_CALLS), MOST_CALLS);
    assert_int_equal(await(MOST_CALLS), 0);
    assert_int_equal(call_names_find(calls, 1), 0); /* as another thread, which uses its name */
    const char *name = calls[0].functions[0].name;
    make("/others", 1, 0, 1000);
    assert_int_equal(await(1000), 0);
    assert_int_equal(calls[0].n_functions, 0);
    assert_int_equal(names.n_calls, MOST_CALLS);
    assert_string_equal(name, "/many+0");
    call_names_end();
    assert_int_equal(await(1000), 1000); /* the others are forgotten */
    assert_int_equal(names.n_calls, 1000);
    make("/too many", 1, 0, MOST_CALLS + 100); /* the last ones stay without names */
    assert_int_equal(await(MOST_CALLS + 100), MOST_CALLS);
    assert_int_equal(await(MOST_CALLS + 100), 0);
    assert_int_equal(calls[MOST_CALLS - 2].n_functions, N_NAMES);
    assert_int_equal(calls[MOST_CALLS + 2].n_functions, 0);
    assert_int_equal(names.n_calls, MOST_CALLS);
}

static void test_long_names(void **state)
{
    (void)state;
    size_t n_named = 0;
    has_long_names = true;
    make("/long", 1, 0, 20000);
    await(20000);
    assert_in_range(names.bytes, MOST_TEXT_BYTES / 2, MOST_TEXT_BYTES);
    for (size_t i = 0; i < 20000; i++)
        n_named += calls[i].n_functions > 0;
    assert_in_range(n_named, 100, 9999);
    has_long_names = false;
    make("/short", 1, 0, 100);
    await(100);
    assert_int_equal(calls[0].n_functions, N_NAMES);
    assert_in_range(names.bytes, 1, 100000);
}

static void test_binaries(void **state)
{
    static char paths[MOST_BINARIES + 10][16];
    (void)state;
    for (uint32_t i = 0; i < MOST_BINARIES + 10; i++) {
        snprintf(paths[i], sizeof paths[i], "/b/%u", i);
        calls[i] = (struct service_call){.path = paths[i], .build_id = BUILD_ID, .identity = i / 8, .offset = 2};
    }
    await(MOST_BINARIES + 10);
    assert_int_equal(names.n_binaries, MOST_BINARIES);
    assert_int_equal(calls[0].n_functions, N_NAMES);
    assert_int_equal(calls[MOST_BINARIES + 9].n_functions, 0);
    for (uint32_t i = 0; i < 10; i++) /* the others are forgotten, and nine of these are new */
        calls[i] = (struct service_call){.path = paths[MOST_BINARIES + i], .build_id = BUILD_ID, .identity = 9, .offset = 2};
    calls[9] = (struct service_call){.path = paths[7], .build_id = BUILD_ID, .identity = 7 / 8, .offset = 2};
    assert_int_equal(await(10), 9);
    assert_int_equal(names.n_binaries, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(calls[i].n_functions, N_NAMES);
}

/* The table becomes full in the middle of a request. */
static void test_full_later(void **state)
{
    static char paths[MOST_BINARIES][16];
    (void)state;
    for (uint32_t i = 0; i < MOST_BINARIES; i++)
        snprintf(paths[i], sizeof paths[i], "/l/%u", i);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MOST_BINARIES / 2 + 10; i++)
            calls[i] = (struct service_call){.path = paths[i], .build_id = BUILD_ID, .identity = 8 * i + round, .offset = 2};
        assert_int_equal(await(MOST_BINARIES / 2 + 10), MOST_BINARIES / 2 + 10);
        assert_int_equal(calls[MOST_BINARIES / 2 + 9].n_functions, N_NAMES);
    }
}

/* Asks for two calls of each of three files. The process is killed so many times at the second one. */
static void make_killed(uint64_t identity, uint32_t times)
{
    static const char *const paths[] = {"/k/1", "/k/2", "/k/3"};
    killer = paths[1];
    n_kills = times;
    for (uint32_t i = 0; i < 6; i++)
        calls[i] = (struct service_call){.path = paths[i / 2], .build_id = BUILD_ID, .identity = identity, .offset = 2 * (i % 2)};
    await(6);
}

static void test_killed(void **state)
{
    (void)state;
    make_killed(1, 1);
    for (int i = 0; i < 6; i++)
        assert_int_equal(calls[i].n_functions, N_NAMES);
    assert_string_equal(calls[3].functions[0].name, "/k/2+2");
    make_killed(2, 1000); /* it is given up, and costs no names of the others */
    assert_int_equal(1000 - n_kills, 2);
    for (int i = 0; i < 6; i++)
        assert_int_equal(calls[i].n_functions, i / 2 == 1 ? 0 : N_NAMES);
    assert_int_equal(await(6), 0);
    n_kills = 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits), cmocka_unit_test(test_once),     cmocka_unit_test(test_full),
        cmocka_unit_test(test_long_names),   cmocka_unit_test(test_killed),
        cmocka_unit_test(test_binaries),     cmocka_unit_test(test_full_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
