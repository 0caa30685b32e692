/* SPDX-License-Identifier: BSD-2-Clause */
/* The running service http, with a host that the test makes. Random requests, the same in each run, leave it
 * answering and leave no memory behind. It ends when it is asked to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../support/made_snapshot.h"
#include "report/service.h"

#define REQUESTS 20000
#define REQUEST_BYTES 70000

extern const struct service jespan_service_http;

/* ---- A host ---- */

static char directory[] = "/tmp/jespan-test.XXXXXX";
static struct conf set;
static struct http_stats stats;
static _Atomic uint64_t stop_by;
static atomic_int said, snapshots, taken; /* lines on stderr, snapshots that are not freed, and all snapshots */

static struct snapshot *take(struct snapshot *old)
{
    atomic_fetch_add(&taken, 1);
    if (old != NULL)
        return old;
    atomic_fetch_add(&snapshots, 1);
    return made_snapshot("small", 0);
}

static void free_snapshot(struct snapshot *s)
{
    if (s == NULL)
        return;
    atomic_fetch_sub(&snapshots, 1);
    made_snapshot_free(s);
}

static int no_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    (void)name;
    (void)old;
    (void)old_bytes;
    (void)new_value;
    (void)new_bytes;
    return ENOENT;
}

static void say(const char *const *parts)
{
    (void)parts;
    atomic_fetch_add(&said, 1);
}

static uint64_t stop_by_ns(const struct service_host *host)
{
    (void)host;
    return atomic_load(&stop_by);
}

static void nothing(void)
{
}

static void guard(bool begin)
{
    (void)begin;
}

static struct service_host host = {
    .conf = &set, .pid = 1, .program = "program", .http = &stats, .snapshot = take, .free_snapshot = free_snapshot, .mallctl = no_mallctl,
    .say = say,
    .stop_by_ns = stop_by_ns, .guard = guard, .end_before_others = nothing};
static pthread_t thread;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void *run(void *result)
{
    *(int *)result = jespan_service_http.run(&host);
    return NULL;
}

static int connected(void)
{
    for (int tries = 0; tries < 600000; tries++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){600, 0}, sizeof(struct timeval));
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        close(fd);
        poll(NULL, 0, 1);
    }
    fail_msg("nobody listens: %s", strerror(errno));
    return -1;
}

static int result;

static bool has_descriptors(const struct service_host *h)
{
    (void)h;
    return true;
}

static int start(void **state)
{
    (void)state;
    set = (struct conf){.http_max_series = 100};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
    snprintf(set.http_listen, sizeof set.http_listen, "unix:%s", address.sun_path);
    host.has_descriptors = has_descriptors;
    host.stop_fd = eventfd(0, EFD_NONBLOCK);
    atomic_store(&stop_by, 0);
    atomic_store(&said, 0);
    return pthread_create(&thread, NULL, run, &result);
}

static int stop(void **state)
{
    (void)state;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&stop_by, (uint64_t)(now.tv_sec + 10) * 1000000000u);
    eventfd_write(host.stop_fd, 1);
    pthread_join(thread, NULL);
    struct timespec then;
    clock_gettime(CLOCK_MONOTONIC, &then);
    close(host.stop_fd);
    return result != 0 || then.tv_sec - now.tv_sec > 2 || atomic_load(&snapshots) != 0 || atomic_load(&said) != 0
        || access(address.sun_path, F_OK) == 0;
}

/* ---- Requests ---- */

static uint64_t random_state = 20261122;

