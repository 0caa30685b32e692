/* SPDX-License-Identifier: BSD-2-Clause */
/* For scripts that push to a server: allocates in spans at a steady rate, and does what its arguments say.
 *
 *   run N          N units of work, one each millisecond
 *   distinct N     N spans as fast as they go, each with a span_id that there was not before
 *   control QUERY  asks the control of the test's server, whose port is in FAULT_CONTROL, for /control?QUERY
 *   wait NAME N    until spans.stats.SERVICE.NAME is N or more, for 600 s at most
 *   meet           until an attempt has ended that was begun after this
 *   settle         until the server has accepted a push that was begun after this, and nothing waits
 *   exec PROG      runs a program in a child
 *   fork N         forks a child that does N units in a span of its own, and exits; waits for it
 *   files          takes all files that it may open, from now on; the second time, gives them back
 *   figures        prints of each span LEAF{LABEL=VALUE,…} TYPE FIGURE, as the server's /sums
 *   stats          prints spans.stats.SERVICE.*, and the most that was seen of what is bounded
 *   end            prints the time in microseconds since 1970
 *   status N       what it will exit with
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"
#include "../support/spans.h"

#define HELD 64

static void *held[HELD];
static uint64_t units, most_queue_bytes, most_own_bytes;
static int exit_status;

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(3);
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* FAULT_SERVICE is the service that pushes. */
static void stat_name(char *full, size_t bytes, const char *name)
{
    const char *service = getenv("FAULT_SERVICE");
    snprintf(full, bytes, "spans.stats.%s.%s", service ? service : "pyroscope", name);
}

static uint64_t stat_of(const char *name)
{
    char full[64];
    stat_name(full, sizeof full, name);
    return ctl_u64(full);
}

/* ---- Work ---- */

/* A request of one of four tenants, of a parser and of a cache that keeps the newest of what it got. */
static void one_unit(void)
{
    static const char *const tenants[] = {"red", "green", "blue", "a \"quoted\" ümläut"};
    char number[24], span_id[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)units % 50);
    snprintf(span_id, sizeof span_id, "%016llx", (unsigned long long)units % 8 + 1);
    JESPAN("fault_request", "tenant", tenants[units % MEMBERS(tenants)], "number", number);
    free(opaque_pointer(malloc(100 + units % 1000)));
    {
        JESPAN("fault_parse", "span_id", span_id);
        free(opaque_pointer(malloc(5000)));
    }
    {
        JESPAN("fault_cache");
        free(held[units % HELD]);
        held[units % HELD] = malloc(units % 3000);
    }
    units++;
}

/* Whatever file becomes free, such as a connection of the exporter's, is taken at once. */
static int files[64];
static size_t n_files;
static bool takes_files;

static void take_files(void)
{
    while (takes_files && n_files < MEMBERS(files) && (files[n_files] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n_files++;
}

static void begin_or_end_files(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){MEMBERS(files), MEMBERS(files)});
    takes_files = !takes_files;
    take_files();
    for (; !takes_files && n_files > 0; n_files--)
        close(files[n_files - 1]);
}

static uint64_t own_bytes(void)
{
    return ctl_u64("spans.2.inuse_bytes");
}

static void watch_bounds(void)
{
    uint64_t queue = stat_of("queue_bytes"), own = own_bytes();
    most_queue_bytes = queue > most_queue_bytes ? queue : most_queue_bytes;
    most_own_bytes = own > most_own_bytes ? own : most_own_bytes;
}

/* Each 100 ms, and at the begin. */
static void count_unit(uint64_t n)
{
    if (n % 100 == 0) {
        watch_bounds();
        take_files();
    }
}

static void run(uint64_t n)
{
    uint64_t began_ns = spans_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        sleep_until(began_ns + i * 1000000u);
        one_unit();
        count_unit(i);
    }
}

static void distinct(uint64_t n)
{
    static uint64_t number;
    for (uint64_t i = 0; i < n; i++) {
        char span_id[24];
        snprintf(span_id, sizeof span_id, "%016llx", (unsigned long long)++number + 1000);
        JESPAN("fault_distinct", "span_id", span_id);
        free(opaque_pointer(malloc(100)));
        if (i % 1024 == 0)
            watch_bounds();
    }
}

/* ---- The server ---- */

static void control(const char *query)
{
    char text[512];
    const char *port = getenv("FAULT_CONTROL");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port ? port : "0"))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (takes_files)
        close(files[--n_files]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = snprintf(text, sizeof text, "GET /control?%s HTTP/1.0\r\n\r\n", query);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, text, (size_t)n) != n || read(fd, text, 15) != 15
        || memcmp(text + 9, "200", 3) != 0)
        check_fail("control: %s", query);
    while (read(fd, text, sizeof text) > 0)
        ;
    close(fd);
    take_files();
}

static void wait_for(const char *name, uint64_t least)
{
    uint64_t until = spans_now_ns() + 600000000000u;
    while (stat_of(name) < least && spans_now_ns() < until)
        sleep_until(spans_now_ns() + 5000000u);
    if (stat_of(name) < least)
        check_fail("%s is %llu, and not %llu", name, (unsigned long long)stat_of(name), (unsigned long long)least);
}

static uint64_t attempts(void)
{
    return stat_of("pushes") + stat_of("failures");
}

