/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's messages and descriptors in a program whose standard error is broken, or that has none of descriptors 0 to 2.
 * The program runs itself again for each case, with the case's configuration and descriptors. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define REPORT_FD 100 /* the test's own standard error, in a case */
#define DUMPS 150

static char directory[] = "/tmp/jespan-descriptors.XXXXXX";

/* In a case: a failure that does not need standard error. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(REPORT_FD, "%s:%d: failed: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);               \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)

static const char *in_directory(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* ---- What cases do ---- */

static uint64_t lost_messages(void)
{
    uint64_t n = 0;
    size_t bytes = sizeof n;
    NEED(mallctl("spans.stats.lost_messages", &n, &bytes, NULL, 0) == 0);
    return n;
}

static void loses_a_message(void)
{
    NEED(lost_messages() == 1);
}

static void loses_none(void)
{
    NEED(lost_messages() == 0);
}

static void block_and_raise_sigpipe(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
}

/* It was pending before this program was executed, and before the message. */
static void has_still_a_signal(void)
{
    sigset_t pending;
    NEED(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE));
    loses_a_message();
}

/* The only message of jespan is the line before the abort. */
static void frees_twice(void)
{
    signal(SIGABRT, SIG_DFL);
    void *volatile p = malloc(48);
    free(p);
    free(p);
    for (int i = 0; i < 100; i++) /* it is seen at a flush, at the latest */
        free(malloc((size_t)i));
    exit(8);
}

static void opens_as_stderr(const char *name, int flags)
{
    close(STDERR_FILENO);
    int fd;
    do
        fd = open(in_directory(name), flags | O_CREAT, 0600);
    while (fd >= 0 && fd < STDERR_FILENO);
    NEED(fd == STDERR_FILENO);
    frees_twice();
}

static void had_none_then_a_log(void)
{
    opens_as_stderr("had_none", O_WRONLY | O_APPEND);
}

static void redirects_to_a_log(void)
{
    opens_as_stderr("log", O_WRONLY | O_APPEND);
}

static void opens_a_database(void)
{
    opens_as_stderr("database", O_RDWR);
}

static void opens_its_own_file(void)
{
    opens_as_stderr("own", O_WRONLY | O_CLOEXEC);
}

/* A server that has closed its standard error has a client's connection there. */
static void has_a_connection(void)
{
    int pair[2], file = open(in_directory("connection"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    dup2(pair[0], STDERR_FILENO);
    if (fork() == 0)
        frees_twice();
    int status;
    char text[600];
    NEED(wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(pair[0]);
    close(STDERR_FILENO);
    for (ssize_t n; (n = read(pair[1], text, sizeof text)) > 0;)
        NEED(write(file, text, (size_t)n) == n);
}

/* ---- Without descriptors 0 to 2 ---- */

static _Atomic bool is_over;
static _Atomic unsigned long written;

/* The program does not know that its standard output is closed. */
static void *writes_all_the_time(void *unused)
{
    static const char line[] = "a line of the program's log\n";
    while (!is_over)
        for (int fd = 0; fd < 3; fd++)
            if (write(fd, line, sizeof line - 1) > 0)
                written++;
    return unused;
}

static bool is_a_hole(int fd)
{
    return fcntl(fd, F_GETFD) < 0 || (fcntl(fd, F_GETFL) & O_PATH);
}

static void dumps_into_nothing_else(void)
{
    pthread_t writer;
    NEED(pthread_create(&writer, NULL, writes_all_the_time, NULL) == 0);
    for (int i = 0; i < DUMPS; i++) {
        const char *path = in_directory("dump.pb.gz");
        NEED(mallctl("spans.dump", NULL, NULL, &path, sizeof path) == 0);
    }
    is_over = true;
    pthread_join(writer, NULL);
    NEED(written == 0);
    for (int fd = 0; fd < 3; fd++)
        NEED(fcntl(fd, F_GETFD) < 0);
}

static bool http_answers(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "http"};
    char answer[32] = "";
    int low[3] = {open("/", O_PATH), open("/", O_PATH), open("/", O_PATH)}; /* ours are not to be there either */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool ok = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              write(fd, request, sizeof request - 1) == sizeof request - 1 && read(fd, answer, sizeof answer - 1) > 0 &&
              strncmp(answer, "HTTP/1.1 200", 12) == 0;
    close(fd);
    for (int i = 0; i < 3; i++)
        close(low[i]);
    return ok;
}

/* Whatever the program does to descriptors that it has not is nothing to the service. */
static void disturbs_no_service(void)
{
    void *volatile p = malloc(1); /* then the service starts */
    free(p);
    while (!http_answers())
        usleep(10000);
    for (int fd = 0; fd < 3; fd++)
        NEED(is_a_hole(fd));
    for (int i = 0; i < 10; i++) {
        for (int fd = 0; fd < 3; fd++) {
            NEED(write(fd, "x", 1) < 0);
            close(fd);
        }
        NEED(http_answers());
    }
}

/* ---- What they are given as standard error ---- */

static int fill(int fd)
{
    static char much[4096];
    int flags = fcntl(fd, F_GETFL);
    CHECK_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, much, sizeof much) > 0 || write(fd, much, 1) > 0)
        ;
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fcntl(fd, F_SETFL, flags), 0);
    return fd;
}

