/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps with an exporter of our own, which looks around while it writes and fails when told: a file is whole or absent
 * at any moment, and what went wrong leaves nothing behind. Dumps of real programs are in tests/integration/dump.sh. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf.h"
#include "dump.h"
#include "jespan/jespan.h"
#include "module.h"
#include "tree.h"

#define TEXT "0123456789"
static char directory[] = "/tmp/jespan-test-dump.XXXXXX", path[200], temporary[240], seen_old[64];
static int encode_error;
static bool has_module, mode_is_private, temporary_was_there;
static jespan_context_t encoded_in;
static uint32_t encoded_rows;
static uint64_t encoded_epoch[EXPORTER_N_PROFILES]; /* which snapshot each profile was last made of */
static enum exporter_profile failing_profile;       /* the one that encode_error is for */

/* The contents of a file; "absent" when there is none. */
static const char *contents(const char *of)
{
    static char text[64];
    int fd = open(of, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (n < 0)
        return "absent";
    text[n] = '\0';
    return text;
}

static int encode(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    struct stat status;
    encoded_rows = snapshot->n_rows;
    encoded_epoch[profile] = snapshot->epoch;
    for (int i = 0; i < 10; i++)
        if (sink->write(sink, &TEXT[i], 1))
            return -EIO;
    temporary_was_there = stat(temporary, &status) == 0;
    mode_is_private = temporary_was_there && (status.st_mode & 0777) == 0600;
    strcpy(seen_old, contents(path));
    encoded_in = jespan_current();
    errno = EDOM;
    return profile == failing_profile ? encode_error : 0;
}

/* In place of the one that opens shared objects. */
const struct exporter *module_find(const char *name)
{
    static const struct exporter exporter = {EXPORTER_ABI, "pprof", ".pb.gz", encode};
    return has_module && strcmp(name, "pprof") == 0 ? &exporter : NULL;
}

static int files(void)
{
    int n = 0;
    DIR *all = opendir(directory);
    for (struct dirent *entry; (entry = readdir(all));)
        n += entry->d_name[0] != '.';
    closedir(all);
    return n;
}

static void write_file(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static int boot(void **state)
{
    (void)state;
    (void)jespan_current();
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/heap", directory);
    snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    encode_error = 0;
    failing_profile = EXPORTER_HEAP;
    conf.dump_time = false;
    has_module = true;
    strcpy(conf.dump_dir, directory);
    dump_after_fork(); /* numbers and counts from the start */
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    DIR *all = opendir(directory);
    for (struct dirent *entry; (entry = readdir(all));)
        unlinkat(dirfd(all), entry->d_name, 0);
    closedir(all);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return rmdir(directory);
}

static void test_absent_until_it_is_whole(void **state)
{
    jespan_context_t before = jespan_current();
    (void)state;
    errno = 12345;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
    assert_int_equal(errno, 12345);
    assert_true(temporary_was_there && mode_is_private);
    assert_string_equal(seen_old, "absent");
    assert_string_equal(contents(path), TEXT);
    assert_int_equal(files(), 1);
    assert_true(encoded_rows > 1);
    assert_int_equal(encoded_in, CONTEXT_ID_SELF);
    assert_int_equal(jespan_current(), before);
    assert_int_equal(dump_count(), 1);
    assert_int_equal(dump_lost_count(), 0);
}

static void test_replaces_at_the_end(void **state)
{
    (void)state;
    write_file(path, "the old one, which is longer");
    write_file(temporary, "of a process with our number that was killed");
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
    assert_string_equal(seen_old, "the old one, which is longer");
    assert_string_equal(contents(path), TEXT);
    assert_int_equal(files(), 1);
}

/* What was there stays, and nothing is left behind. */
static void test_a_failed_dump_changes_nothing(void **state)
{
    (void)state;
    write_file(path, "old");
    encode_error = -ENOSPC;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENOSPC);
    has_module = false;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENOENT);
    assert_string_equal(contents(path), "old");
    assert_int_equal(files(), 1);
    assert_int_equal(dump_count(), 0);
    assert_int_equal(dump_lost_count(), 2);
}

static void test_paths_that_are_no_good(void **state)
{
    char text[5000];
    (void)state;
    snprintf(text, sizeof text, "%s/missing/heap", directory);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, text), -ENOENT);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -EISDIR);
    assert_int_equal(rmdir(path), 0);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(dump_to_path(EXPORTER_HEAP, text), -ENAMETOOLONG);
    assert_int_equal(dump_lost_count(), 3);
    assert_int_equal(files(), 0);
}