/* An attempt that is under way may have been begun before, and one that succeeds in part changes both figures. */
static void meet(void)
{
    uint64_t until = spans_now_ns() + 600000000000u;
    for (int i = 0; i < 3; i++) {
        uint64_t before = attempts();
        while (attempts() == before && spans_now_ns() < until)
            sleep_until(spans_now_ns() + 5000000u);
        CHECK(attempts() != before);
    }
}

/* A push that is under way may have been begun before. */
static void settle(void)
{
    for (int i = 0; i < 2; i++)
        wait_for("pushes", stat_of("pushes") + 1);
    uint64_t until = spans_now_ns() + 600000000000u;
    while (stat_of("queue_length") > 0 && spans_now_ns() < until)
        sleep_until(spans_now_ns() + 5000000u);
    CHECK_EQ(stat_of("queue_length"), 0);
}

static void work_in_child(uint64_t n)
{
    JESPAN("fault_child");
    for (uint64_t i = 0; i < n; i++) {
        free(opaque_pointer(malloc(10000)));
        sleep_until(spans_now_ns() + 1000000u);
    }
}

/* Either runs a program or works. */
static void in_a_child(const char *path, uint64_t n)
{
    pid_t pid = fork();
    if (pid == 0 && path)
        execl(path, path, NULL);
    if (pid == 0) {
        work_in_child(n);
        exit(path != NULL);
    }
    CHECK_CHILD(pid);
}

/* ---- What it prints ---- */

struct text {
    char at[1000];
    size_t n;
};

/* Adds the labels of the context that servers get, sorted (there are two). A label that an inner span has too is left
 * out. */
static void add_labels(struct text *to, uint32_t id)
{
    static char labels[4096];
    char name[64];
    size_t bytes = sizeof labels;
    if (F(mallctl)(ctl_span_name(name, sizeof name, id, "labels"), labels, &bytes, NULL, 0))
        return;
    for (const char *key = labels; key < labels + bytes;) {
        const char *value = key + strlen(key) + 1;
        if (!strcmp(key, "tenant") || !strcmp(key, "span_id"))
            to->n += (size_t)snprintf(to->at + to->n, sizeof to->at - to->n, "%s%s=%s", to->n ? "," : "", key, value);
        key = value + strlen(value) + 1;
    }
}

static void print_context(uint32_t id)
{
    static const char *const figures[][2] = {
        {"alloc_objects", "alloc_objects"}, {"alloc_space", "alloc_bytes"}, {"inuse_objects", "inuse_objects"},
        {"inuse_space", "inuse_bytes"}, {"wall", "wall_ns"}, {"cpu", "cpu_ns"}};
    const char *leaf = ctl_span_text(id, "name");
    struct text labels = {"", 0};
    if (strncmp(leaf, "fault_", 6) != 0)
        return;
    for (uint32_t at = id; at != JESPAN_ROOT; at = (uint32_t)ctl_span(at, "parent"))
        add_labels(&labels, at);
    for (size_t i = 0; i < MEMBERS(figures); i++)
        print("figure %s{%s} %s %llu\n", leaf, labels.at, figures[i][0],
              (unsigned long long)ctl_span(id, figures[i][1]));
}

static void print_figures(void)
{
    size_t n = spans_list();
    for (size_t i = 0; i < n; i++)
        print_context(spans_ids[i]);
}

static void print_stats(void)
{
    static const char *const names[] = {"pushes", "pushed_bytes", "failures", "rejected", "uncertain", "dropped", "merged", "folded",
                                        "queue_length", "queue_bytes", "last_status", "last_latency_ns",
                                        "last_success_s"};
    const char *error = NULL;
    char full[64];
    size_t bytes = sizeof error;
    for (size_t i = 0; i < MEMBERS(names); i++)
        print("stat %s %llu\n", names[i], (unsigned long long)stat_of(names[i]));
    stat_name(full, sizeof full, "last_error");
    CHECK_EQ(F(mallctl)(full, &error, &bytes, NULL, 0), 0);
    print("stat last_error %s\n", error ? error : "none");
    print("stat most_queue_bytes %llu\n", (unsigned long long)most_queue_bytes);
    print("stat most_own_bytes %llu\n", (unsigned long long)most_own_bytes);
}

static void print_end(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    print("end %llu\n", (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u);
}

static char **act(char **argument)
{
    const char *what = *argument++;
    if (!strcmp(what, "run"))
        run(strtoull(*argument++, NULL, 10));
    else if (!strcmp(what, "distinct"))
        distinct(strtoull(*argument++, NULL, 10));
    else if (!strcmp(what, "control"))
        control(*argument++);
    else if (!strcmp(what, "wait"))
        wait_for(argument[0], strtoull(argument[1], NULL, 10)), argument += 2;
    else if (!strcmp(what, "meet"))
        meet();
    else if (!strcmp(what, "settle"))
        settle();
    else if (!strcmp(what, "fork"))
        in_a_child(NULL, strtoull(*argument++, NULL, 10));
    else if (!strcmp(what, "exec"))
        in_a_child(*argument++, 0);
    else if (!strcmp(what, "files"))
        begin_or_end_files();
    else if (!strcmp(what, "figures"))
        print_figures();
    else if (!strcmp(what, "stats"))
        print_stats();
    else if (!strcmp(what, "end"))
        print_end();
    else if (!strcmp(what, "status"))
        exit_status = atoi(*argument++);
    else
        check_fail("unknown action %s", what);
    return argument;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (char **argument = argv + 1; *argument;)
        argument = act(argument);
    return check_result() ? 99 : exit_status;
}
