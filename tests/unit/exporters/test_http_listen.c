/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses of the service http: valid values of http_listen, and paths and ports that are in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exporters/http_listen.h"

static char directory[] = "/tmp/jespan-test.XXXXXX";

/* Returns "ADDRESS PORT" as the service understood it. */
static const char *read_back(const char *text)
{
    static char shown[200];
    char host[INET6_ADDRSTRLEN];
    struct http_address a;
    if (http_address_parse(&a, text) != NULL)
        return "wrong";
    if (a.socket.any.sa_family == AF_UNIX) {
        snprintf(shown, sizeof shown, "unix %s", a.socket.un.sun_path);
        return shown;
    }
    bool six = a.socket.any.sa_family == AF_INET6;
    inet_ntop(a.socket.any.sa_family, six ? (void *)&a.socket.in6.sin6_addr : (void *)&a.socket.in.sin_addr, host,
              sizeof host);
    snprintf(shown, sizeof shown, "%s %d%s", host, ntohs(six ? a.socket.in6.sin6_port : a.socket.in.sin_port),
             http_address_is_local(&a) ? "" : " open");
    return shown;
}

static void test_addresses(void **state)
{
    (void)state;
    assert_string_equal(read_back("127.0.0.1:6061"), "127.0.0.1 6061");
    assert_string_equal(read_back(":6061"), "127.0.0.1 6061");
    assert_string_equal(read_back("localhost:0"), "127.0.0.1 0");
    assert_string_equal(read_back("[::1]:65535"), "::1 65535");
    assert_string_equal(read_back("0.0.0.0:1"), "0.0.0.0 1 open");
    assert_string_equal(read_back("[::]:1"), ":: 1 open");
    assert_string_equal(read_back("192.0.2.1:80"), "192.0.2.1 80 open");
    assert_string_equal(read_back("127.9.9.9:80"), "127.9.9.9 80");
    assert_string_equal(read_back("unix:/run/a:b"), "unix /run/a:b");
}

static void test_wrong_addresses(void **state)
{
    static const char *const wrong[] = {
        "", ":", "6061", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1",
        "127.0.0.1:1x", "127.0.0.1:99999999999999999999", "::1:80", "[::1]", "[::1:80", "[]:80", "[:80", "]:80",
        "[127.0.0.1]:80", "example.org:80", "256.0.0.1:80", "127.1:80", "*:80", "http://127.0.0.1:80", "unix:",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80"};
    char path[200] = "unix:";
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (strcmp(read_back(wrong[i]), "wrong") != 0)
            fail_msg("\"%s\" is taken for %s", wrong[i], read_back(wrong[i]));
    memset(path + 5, 'p', 108);
    assert_string_equal(read_back(path), "wrong");
    path[5 + 107] = '\0';
    assert_string_not_equal(read_back(path), "wrong");
}

static struct http_address address_of(const char *text)
{
    struct http_address a;
    assert_null(http_address_parse(&a, text));
    return a;
}

static struct http_address in_directory(const char *name)
{
    char text[100];
    snprintf(text, sizeof text, "unix:%s/%s", directory, name);
    return address_of(text);
}

static bool can_connect(const struct http_address *a)
{
    int fd = socket(a->socket.any.sa_family, SOCK_STREAM, 0);
    bool connected = connect(fd, &a->socket.any, a->bytes) == 0;
    close(fd);
    return connected;
}

static void test_port(void **state)
{
    struct http_listener first, second;
    struct http_address any = address_of("127.0.0.1:0");
    (void)state;
    assert_null(http_listen_open(&first, &any));
    assert_int_not_equal(http_listen_port(&first), 0);
    assert_true(can_connect(&first.address));
    assert_int_equal(fcntl(first.fd, F_GETFD), FD_CLOEXEC);
    assert_string_equal(http_listen_open(&second, &first.address), "the address is in use");
    assert_int_equal(second.fd, -1);
    assert_true(can_connect(&first.address));
    struct http_address was = first.address;
    http_listen_close(&first);
    assert_false(can_connect(&was));
    assert_null(http_listen_open(&second, &was)); /* at once again, although a caller was connected */
    http_listen_close(&second);
}

static void test_accept(void **state)
{
    struct http_listener l;
    struct http_address any = address_of("127.0.0.1:0");
    struct sockaddr_storage peer;
    socklen_t bytes;
    (void)state;
    assert_null(http_listen_open(&l, &any));
    assert_int_equal(http_listen_accept(&l, &peer, &bytes), -1);
    assert_true(can_connect(&l.address));
    int fd = http_listen_accept(&l, &peer, &bytes);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    http_listen_close(&l);
}

static void test_path_is_the_owners(void **state)
{
    struct http_listener l;
    struct http_address a = in_directory("socket");
    struct stat at;
    (void)state;
    mode_t mask = umask(0);
    assert_null(http_listen_open(&l, &a));
    umask(mask);
    assert_int_equal(stat(a.socket.un.sun_path, &at), 0);
    assert_int_equal(at.st_mode & 0777, 0600);
    assert_true(can_connect(&a));
    http_listen_close(&l);
    assert_int_equal(stat(a.socket.un.sun_path, &at), -1);
}

static void test_stale_path_is_replaced(void **state)
{
    struct http_listener l;
    struct http_address a = in_directory("stale");
    (void)state;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &a.socket.any, a.bytes), 0);
    close(fd);
    assert_null(http_listen_open(&l, &a));
    assert_true(can_connect(&a));
    http_listen_close(&l);
}