static unsigned below(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

struct request {
    char data[REQUEST_BYTES];
    size_t n;
};

static void put(struct request *r, const char *text)
{
    size_t n = strlen(text);
    if (n > sizeof r->data - r->n)
        n = sizeof r->data - r->n;
    memcpy(r->data + r->n, text, n);
    r->n += n;
}

static void put_random(struct request *r, unsigned most)
{
    for (unsigned n = below(most + 1); n > 0 && r->n < sizeof r->data; n--)
        r->data[r->n++] = (char)below(256);
}

#define ANY(...) any((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
static const char *any(const char *const *texts, size_t n)
{
    return texts[below((unsigned)n)];
}

static void put_path(struct request *r)
{
    put(r, ANY("/", "/spans", "/metrics", "/healthz", "/debug/pprof/heap", "/debug/pprof/allocs", "/debug/pprof/profile",
               "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/", "*", "", "//", "/../../etc/passwd",
               "/%2e%2e/%00", "/spans%", "http://localhost/spans", "/spans#x"));
    if (below(4) == 0)
        put_random(r, 20);
    if (below(2) == 0)
        put(r, ANY("?seconds=1", "?seconds=0", "?seconds=3600", "?seconds=x&seconds=1", "?limit=1", "?limit=0&format=json",
                   "?limit=-1", "?", "?&&&==", "?format", "?seconds", "?%", "?format=%00json", "?limit=999999999999999999999"));
}

static void put_header(struct request *r)
{
    put(r, ANY("Host: localhost", "Host: evil.example", "Host: [::1]:1", "Host:", "Accept: text/html", "Accept: */*",
               "Authorization: Bearer x", "Authorization: Basic", "Content-Length: 0", "Content-Length: 5",
               "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked",
               "Transfer-Encoding: chunked, gzip", "Expect: 100-continue", "Connection: keep-alive",
               "Connection: Upgrade\r\nUpgrade: h2c", ": no name", "no colon", " folded", "Cookie: a=b; c=\"", "Range: bytes=0-"));
    if (below(8) == 0)
        put_random(r, 40);
    if (below(200) == 0)
        for (int i = 0; i < 4000; i++)
            put(r, "0123456789");
    put(r, below(20) == 0 ? "\n" : "\r\n");
}

static void make_wild_request(struct request *r)
{
    if (below(20) == 0)
        put_random(r, 300);
    put(r, ANY("GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "CONNECT", "get", "", "\x16\x03\x01"));
    put(r, below(30) == 0 ? "  " : " ");
    put_path(r);
    put(r, ANY(" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n", "\r\n", " HTTP/9.9\r\n", " HTTP\r\n", "\n"));
    for (unsigned n = below(6); n > 0; n--)
        put_header(r);
    put(r, below(10) == 0 ? "" : "\r\n");
    if (below(4) == 0)
        put(r, ANY("5\r\nhello\r\n0\r\n\r\n", "hello", "ffffffffffffffffff\r\n",
                   "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

static void make_tame_request(struct request *r)
{
    put(r, ANY("GET ", "GET ", "HEAD "));
    put_path(r);
    put(r, " HTTP/1.1\r\nHost: localhost\r\n");
    if (below(3) == 0)
        put_header(r);
    put(r, "\r\n");
}

static void make_request(struct request *r)
{
    r->n = 0;
    if (below(2) == 0)
        make_tame_request(r);
    else
        make_wild_request(r);
}

/* A request that is answered only later, if it is valid. */
static bool may_wait(const struct request *r)
{
    static const char *const texts[] = {"pprof/profile", "seconds=1", "seconds=3600"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (memmem(r->data, r->n, texts[i], strlen(texts[i])) != NULL)
            return true;
    return false;
}

/* Sends the request, sometimes in pieces, and mostly waits for the end of the answer. */
static void send_request(const struct request *r)
{
    char answer[65536];
    int fd = connected();
    size_t part = below(4) == 0 && r->n > 0 ? below((unsigned)r->n) : r->n;
    send(fd, r->data, part, MSG_NOSIGNAL);
    if (part < r->n)
        send(fd, r->data + part, r->n - part, MSG_NOSIGNAL);
    unsigned how = below(10);
    if (how > 0)
        shutdown(fd, SHUT_WR);
    if (how > 1 && !may_wait(r)) {
        struct pollfd readable = {fd, POLLIN, 0};
        while (poll(&readable, 1, 600000) == 1 && recv(fd, answer, sizeof answer, 0) > 0)
            ;
    }
    close(fd);
}

/* Returns the whole answer to a request. */
static const char *ask(const char *request)
{
    static char answer[65536];
    size_t n = 0;
    ssize_t got;
    int fd = connected();
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    while ((got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = '\0';
    close(fd);
    return answer;
}

static void assert_answers(void)
{
    const char *answer = ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if (strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) != 0)
        fail_msg("no health: %s", answer);
}

static void test_random_requests(void **state)
{
    static struct request request;
    (void)state;
    for (int i = 0; i < REQUESTS; i++) {
        make_request(&request);
        send_request(&request);
        if (i % 1000 == 0)
            assert_answers();
    }
    assert_answers();
    assert_true(atomic_load(&stats.requests) > REQUESTS / 10);
    assert_true(atomic_load(&stats.errors) > REQUESTS / 10);
}

static const char wait_long[] = "GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char wait_a_second[] = "GET /debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Waits until the service has taken all earlier requests, since it takes them in turn. This request needs no place. */
static void settle(void)
{
    assert_answers();
    assert_answers();
}

static bool is_refused(const char *request)
{
    return strstr(ask(request), "503 Service Unavailable") != NULL;
}

/* Waiting callers take only a part of all places, and get an answer at the end. */
static void test_many_wait(void **state)
{
    int fds[8];
    (void)state;
    for (int i = 0; i < 8; i++) {
        fds[i] = connected();
        assert_int_equal(send(fds[i], wait_long, sizeof wait_long - 1, MSG_NOSIGNAL), sizeof wait_long - 1);
        settle();
    }
    assert_true(is_refused(wait_long));
    for (int i = 0; i < 4; i++)
        close(fds[i]); /* a caller that leaves frees its place */
    for (int i = 0; i < 600000 && is_refused(wait_a_second); i++)
        poll(NULL, 0, 1);
    assert_non_null(strstr(ask(wait_a_second), "200 OK"));
    assert_int_equal(stop(NULL), 0);
    for (int i = 4; i < 8; i++) {
        char answer[100] = "";
        assert_true(recv(fds[i], answer, sizeof answer - 1, 0) > 0);
        assert_non_null(strstr(answer, "503 Service Unavailable"));
        close(fds[i]);
    }
}

static int half_closed(const char *request)
{
    int fd = connected();
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    return fd;
}

/* Reads the head of the answer, and returns whether it has that status. */
static void assert_status(int fd, const char *status)
{
    char answer[100] = "";
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    if (n <= 0)
        fail_msg("no %s, but %zd, on %d: %s", status, n, fd, strerror(errno));
    if (strstr(answer, status) == NULL)
        fail_msg("not %s: %s", status, answer);
    close(fd);
}

/* A caller that has shut down its side waits for its answer as others do. If there are too many callers, a new caller
 * gets its place. */
static void test_half_closed_wait(void **state)
{
    int fds[8];
    (void)state;
    assert_status(half_closed(wait_a_second), "200 OK");
    for (int i = 0; i < 8; i++) {
        fds[i] = half_closed(wait_long);
        settle();
    }
    assert_non_null(strstr(ask(wait_a_second), "200 OK"));
    assert_status(fds[0], "503 Service Unavailable");
    assert_int_equal(stop(NULL), 0);
    for (int i = 1; i < 8; i++)
        assert_status(fds[i], "503 Service Unavailable");
}

/* Callers that begin at the same time share the snapshot to which the difference is computed. */
static void test_share_a_start(void **state)
{
    int fds[8];
    (void)state;
    int before = atomic_load(&taken);
    for (int i = 0; i < 8; i++) {
        fds[i] = connected();
        assert_int_equal(send(fds[i], wait_long, sizeof wait_long - 1, MSG_NOSIGNAL), sizeof wait_long - 1);
        settle();
    }
    assert_int_equal(atomic_load(&taken), before + 1); /* the snapshot is kept for 36 s */
    assert_int_equal(atomic_load(&snapshots), 1);
    assert_int_equal(stop(NULL), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
}

/* A head of 32 KiB gets an answer, whatever it contains. So does a query with too many arguments. */
static void test_large_heads(void **state)
{
    static struct request r;
    static const struct {
        const char *first, *repeated, *last, *status;
        size_t bytes;
    } cases[] = {
        {"GET /healthz?", "&a", "", "200 OK", 2010},
        {"GET /healthz?", "&", "", "200 OK", 1010},
        {"GET /healthz?", "&0123456789abcdef0123456789abcde", "", "200 OK", 32000},
        {"GET /healthz?x=", "0123456789", "", "200 OK", 32768},
        {"GET /healthz?", "", "Cookie: ", "200 OK", 32768},
        {"GET /healthz?", "&a", "", "414 URI Too Long", 3000},
        {"GET /healthz?", "&", "", "414 URI Too Long", 32768},
        {"GET /healthz?", "&a=b", "", "414 URI Too Long", 32768},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char end[] = " HTTP/1.1\r\nHost: localhost\r\n";
        r.n = 0;
        put(&r, cases[i].first);
        while (cases[i].repeated[0] != '\0' && r.n + strlen(cases[i].repeated) + sizeof end + 2 <= cases[i].bytes)
            put(&r, cases[i].repeated);
        put(&r, end);
        put(&r, cases[i].last);
        while (cases[i].last[0] != '\0' && r.n + 4 < cases[i].bytes)
            put(&r, "x");
        put(&r, cases[i].last[0] != '\0' ? "\r\n\r\n" : "\r\n");
        r.data[r.n] = '\0';
        const char *answer = ask(r.data);
        if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strncmp(answer + 9, cases[i].status, strlen(cases[i].status)) != 0)
            fail_msg("case %zu, %zu bytes: %.100s", i, r.n, answer);
    }
}

/* A caller that sends nothing loses its place to others. */
static void test_silent_callers(void **state)
{
    int fds[80];
    (void)state;
    for (int i = 0; i < 80; i++)
        fds[i] = connected();
    assert_answers();
    for (int i = 0; i < 80; i++)
        close(fds[i]);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_requests, start, stop),
        cmocka_unit_test_setup(test_many_wait, start),
        cmocka_unit_test_setup(test_half_closed_wait, start),
        cmocka_unit_test_setup(test_share_a_start, start),
        cmocka_unit_test_setup_teardown(test_large_heads, start, stop),
        cmocka_unit_test_setup_teardown(test_silent_callers, start, stop),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