static int pipe_ends[2] = {-1, -1};

static int pipe_without_reader(void)
{
    CHECK_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    close(pipe_ends[0]);
    pipe_ends[0] = -1;
    return pipe_ends[1];
}

static int pipe_nobody_reads(void)
{
    CHECK_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    return fill(pipe_ends[1]);
}

static int socket_without_reader(void)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_ends), 0);
    close(pipe_ends[0]);
    pipe_ends[0] = -1;
    return pipe_ends[1];
}

static int socket_nobody_reads(void)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_ends), 0);
    return fill(pipe_ends[1]);
}

static int open_terminal(void)
{
    pipe_ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(pipe_ends[0] >= 0 && grantpt(pipe_ends[0]) == 0 && unlockpt(pipe_ends[0]) == 0);
    return pipe_ends[1] = open(ptsname(pipe_ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int stopped_terminal(void)
{
    open_terminal();
    CHECK_EQ(tcflow(pipe_ends[1], TCOOFF), 0);
    return pipe_ends[1];
}

static int working_terminal(void)
{
    return open_terminal();
}

static int file_of_full_size(void)
{
    return pipe_ends[1] = open(in_directory("large"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static int nothing(void)
{
    return -1; /* closed, like descriptors 0 and 1 */
}

/* ---- All of them ---- */

struct stderr_case {
    const char *name;
    int (*standard_error)(void); /* NULL: a file in the directory */
    void (*run)(void);
    const char *conf;
    int signal;         /* by which it is to end */
    const char *file;   /* in the directory */
    bool has_message;   /* of jespan's, in that file */
    bool needs_exporter;
};

#define WRONG_KEY "no_such_key:1"
#define LOST_AT_EXIT "dump_dir:/nonexistent/directory,dump_at_exit:true"

static const struct stderr_case cases[] = {
    {"the pipe has no reader", pipe_without_reader, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"the socket has no reader", socket_without_reader, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"nobody reads the pipe", pipe_nobody_reads, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"nobody reads the socket", socket_nobody_reads, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"nobody reads the pipe, at exit", pipe_nobody_reads, loses_none, LOST_AT_EXIT, 0, NULL, false, false},
    {"the pipe has no reader, at exit", pipe_without_reader, loses_none, LOST_AT_EXIT, 0, NULL, false, false},
    {"the terminal is stopped", stopped_terminal, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"a terminal", working_terminal, loses_none, WRONG_KEY, 0, NULL, false, false},
    {"the file may not grow", file_of_full_size, loses_a_message, WRONG_KEY, 0, NULL, false, false},
    {"a signal is pending", pipe_without_reader, has_still_a_signal, WRONG_KEY, 0, NULL, false, false},
    {"a file", NULL, frees_twice, "", SIGABRT, "stderr", true, false},
    {"a log in its place", NULL, redirects_to_a_log, "", SIGABRT, "log", true, false},
    {"a file to read and write in its place", NULL, opens_a_database, "", SIGABRT, "database", false, false},
    {"a file that is close-on-exec in its place", NULL, opens_its_own_file, "", SIGABRT, "own", false, false},
    {"a connection in its place", NULL, has_a_connection, "", 0, "connection", false, false},
    {"none at the start, then a log", nothing, had_none_then_a_log, "", SIGABRT, "had_none", false, false},
    {"none of 0 to 2, with dumps", nothing, dumps_into_nothing_else, "", 0, NULL, false, true},
    {"none of 0 to 2, with http", nothing, disturbs_no_service, "http_listen:unix:http", 0, NULL, false, true},
};

static void begin_case(const struct stderr_case *c, int standard_error, const char *number)
{
    char conf[4096];
    struct rlimit none = {0, 0};
    snprintf(conf, sizeof conf, "module_dir:%s,%s", case_modules(), c->conf);
    setpgid(0, 0);
    setrlimit(RLIMIT_CORE, &none);
    if (c->standard_error == file_of_full_size)
        setrlimit(RLIMIT_FSIZE, &none);
    setenv("JESPAN_CONF", conf, 1);
    signal(SIGPIPE, SIG_DFL);
    if (c->run == has_still_a_signal)
        block_and_raise_sigpipe();
    dup2(STDERR_FILENO, REPORT_FD);
    if (standard_error < 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
    } else {
        dup2(standard_error, STDERR_FILENO);
    }
    if (chdir(directory))
        _exit(9);
    execl("/proc/self/exe", "descriptors", number, directory, NULL);
    _exit(127);
}

static void judge_status(const struct stderr_case *c, int status)
{
    if (status == -1)
        check_fail("%s: hangs", c->name);
    else if (WIFSIGNALED(status) ? WTERMSIG(status) != c->signal : c->signal != 0)
        check_fail("%s: ends with status 0x%x", c->name, (unsigned)status);
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        check_fail("%s: ends with %d", c->name, WEXITSTATUS(status));
}

static void judge_file(const struct stderr_case *c)
{
    char text[1024] = "";
    int fd = open(in_directory(c->file), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        check_fail("%s: %s: %s", c->name, c->file, strerror(errno));
    else if (c->has_message != (strstr(text, "jespan: ") != NULL))
        check_fail("%s: %s has: %s", c->name, c->file, text);
    close(fd);
}

static void run_case(unsigned i)
{
    const struct stderr_case *c = &cases[i];
    char number[16];
    snprintf(number, sizeof number, "%u", i);
    int standard_error = c->standard_error ? c->standard_error() : open(in_directory("stderr"), O_WRONLY | O_CREAT, 0600);
    pid_t pid = fork();
    if (pid == 0)
        begin_case(c, standard_error, number);
    judge_status(c, case_wait(pid));
    if (standard_error >= 0)
        close(standard_error);
    if (standard_error == pipe_ends[1] && pipe_ends[0] >= 0)
        close(pipe_ends[0]);
    pipe_ends[0] = pipe_ends[1] = -1;
    if (c->file)
        judge_file(c);
}

static void remove_directory(void)
{
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));)
        unlink(in_directory(e->d_name));
    if (d)
        closedir(d);
    rmdir(directory);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = case_time_is_up};
    if (argc > 2) {
        strcpy(directory, argv[2]);
        cases[atoi(argv[1])].run();
        return 0;
    }
    sigaction(SIGALRM, &action, NULL);
    case_make_modules_absolute();
    CHECK(mkdtemp(directory) != NULL);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!cases[i].needs_exporter || case_has_exporter())
            run_case(i);
    remove_directory();
    return check_result();
}
