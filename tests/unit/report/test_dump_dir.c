/* SPDX-License-Identifier: BSD-2-Clause */
/* Which dumps stay in a directory that has bounds, and how dumps of other formats are called. */
#include "../../support/dump_parts.h"

static void write_old(const char *name, int seconds, int bytes)
{
    const struct timespec at[2] = {{.tv_sec = 1000000000 + seconds}, {.tv_sec = 1000000000 + seconds}};
    FILE *file = fopen(in_directory(name), "w");
    assert_non_null(file);
    fprintf(file, "%*s", bytes, "");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utimensat(AT_FDCWD, in_directory(name), at, 0), 0);
}

static bool is_there(const char *name)
{
    return access(in_directory(name), F_OK) == 0;
}

static void test_files_in_all(void **state)
{
    (void)state;
    write_old("heap.7.1.pb.gz", 1, 10);
    write_old("heap.9.5.oom.pb.gz", 2, 10);
    write_old("time.8.1.pb.gz", 3, 10); /* with the next one */
    write_old("heap.8.1.pb.gz", 5, 10);
    write_old("heap.8.1795383775123.1.pb.gz", 4, 10);
    write_old("heap.8.1.pb.gz.bak", 0, 10); /* none of ours */
    write_old("heap.08.1.pb.gz", 0, 10);
    write_old("heap.8.1.odd.pb.gz", 0, 10);
    write_old("heap.0.1.pb.gz", 0, 10);
    write_old("Heap.8.1.pb.gz", 0, 10);
    assert_int_equal(mkdir(in_directory("heap.6.1.pb.gz"), 0700), 0);
    assert_int_equal(symlink("/dev/null", in_directory("heap.6.2.pb.gz")), 0);
    conf.dump_dir_files = 6;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 13);
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 13);
    assert_false(is_there("heap.7.1.pb.gz"));
    assert_int_equal(dump_at_once(DUMP_OOM), 0);
    assert_false(is_there("heap.9.5.oom.pb.gz"));
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 12);
    assert_false(is_there("time.8.1.pb.gz") || is_there("heap.8.1.pb.gz"));
    assert_true(is_there("heap.8.1795383775123.1.pb.gz"));
    conf.dump_dir_files = 1; /* the newest stays, whatever the bound */
    conf.dump_time = true;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 7 + 2);
    assert_string_equal(numbered_of("heap", 5), TEXT);
    assert_string_equal(numbered_of("time", 5), TEXT);
    assert_int_equal(rmdir(in_directory("heap.6.1.pb.gz")), 0);
}

static void test_bytes_in_all(void **state)
{
    (void)state;
    write_old("heap.7.1.pb.gz", 1, 100);
    write_old("heap.7.2.pb.gz", 2, 100);
    write_old("heap.7.3.pb.gz", 3, 100);
    conf.dump_dir_bytes = 209;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_false(is_there("heap.7.1.pb.gz") || is_there("heap.7.2.pb.gz"));
    assert_true(is_there("heap.7.3.pb.gz"));
    conf.dump_dir_bytes = 1;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 1);
    assert_string_equal(numbered(2), TEXT);
}

/* More than are found in one pass. */
static void test_many_files(void **state)
{
    char name[60];
    (void)state;
    for (int i = 1; i <= 1000; i++) {
        snprintf(name, sizeof name, "heap.7.%d.pb.gz", i);
        write_old(name, i, 1);
    }
    conf.dump_dir_files = 3;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 3);
    assert_true(is_there("heap.7.999.pb.gz") && is_there("heap.7.1000.pb.gz"));
}

/* ---- Formats ---- */

/* The name ends as the exporter says. A number that a dump of any format has is taken. */
static void test_names_of_another_format(void **state)
{
    (void)state;
    strcpy(conf.dump_format, "another");
    conf.dump_time = true;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(contents(in_directory("heap.%P.1.another.gz")), TEXT);
    assert_string_equal(contents(in_directory("time.%P.1.another.gz")), TEXT);
    write_file(in_directory("heap.%P.2.folded"), "another's");
    write_file(in_directory("time.%P.3.pb.gz"), "another's");
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_string_equal(contents(in_directory("heap.%P.4.another.gz")), TEXT);
    conf.dump_keep = 1;
    assert_int_equal(dump_at_once(DUMP_OOM), 0);
    assert_string_equal(contents(in_directory("heap.%P.5.oom.another.gz")), TEXT);
    assert_string_equal(contents(in_directory("heap.%P.2.folded")), "another's");
    assert_string_equal(contents(in_directory("time.%P.3.pb.gz")), "another's");
    assert_int_equal(files(), 4);
}

/* Dumps of other processes count whatever their format, and what another tool has made of a dump does not. */
static void test_files_of_all_formats(void **state)
{
    (void)state;
    strcpy(conf.dump_format, "another");
    write_old("heap.7.1.pb.gz", 1, 10);
    write_old("heap.7.1.folded", 2, 10); /* no file of the same dump */
    write_old("time.8.2.oom.folded", 3, 10);
    write_old("heap.8.2.oom.folded", 3, 10);
    write_old("heap.9.3.another.gz", 4, 10);
    write_old("heap.9.3.svg", 0, 10);
    write_old("heap.9.3.another", 0, 10);
    write_old("heap.9.3.folded.svg", 0, 10);
    write_old("heap.9.3.", 0, 10);
    write_old("heap.9.3", 0, 10);
    write_old("heap.9.3.another.gz.1.0badcafe.tmp", 0, 10); /* stale */
    conf.dump_dir_files = 5;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_false(is_there("heap.7.1.pb.gz") || is_there("heap.9.3.another.gz.1.0badcafe.tmp"));
    assert_int_equal(files(), 5 + 5);
    conf.dump_dir_files = 4;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_false(is_there("heap.7.1.folded"));
    assert_false(is_there("heap.8.2.oom.folded") || is_there("time.8.2.oom.folded"));
    assert_true(is_there("heap.9.3.another.gz"));
    conf.dump_dir_files = 1;
    assert_int_equal(dump_next(DUMP_N_REASONS), 0);
    assert_int_equal(files(), 5 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DUMP_TEST(test_files_in_all),
        DUMP_TEST(test_bytes_in_all),
        DUMP_TEST(test_many_files),
        DUMP_TEST(test_names_of_another_format),
        DUMP_TEST(test_files_of_all_formats),
    };
    return cmocka_run_group_tests(tests, boot, end);
}
