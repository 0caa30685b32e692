/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps into what is no file: pipes, devices, links, sockets; and into what another user may write. */
#include "../../support/dump_parts.h"

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
    static const struct timespec no_time;
    if (ms == 0)
        return (int)syscall(SYS_ppoll, fds, n, &no_time, NULL, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        DUMP_TEST(test_into_a_fifo),
        DUMP_TEST(test_into_a_fifo_that_nobody_empties),
        DUMP_TEST(test_into_a_device),
        DUMP_TEST(test_into_a_link),
        DUMP_TEST(test_into_a_socket),
        DUMP_TEST(test_as_another_user),
    };
    return cmocka_run_group_tests(tests, boot, end);
}