static const char *numbered_of(const char *profile, int n)
{
    static char text[240];
    snprintf(text, sizeof text, "%s/%s.%d.%d.pb.gz", directory, profile, (int)getpid(), n);
    return contents(text);
}

static const char *numbered(int n)
{
    return numbered_of("heap", n);
}

static void test_numbers_and_how_many_are_kept(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        conf.dump_keep = n > 2 ? 2 : 0; /* 0: all */
        assert_int_equal(dump_next(), 0);
        assert_string_equal(numbered(n), TEXT);
        assert_int_equal(files(), n == 1 ? 1 : 2);
    }
    assert_string_equal(numbered(3), "absent");
    assert_string_equal(numbered(4), TEXT);
    dump_after_fork();
    assert_int_equal(dump_count(), 0);
    assert_int_equal(dump_next(), 0);
    assert_string_equal(numbered(1), TEXT);
}

/* A heap dump and the times of the same moment: numbered and kept as one. */
static void test_time_comes_with_the_heap(void **state)
{
    (void)state;
    conf.dump_keep = 2;
    conf.dump_time = true;
    for (int n = 1; n <= 4; n++) {
        assert_int_equal(dump_next(), 0);
        assert_string_equal(numbered_of("heap", n), TEXT);
        assert_string_equal(numbered_of("time", n), TEXT);
        assert_int_equal(encoded_epoch[EXPORTER_TIME], encoded_epoch[EXPORTER_HEAP]);
        assert_int_equal(files(), n == 1 ? 2 : 4);
    }
    assert_string_equal(numbered_of("time", 2), "absent");
    assert_int_equal(dump_count(), 8);
    conf.dump_keep = 0;
    assert_int_equal(dump_to_path(EXPORTER_TIME, path), 0);
    assert_true(encoded_epoch[EXPORTER_TIME] > encoded_epoch[EXPORTER_HEAP]);
}

/* dump_next() with stderr in a file. Returns the lines it said. */
static int said_by_dump_next(int expected)
{
    char text[2000];
    int lines = 0, saved = dup(STDERR_FILENO);
    FILE *to = tmpfile();
    assert_true(to && dup2(fileno(to), STDERR_FILENO) >= 0);
    int error = dump_next();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    assert_int_equal(error, expected);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    return lines;
}

/* A number is taken by a dump that is there; a row of failures is said once. */
static void test_a_failure_takes_no_number(void **state)
{
    (void)state;
    for (int row = 0; row < 2; row++) {
        encode_error = -EIO;
        assert_int_equal(said_by_dump_next(-EIO), 1);
        assert_int_equal(said_by_dump_next(-EIO), 0);
        assert_int_equal(files(), row);
        encode_error = 0;
        assert_int_equal(said_by_dump_next(0), 0);
        assert_string_equal(numbered(row + 1), TEXT);
    }
    assert_int_equal(dump_count(), 2);
    assert_int_equal(dump_lost_count(), 4);
}

/* Where only one of the two can be written, the number stays free for both. */
static void test_half_a_dump_takes_no_number(void **state)
{
    (void)state;
    conf.dump_time = true;
    encode_error = -EIO;
    failing_profile = EXPORTER_TIME;
    assert_int_equal(said_by_dump_next(-EIO), 1);
    assert_string_equal(numbered_of("heap", 1), TEXT);
    assert_string_equal(numbered_of("time", 1), "absent");
    encode_error = 0;
    assert_int_equal(dump_next(), 0);
    assert_string_equal(numbered_of("time", 1), TEXT);
    assert_int_equal(files(), 2);
    assert_int_equal(dump_lost_count(), 1);
}

#define DUMP_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DUMP_TEST(test_absent_until_it_is_whole),      DUMP_TEST(test_replaces_at_the_end),
        DUMP_TEST(test_a_failed_dump_changes_nothing), DUMP_TEST(test_paths_that_are_no_good),
        DUMP_TEST(test_numbers_and_how_many_are_kept), DUMP_TEST(test_a_failure_takes_no_number),
        DUMP_TEST(test_time_comes_with_the_heap),      DUMP_TEST(test_half_a_dump_takes_no_number),
    };
    return cmocka_run_group_tests(tests, boot, end);
}
