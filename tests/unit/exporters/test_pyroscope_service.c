/* SPDX-License-Identifier: BSD-2-Clause */
/* The whole service, with a host that the test makes and a server that misbehaves (tests/support/fault_server.py),
 * so that sanitizers see it. tests/integration/pyroscope_faults.sh tests it in a program. */
#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "report/service.h"

SERVICE_DEFINE(pyroscope);

#define ROWS 40u

/* ---- The server ---- */

static char directory[] = "/tmp/jespan-test-pyroscope.XXXXXX";
static pid_t server;
static int server_port, control_port;

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void ports_file(char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/ports", directory);
}

static bool read_ports(void)
{
    char path[PATH_MAX];
    ports_file(path);
    FILE *file = fopen(path, "r");
    bool there = file != NULL && fscanf(file, "%d %d", &server_port, &control_port) == 2;
    if (file != NULL)
        fclose(file);
    return there;
}

static bool start_server(void)
{
    char script[PATH_MAX], path[PATH_MAX];
    const char *top = getenv("top_srcdir");
    snprintf(script, sizeof script, "%s/tests/support/fault_server.py", top != NULL ? top : ".");
    ports_file(path);
    char *argv[] = {"python3", "-B", script, path, "--seconds", "3600", NULL};
    if (posix_spawnp(&server, "python3", NULL, NULL, argv, environ) != 0)
        return false;
    for (int i = 0; i < 600000 && !read_ports(); i++)
        sleep_ms(10);
    return server_port != 0;
}

static int start(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL && start_server() ? 0 : -1;
}

static int stop(void **state)
{
    char path[PATH_MAX];
    (void)state;
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
    }
    ports_file(path);
    unlink(path);
    return rmdir(directory);
}

