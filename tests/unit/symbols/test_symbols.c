/* SPDX-License-Identifier: BSD-2-Clause */
/* The child that reads a binary has an alarm, whatever the caller does with that signal: a file system may not answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "symbols/symbols.c"

/* ---- In place of the code that reads the binary ---- */

/* Has the alarm at once. A child without an alarm ends well. */
static void be_late(void)
{
    unsigned left = alarm(0);
    if (left == 0 || left > MAX_DOWNLOAD_S)
        _exit(0);
    raise(SIGALRM);
}

/* It sends that it was started. A damaged file crashes it while it reads DWARF. */
void symbols_child_run(const struct symbols_wanted *wanted, bool with_dwarf, int fd)
{
    struct symbols_record record = {0, with_dwarf, 0};
    if (write(fd, &record, sizeof record) != sizeof record)
        _exit(1);
    if (strcmp(wanted->path, "/late") == 0)
        be_late();
    if (with_dwarf)
        raise(SIGKILL);
    _exit(0);
}

/* ---- What callers are told ---- */

static int count(void *n_started, const struct symbols_found *found)
{
    (void)found;
    ++*(int *)n_started;
    return 0;
}

static void check(const char *path, int n_expected, const char *expected)
{
    char reason[SYMBOLS_REASON_BYTES];
    int n_started = 0;
    const uint64_t offset = 1;
    const char *said = symbols_find(&(struct symbols_wanted){path, "", &offset, 1}, count, &n_started, reason);
    assert_non_null(said);
    assert_string_equal(said, expected);
    assert_int_equal(n_started, n_expected);
}

/* It is not started once more: that would take as long. */
static void test_late(void **state)
{
    sigset_t alarms;
    (void)state;
    check("/late", 1, "/late takes too long to read");
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarms, NULL);
    signal(SIGALRM, SIG_IGN);
    check("/late", 1, "/late takes too long to read");
}

static void test_crash(void **state)
{
    (void)state;
    check("/damaged", 2, "/damaged is damaged: the libraries that read it crash on it; only its symbol table was read");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
