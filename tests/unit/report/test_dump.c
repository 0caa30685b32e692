/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps with an exporter of the test. It looks at the directory while it writes, and fails when told to. A file is
 * whole or absent at any moment, and a failure leaves nothing behind. Dumps of real programs are in
 * tests/integration/dump.sh. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "jespan/jespan.h"
#include "report/dump.h"
#include "report/module.h"
#include "span/tree.h"

#define TEXT "0123456789"
static char directory[] = "/tmp/jespan-test-dump.XXXXXX", path[200], temporary[500], seen_old[64];
static int encode_error;
static bool has_module, mode_is_private, temporary_was_there;
static jespan_context_t encoded_in;
static uint32_t encoded_rows;
static uint64_t encoded_epoch[EXPORTER_N_PROFILES]; /* the snapshot that each profile was last made of */
static enum exporter_profile failing_profile;       /* the profile that encode_error is for */

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

/* Finds the file that is being written. Its name goes to `temporary`. */
static bool find_temporary(struct stat *status)
{
    char beginning[40];
    bool found = false;
    DIR *all = opendir(directory);
    snprintf(beginning, sizeof beginning, "heap.%d.", (int)getpid());
    for (struct dirent *entry; (entry = readdir(all));) {
        size_t n = strlen(entry->d_name);
        if (n > 4 && strcmp(entry->d_name + n - 4, ".tmp") == 0 && !found) {
            snprintf(temporary, sizeof temporary, "%s/%s", directory, entry->d_name);
            found = strncmp(entry->d_name, beginning, strlen(beginning)) == 0 && stat(temporary, status) == 0;
        }
    }
    closedir(all);
    return found;
}

static int encode(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    struct stat status;
    encoded_rows = snapshot->n_rows;
    encoded_epoch[profile] = snapshot->epoch;
    for (int i = 0; i < 10; i++)
        if (sink->write(sink, &TEXT[i], 1))
            return -EIO;
    temporary_was_there = find_temporary(&status);
    mode_is_private = temporary_was_there && (status.st_mode & 0777) == 0600;
    strcpy(seen_old, contents(path));
    encoded_in = jespan_current();
    errno = EDOM;
    return profile == failing_profile ? encode_error : 0;
}

static int (*encode_now)(const struct snapshot *, enum exporter_profile, struct exporter_sink *);

static int encode_so(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    return encode_now(snapshot, profile, sink);
}

/* Replaces the function that opens shared objects. */
const struct exporter *module_find(const char *name)
{
    static const struct exporter exporters[] = {{EXPORTER_ABI, "pprof", ".pb.gz", encode_so},
                                                {EXPORTER_ABI, "another", ".another.gz", encode_so}};
    for (size_t i = 0; i < sizeof exporters / sizeof exporters[0]; i++)
        if (has_module && strcmp(name, exporters[i].name) == 0)
            return &exporters[i];
    return NULL;
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
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    encode_error = 0;
    encode_now = encode;
    failing_profile = EXPORTER_HEAP;
    conf.dump_dir_files = conf.dump_dir_bytes = 0;
    conf.dump_time = false;
    conf.dump_keep = 0;
    has_module = true;
    strcpy(conf.dump_dir, directory);
    strcpy(conf.dump_format, "pprof");
    dump_after_fork(); /* numbers and counts start again */
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

/* The path of a file in the directory; %P is this process's number. */
static const char *in_directory(const char *name)
{
    static char text[300];
    const char *pid = strstr(name, "%P");
    if (pid)
        snprintf(text, sizeof text, "%s/%.*s%d%s", directory, (int)(pid - name), name, (int)getpid(), pid + 2);
    else
        snprintf(text, sizeof text, "%s/%s", directory, name);
    return text;
}

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

/* ---- What is no file ---- */

static void in_reader(int fd, const char *expected)
{
    char text[64];
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    assert_string_equal(text, expected);
}

static bool is_still(const char *of, mode_t kind)
{
    struct stat status;
    return fstatat(AT_FDCWD, of, &status, AT_SYMLINK_NOFOLLOW) == 0 && (status.st_mode & S_IFMT) == kind;
}

/* So that nobody waits here: a wait for a reader ends at once, and the clock has gone on by so much. A mere look, as messages
 * on stderr take, is a real one. */
static uint64_t waited_ms;

int poll(struct pollfd *fds, nfds_t n, int ms)
{
    if (ms == 0)
        return (int)syscall(SYS_poll, fds, n, ms);
    waited_ms += (uint64_t)ms;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int error = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC)
        time->tv_sec += (time_t)(waited_ms / 1000);
    return error;
}

static int encode_text(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    (void)snapshot;
    (void)profile;
    return sink->write(sink, TEXT, strlen(TEXT));
}

static void test_into_a_fifo(void **state)
{
    (void)state;
    encode_now = encode_text;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENXIO); /* nobody reads, and nobody waits */
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
    in_reader(reader, TEXT);
    assert_int_equal(files(), 1); /* also no temporary file */
    close(reader);
    assert_true(is_still(path, S_IFIFO));
    assert_int_equal(dump_lost_count(), 1);
}