/* Returns the server's answer to a command, without its head. It is valid until the next call. */
static const char *ask(const char *path)
{
    static char text[1 << 20];
    size_t n = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)control_port)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    dprintf(fd, "GET %s HTTP/1.0\r\n\r\n", path);
    for (ssize_t got; n < sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    assert_memory_equal(text + strcspn(text, " "), " 200", 4);
    const char *body = strstr(text, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static void behave(const char *mode)
{
    char path[256];
    snprintf(path, sizeof path, "/control?mode=%s", mode);
    ask(path);
}

/* ---- The host ---- */

static struct conf configured;
static struct push_stats stats;
static struct http_stats unused;
static _Atomic uint64_t end_ns;
static _Atomic unsigned said;
static struct totals sums; /* the figures of the program */

struct made {
    struct snapshot snapshot;
    struct snapshot_row rows[ROWS];
};

/* Each snapshot has some more figures. Some have labels that no other snapshot has. */
static struct snapshot *make_snapshot(struct snapshot *old)
{
    static struct snapshot_label ids[ROWS];
    static char values[ROWS][17];
    struct made *m = old != NULL ? (struct made *)old : calloc(1, sizeof *m);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->snapshot.epoch++;
    m->snapshot.time_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (m->snapshot.start_unix_ns == 0)
        m->snapshot.start_unix_ns = m->snapshot.time_unix_ns;
    m->snapshot.n_rows = ROWS;
    m->snapshot.rows = m->rows;
    for (uint32_t i = 0; i < ROWS; i++) {
        snprintf(values[i], sizeof values[i], "%016x", i);
        ids[i] = (struct snapshot_label){"span_id", values[i], 0, false};
        struct snapshot_row *row = &m->rows[i];
        *row = (struct snapshot_row){.id = i + 1, .kind = i > 0 ? CONTEXT_SPAN : CONTEXT_ROOT, .name = "span", .target = "",
                                     .file = "test.c", .labels = &ids[i], .n_labels = i % 2, .totals = row->totals};
        const struct totals more = {.alloc_objects = 1, .alloc_bytes = 10 * i + 1, .free_objects = 1,
                                    .free_bytes = 10 * i + 1, .wall = 1000, .cpu = i};
        totals_add(&row->totals, &more);
        totals_add(&sums, &more);
    }
    return &m->snapshot;
}

static void free_snapshot(struct snapshot *s)
{
    free(s);
}

static void say(const char *const *parts)
{
    (void)parts;
    atomic_fetch_add(&said, 1);
}

static uint64_t stop_by_ns(const struct service_host *host)
{
    (void)host;
    return load_acquire(&end_ns);
}

static void guard(bool begin)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if ((begin ? pthread_mutex_lock(&mutex) : pthread_mutex_unlock(&mutex)) != 0)
        abort();
}

static void nothing(void)
{
}

static struct service_host host = {.conf = &configured, .pid = 17, .program = "program", .pyroscope = &stats, .http = &unused,
                                   .snapshot = make_snapshot,
                                   .free_snapshot = free_snapshot, .say = say, .stop_by_ns = stop_by_ns, .guard = guard,
                                   .end_before_others = nothing};

/* ---- The service ---- */

static pthread_t thread;

static void *run(void *result)
{
    *(int *)result = jespan_service_pyroscope.run(&host);
    return NULL;
}

static bool has_descriptors(const struct service_host *h)
{
    (void)h;
    return true;
}

static void begin(int *result, enum pyroscope_api api, uint64_t timeout_ms)
{
    pthread_attr_t attributes;
    memset(&stats, 0, sizeof stats);
    sums = (struct totals){0};
    said = 0;
    end_ns = 0;
    configured = (struct conf){
        .track_time = TRACK_TIME_CPU, .pyroscope_app = "test", .pyroscope_api = api, .pyroscope_interval_ms = 20,
        .pyroscope_connect_timeout_ms = 200, .pyroscope_timeout_ms = timeout_ms, .pyroscope_queue_bytes = 100000,
        .pyroscope_queue_age_s = 3000, .pyroscope_max_samples = 16000, .pyroscope_max_bytes = 4 << 20,
        .pyroscope_token = "secret", .pyroscope_exit_timeout_ms = 30000};
    snprintf(configured.pyroscope_url, sizeof configured.pyroscope_url, "http://127.0.0.1:%d", server_port);
    host.has_descriptors = has_descriptors;
    host.stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    assert_int_equal(pthread_create(&thread, &attributes, run, result), 0);
    pthread_attr_destroy(&attributes);
}

static void end(uint64_t within_ms)
{
    store_release(&end_ns, clock_ns(CLOCK_MONOTONIC) + within_ms * 1000000u);
    eventfd_write(host.stop_fd, 1);
    pthread_join(thread, NULL);
    close(host.stop_fd);
}

static void wait_for(const _Atomic uint64_t *figure, uint64_t more)
{
    uint64_t until = load_relaxed(figure) + more;
    for (int i = 0; i < 600000 && load_relaxed(figure) < until; i++)
        sleep_ms(1);
    assert_true(load_relaxed(figure) >= until);
}

/* Returns the sum of a type over all samples that the server has. */
static uint64_t accepted(const char *type)
{
    uint64_t sum = 0;
    char word[32];
    snprintf(word, sizeof word, "} %s ", type);
    for (const char *at = ask("/sums"); (at = strstr(at, word)) != NULL; at += strlen(word))
        sum += strtoull(at + strlen(word), NULL, 10);
    return sum;
}

/* ---- Tests ---- */

static void check_faults(const char *const *modes, size_t n, enum pyroscope_api api)
{
    int result = -1;
    behave("ok");
    uint64_t objects = accepted("alloc_objects"), bytes = accepted("alloc_space"), wall = accepted("wall"), cpu = accepted("cpu");
    begin(&result, api, 1000); /* what the server takes after that is sent again */
    for (size_t i = 0; i < n; i++) {
        behave(modes[i]);
        wait_for(&stats.failures, 2);
        behave("ok");
        wait_for(&stats.pushes, 1);
        assert_null(load_acquire(&stats.last_error));
    }
    end(10000);
    assert_int_equal(result, 0);
    assert_int_equal(stats.queue_length, 0);
    assert_in_range(said, 1, 2 * n);
    assert_string_equal(ask("/wrong"), "");
    assert_int_equal(accepted("alloc_objects") - objects, sums.alloc_objects);
    assert_int_equal(accepted("alloc_space") - bytes, sums.alloc_bytes);
    assert_int_equal(accepted("wall") - wall, sums.wall);
    assert_int_equal(accepted("cpu") - cpu, sums.cpu);
}

static void test_faults(void **state)
{
    static const char *const modes[] = {
        "refuse", "hang", "hang_after&stored=1", "reset", "reset_in_body", "reset_after&stored=1", "status&status=400",
        "status&status=413", "status&status=500&stored=1", "slow_reading", "slow_answer", "endless_head", "garbage",
        "redirect&location=http://localhost:1/", "redirect&location=/", "portal"};
    (void)state;
    check_faults(modes, sizeof modes / sizeof modes[0], PYROSCOPE_PUSH);
}

static void test_faults_of_ingest(void **state)
{
    static const char *const modes[] = {"refuse", "hang", "reset_in_body", "status&status=422", "status&status=503", "garbage"};
    (void)state;
    check_faults(modes, sizeof modes / sizeof modes[0], PYROSCOPE_INGEST);
}

static void test_answers(void **state)
{
    static const char *const modes[] = {"endless", "garbage_body", "broken_gzip", "bomb", "http10", "close"};
    int result = -1;
    (void)state;
    begin(&result, PYROSCOPE_PUSH, 5000);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        behave(modes[i]);
        wait_for(&stats.pushes, 3);
    }
    behave("ok");
    end(10000);
    assert_int_equal(result, 0);
    assert_int_equal(stats.queue_length, 0);
}

/* The service ends in time, whatever it is doing. It does not wait for the time-out of 600 s. */
static void test_end(void **state)
{
    static const char *const modes[] = {"hang", "slow_reading", "slow_answer", "refuse", "status&status=429&retry_after=9"};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        int result = -1;
        behave(modes[i]);
        begin(&result, PYROSCOPE_PUSH, 600000);
        sleep_ms(60);
        end(300);
        assert_int_equal(result, 0);
        assert_true(stats.queue_length > 0);
    }
    behave("ok");
}

int main(void)
{
    if (system("python3 -c '' 2> /dev/null") != 0)
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults), cmocka_unit_test(test_faults_of_ingest),
                                       cmocka_unit_test(test_answers), cmocka_unit_test(test_end)};
    return cmocka_run_group_tests(tests, start, stop);
}