/* Begins when the last descriptor of `begin` is closed, and listens until the last of `end` is. */
static _Noreturn void contend(const struct http_address *a, int begin, int ready, int end)
{
    struct http_listener l;
    char byte;
    ssize_t n = read(begin, &byte, 1);
    bool opened = http_listen_open(&l, a) == NULL;
    close(ready);
    n += read(end, &byte, 1);
    if (opened)
        http_listen_close(&l);
    _exit(n == 0 ? opened : 100);
}

#define CONTENDERS 6

static int winners_of_a_stale_path(const struct http_address *a)
{
    int begin[2], end[2], winners = 0, status, ready[2];
    pid_t pids[CONTENDERS];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &a->socket.any, a->bytes), 0);
    close(fd);
    assert_true(pipe(begin) == 0 && pipe(end) == 0 && pipe(ready) == 0);
    for (int i = 0; i < CONTENDERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(begin[1]);
            close(end[1]);
            close(ready[0]);
            contend(a, begin[0], ready[1], end[0]);
        }
    }
    close(begin[0]);
    close(end[0]);
    close(ready[1]);
    close(begin[1]); /* all at once */
    for (char byte; read(ready[0], &byte, 1) == 1;)
        ;
    close(ready[0]);
    assert_true(can_connect(a));
    close(end[1]);
    for (int i = 0; i < CONTENDERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        winners += WEXITSTATUS(status);
    }
    return winners;
}

/* If several processes find a stale path at the same time, one of them gets it and keeps it. */
static void test_one_of_many_gets_a_stale_path(void **state)
{
    struct http_address a = in_directory("contended");
    (void)state;
    for (int round = 0; round < 100; round++)
        assert_int_equal(winners_of_a_stale_path(&a), 1);
}

/* A program changes its directory. Its socket is removed at the end all the same. */
static void test_relative_path(void **state)
{
    struct http_listener l;
    struct http_address a = address_of("unix:relative");
    struct stat at;
    char before[4096];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    assert_null(http_listen_open(&l, &a));
    assert_int_equal(chdir("/"), 0);
    http_listen_close(&l);
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(lstat("relative", &at), -1);
    assert_int_equal(chdir(before), 0);
}

static void test_path_in_use_stays(void **state)
{
    struct http_listener first, second;
    struct http_address a = in_directory("used");
    (void)state;
    assert_null(http_listen_open(&first, &a));
    assert_string_equal(http_listen_open(&second, &a), "the address is in use");
    assert_true(can_connect(&a));
    http_listen_close(&first);
}

static void test_other_files_stay(void **state)
{
    struct http_listener l;
    struct http_address file = in_directory("file"), link = in_directory("link"), none = in_directory("no/such");
    struct stat at;
    (void)state;
    close(open(file.socket.un.sun_path, O_WRONLY | O_CREAT, 0644));
    assert_string_equal(http_listen_open(&l, &file), "the file at the path is not a socket");
    assert_int_equal(stat(file.socket.un.sun_path, &at), 0);
    assert_int_equal(symlink("target", link.socket.un.sun_path), 0);
    assert_string_equal(http_listen_open(&l, &link), "the file at the path is not a socket");
    assert_int_equal(lstat(link.socket.un.sun_path, &at), 0);
    assert_string_equal(http_listen_open(&l, &none), "there is no such directory");
    unlink(file.socket.un.sun_path);
    unlink(link.socket.un.sun_path);
}

/* Another program has put its own socket there meanwhile. */
static void test_only_own_path_is_removed(void **state)
{
    struct http_listener l;
    struct http_address a = in_directory("replaced");
    struct stat at;
    (void)state;
    assert_null(http_listen_open(&l, &a));
    char kept[sizeof a.socket.un.sun_path + 5];
    snprintf(kept, sizeof kept, "%s.kept", a.socket.un.sun_path);
    assert_int_equal(rename(a.socket.un.sun_path, kept), 0); /* keeps the inode from being used again */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &a.socket.any, a.bytes), 0);
    http_listen_close(&l);
    assert_int_equal(lstat(a.socket.un.sun_path, &at), 0);
    close(fd);
    unlink(a.socket.un.sun_path);
    unlink(kept);
}

/* The child has no listening descriptor of its parent. The parent goes on. */
static void test_fork(void **state)
{
    struct http_listener l;
    struct http_address a = in_directory("forked");
    int status = -1;
    (void)state;
    assert_null(http_listen_open(&l, &a));
    pid_t pid = fork();
    if (pid == 0) {
        bool closed = fcntl(l.fd, F_GETFD) == -1;
        http_listen_close(&l); /* the child must not remove the parent's path either */
        _exit(closed && access(a.socket.un.sun_path, F_OK) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(can_connect(&a));
    http_listen_close(&l);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

/* It is empty by now. */
static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_wrong_addresses),
        cmocka_unit_test(test_port),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_path_is_the_owners),
        cmocka_unit_test(test_stale_path_is_replaced),
        cmocka_unit_test(test_one_of_many_gets_a_stale_path),
        cmocka_unit_test(test_relative_path),
        cmocka_unit_test(test_path_in_use_stays),
        cmocka_unit_test(test_other_files_stay),
        cmocka_unit_test(test_only_own_path_is_removed),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