static int close_reader = -1; /* what a reader that is gone had */

static int encode_for_nobody(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    static const char much[1 << 16];
    (void)snapshot;
    (void)profile;
    if (close_reader >= 0)
        close(close_reader);
    int error = 0;
    for (int i = 0; i < 40 && !error; i++)
        error = sink->write(sink, much, sizeof much);
    return error;
}

/* A reader that is gone, or stays and reads nothing: neither ends nor stops the program. */
static void test_into_a_fifo_that_nobody_empties(void **state)
{
    (void)state;
    encode_now = encode_for_nobody;
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    waited_ms = 0;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ETIMEDOUT);
    assert_in_range(waited_ms, 9000, 61000);
    close_reader = reader;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -EPIPE); /* no SIGPIPE */
    close_reader = -1;
}

/* As root, devices of the test's own: without what is tested here, the machine's would be gone. */
static const char *device(const char *name, unsigned minor)
{
    static char text[300];
    snprintf(text, sizeof text, "/dev/%s", name);
    if (geteuid() != 0)
        return text;
    strcpy(text, in_directory(name));
    if (mknod(text, S_IFCHR | 0600, makedev(1, minor)) && errno != EEXIST)
        return NULL;
    int fd = open(text, O_WRONLY | O_CLOEXEC); /* which a file system may forbid */
    close(fd);
    return fd < 0 ? NULL : text;
}

static const char *null_device(void)
{
    return device("null", 3);
}

static void test_into_a_device(void **state)
{
    (void)state;
    if (!null_device())
        skip();
    encode_now = encode_text;
    assert_int_equal(dump_to_path(EXPORTER_HEAP, null_device()), 0);
    assert_true(is_still(null_device(), S_IFCHR));
    assert_int_equal(dump_to_path(EXPORTER_HEAP, device("full", 7)), -ENOSPC);
    assert_true(is_still(device("full", 7), S_IFCHR));
}

static void test_into_a_link(void **state)
{
    (void)state;
    assert_int_equal(symlink("target", path), 0);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -ENOENT); /* it leads nowhere */
    write_file(in_directory("target"), "old");
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
    assert_true(is_still(path, S_IFLNK));
    assert_string_equal(contents(in_directory("target")), TEXT);
    assert_int_equal(files(), 2);
    unlink(path);
    if (null_device()) {
        assert_int_equal(symlink(null_device(), path), 0);
        assert_int_equal(dump_to_path(EXPORTER_HEAP, path), 0);
        assert_true(is_still(path, S_IFLNK) && is_still(null_device(), S_IFCHR));
        unlink(path);
    }
    assert_int_equal(symlink(directory, path), 0);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -EISDIR);
    assert_true(is_still(path, S_IFLNK));
}

static void test_into_a_socket(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)state;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(dump_to_path(EXPORTER_HEAP, path), -EOPNOTSUPP);
    assert_true(is_still(path, S_IFSOCK));
    close(fd);
}

/* The same as nobody in particular: what root may do, others may not. */
static void test_as_another_user(void **state)
{
    int status = -1;
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(directory, 01777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char own[300];
        if (setgid(65534) || setuid(65534))
            _exit(9);
        strcpy(own, in_directory("own"));
        _exit(dump_to_path(EXPORTER_HEAP, "/dev/null") != 0 ? 1
              : dump_to_path(EXPORTER_HEAP, own) != 0       ? 2
              : dump_to_path(EXPORTER_HEAP, own) != 0       ? 3
              : dump_to_path(EXPORTER_HEAP, "/etc/passwd") != -EACCES ? 4 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(directory, 0700), 0);
}

/* ---- A bound for the whole directory ---- */

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

#define DUMP_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DUMP_TEST(test_absent_until_it_is_whole),      DUMP_TEST(test_replaces_at_the_end),
        DUMP_TEST(test_a_failed_dump_changes_nothing), DUMP_TEST(test_paths_that_are_no_good),
        DUMP_TEST(test_numbers_and_how_many_are_kept), DUMP_TEST(test_a_failure_takes_no_number),
        DUMP_TEST(test_time_comes_with_the_heap),      DUMP_TEST(test_half_a_dump),
        DUMP_TEST(test_a_name_that_is_taken),          DUMP_TEST(test_an_earlier_life),
        DUMP_TEST(test_two_lives_begin_at_once),       DUMP_TEST(test_temporary_files_of_the_dead),
        DUMP_TEST(test_no_file_system_replaces),       DUMP_TEST(test_into_a_fifo),
        DUMP_TEST(test_into_a_fifo_that_nobody_empties), DUMP_TEST(test_into_a_device),
        DUMP_TEST(test_into_a_link),                   DUMP_TEST(test_into_a_socket),
        DUMP_TEST(test_as_another_user),               DUMP_TEST(test_files_in_all),
        DUMP_TEST(test_bytes_in_all),                  DUMP_TEST(test_many_files),
        DUMP_TEST(test_names_of_another_format),       DUMP_TEST(test_files_of_all_formats),
    };
    return cmocka_run_group_tests(tests, boot, end);
}
