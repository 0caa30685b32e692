/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps in a directory. A file is whole or absent at any moment, and a failure leaves nothing behind. Dumps of real programs are in
 * tests/integration/dump.sh. */
#include "../../support/dump_parts.h"

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
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
    assert_string_equal(seen_old, "the old one, which is longer");
    assert_string_equal(contents(path), TEXT);
    assert_int_equal(files(), 1);
}

/* The old file stays, and no temporary file is left. */
static void test_a_failed_dump_changes_nothing(void **state)
{
    (void)state;
    write_file(path, "old");
    encode_error = -ENOSPC;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENOSPC);
    has_module = false;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENOPKG);
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

static void test_numbers_and_how_many_are_kept(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        conf.dump_keep = n > 2 ? 2 : 0; /* 0 keeps all */
        assert_int_equal(dump_next(DUMP_N_REASONS), 0);
        assert_string_equal(numbered(n), TEXT);
        assert_int_equal(files(), n == 1 ? 1 : 2);
    }
    assert_string_equal(numbered(3), "absent");
    assert_string_equal(numbered(4), TEXT);
    clean_up(NULL); /* a child has another number */
    dump_after_fork();
    assert_int_equal(dump_count(), 0);
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(numbered(1), TEXT);
}

/* A heap dump and the times of the same moment: numbered and kept as one. */
static void test_time_comes_with_the_heap(void **state)
{
    (void)state;
    conf.dump_keep = 2;
    conf.dump_time = true;
    for (int n = 1; n <= 4; n++) {
        assert_int_equal(dump_next(DUMP_N_REASONS), 0);
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

/* Calls dump_next() with stderr in a file. Returns the number of lines written. */
static int said_by_dump_next(int expected)
{
    char text[2000];
    int lines = 0, saved = dup(STDERR_FILENO);
    FILE *to = tmpfile();
    assert_true(to && dup2(fileno(to), STDERR_FILENO) >= 0);
    int error = dump_next(DUMP_N_REASONS);
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

/* Where only one of the two can be written, it keeps its number, and the next dump has the next one. */
static void test_half_a_dump(void **state)
{
    (void)state;
    conf.dump_keep = 2;
    conf.dump_time = true;
    encode_error = -EIO;
    failing_profile = EXPORTER_TIME;
    assert_int_equal(said_by_dump_next(-EIO), 1);
    assert_string_equal(numbered_of("heap", 1), TEXT);
    assert_string_equal(numbered_of("time", 1), "absent");
    encode_error = 0;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(numbered_of("time", 2), TEXT);
    assert_int_equal(files(), 3);
    assert_int_equal(dump_lost_count(), 1);
    assert_int_equal(dump_next(DUMP_N_REASONS), 0); /* what was written is removed as whole ones are */
    assert_string_equal(numbered_of("heap", 1), "absent");
    assert_int_equal(files(), 4);
}

/* ---- Others' files ---- */

/* A dump whose name is taken, by anything, leaves that in place and gets the next number. */
static void test_a_name_that_is_taken(void **state)
{
    (void)state;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(mkdir(in_directory("heap.%P.2.pb.gz"), 0700), 0);
    write_file(in_directory("heap.%P.3.oom.pb.gz"), "another's");
    write_file(in_directory("time.%P.4.pb.gz"), "another's");
    assert_int_equal(symlink("nowhere", in_directory("heap.%P.5.peak.pb.gz")), 0);
    assert_int_equal(said_by_dump_next(0), 0);
    assert_string_equal(numbered(6), TEXT);
    assert_int_equal(dump_at_once(DUMP_OOM), 0);
    assert_string_equal(contents(in_directory("heap.%P.7.oom.pb.gz")), TEXT);
    conf.dump_keep = 1; /* removes what is its own, and nothing that lies between */
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(numbered(1), "absent");
    assert_string_equal(numbered(6), "absent");
    assert_string_equal(contents(in_directory("heap.%P.7.oom.pb.gz")), "absent");
    assert_string_equal(numbered(8), TEXT);
    assert_string_equal(contents(in_directory("heap.%P.3.oom.pb.gz")), "another's");
    assert_string_equal(contents(in_directory("time.%P.4.pb.gz")), "another's");
    assert_int_equal(files(), 5);
    assert_int_equal(dump_lost_count(), 0);
    assert_int_equal(rmdir(in_directory("heap.%P.2.pb.gz")), 0);
}

/* A process with this number has been there, as in a container that is started again. */
static void test_an_earlier_life(void **state)
{
    static const char *const left[] = {"heap.%P.1.pb.gz", "heap.%P.7.oom.pb.gz", "heap.%P.99999999999999.2.pb.gz"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        write_file(in_directory(left[i]), "of an earlier life");
        dump_after_fork();
        conf.dump_keep = 1;
        for (int n = 0; n < 2; n++) {
            assert_int_equal(dump_next(DUMP_N_REASONS), 0);
            assert_int_equal(files(), 2 + 2 * i);
        }
        assert_string_equal(contents(in_directory(left[i])), "of an earlier life");
        assert_int_equal(dump_at_once(DUMP_OOM), 0);
        assert_int_equal(files(), 2 + 2 * i);
        assert_string_equal(contents(in_directory(left[i])), "of an earlier life");
    }
    assert_string_equal(contents(in_directory("heap.%P.100000000000000.3.oom.pb.gz")), TEXT); /* in order of time */
}

/* Another one with this number comes meanwhile, before the first dump here. */
static void test_two_lives_begin_at_once(void **state)
{
    (void)state;
    dump_rehearse();
    write_file(in_directory("heap.%P.1.pb.gz"), "another's");
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(numbered(1), "another's");
    assert_string_equal(numbered(2), "absent");
    assert_int_equal(files(), 2);
}

/* Temporary files that a killed process of this number left are removed, unless a process may still write them. */
static void test_temporary_files_of_the_dead(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    static const char *const names[] = {"heap.%P.1.pb.gz.%P.0badcafe.tmp", "heap.%P.1.pb.gz.1.0badcafe.tmp",
                                        "heap.%P.1.pb.gz.1.badcafe.tmp", "heap.1.1.pb.gz.1.0badcafe.tmp"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        write_file(in_directory(names[i]), "half");
        if (i != 0)
            assert_int_equal(utimensat(AT_FDCWD, in_directory(names[i]), old, 0), 0);
    }
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(contents(in_directory(names[1])), "absent");
    assert_string_equal(contents(in_directory(names[2])), "half"); /* no name of ours */
    assert_string_equal(contents(in_directory(names[3])), "half"); /* of another process */
    assert_string_equal(numbered(1), TEXT);
    assert_int_equal(files(), 4);
}

/* ---- File systems that know less ---- */

static int renames_unsupported, links_unsupported;

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags)
{
    if (!renames_unsupported)
        return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
    errno = EINVAL;
    return -1;
}

int link(const char *from, const char *to)
{
    if (!links_unsupported)
        return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = EPERM;
    return -1;
}

/* Somebody takes the name after it was found free. */
static bool take_name;

int lstat(const char *of, struct stat *status)
{
    bool is_last = strstr(of, "/time.") && strstr(of, ".2.pb.gz");
    int error = fstatat(AT_FDCWD, of, status, AT_SYMLINK_NOFOLLOW);
    if (take_name && is_last) {
        take_name = false;
        write_file(in_directory("heap.%P.2.pb.gz"), "another's");
    }
    return error;
}

static void test_no_file_system_replaces(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        renames_unsupported = kind > 0;
        links_unsupported = kind > 1;
        dump_after_fork();
        assert_int_equal(dump_next(DUMP_N_REASONS), 0);
        take_name = true;
        assert_int_equal(said_by_dump_next(0), 0);
        assert_false(take_name);
        assert_string_equal(numbered(1), TEXT);
        assert_string_equal(numbered(2), "another's");
        assert_string_equal(numbered(3), TEXT);
        assert_int_equal(files(), 3);
        assert_int_equal(dump_lost_count(), 0);
        clean_up(NULL);
    }
    renames_unsupported = links_unsupported = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DUMP_TEST(test_absent_until_it_is_whole),
        DUMP_TEST(test_replaces_at_the_end),
        DUMP_TEST(test_a_failed_dump_changes_nothing),
        DUMP_TEST(test_paths_that_are_no_good),
        DUMP_TEST(test_numbers_and_how_many_are_kept),
        DUMP_TEST(test_a_failure_takes_no_number),
        DUMP_TEST(test_time_comes_with_the_heap),
        DUMP_TEST(test_half_a_dump),
        DUMP_TEST(test_a_name_that_is_taken),
        DUMP_TEST(test_an_earlier_life),
        DUMP_TEST(test_two_lives_begin_at_once),
        DUMP_TEST(test_temporary_files_of_the_dead),
        DUMP_TEST(test_no_file_system_replaces),
    };
    return cmocka_run_group_tests(tests, boot, end);
}
