/* SPDX-License-Identifier: BSD-2-Clause */
/* A program whose main() ends by pthread_exit() ends as without jespan, although jespan has threads: by exit(0) with
 * the last thread of its own. Signals end it until then. The program runs itself again for each case. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>
#include <jespan/reporter.h>

#include "../support/cases.h"

static char directory[] = "/tmp/jespan-main-ends.XXXXXX";

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(9);
}

static void at_exit(void)
{
    say("exit ");
}

/* ---- Threads of the program's ---- */

static bool main_is_gone(void)
{
    char text[512] = "";
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        _exit(9);
    close(fd);
    const char *end = strrchr(text, ')');
    return end && end[2] == 'Z';
}

/* jespan looks several times meanwhile. */
static void outlive_main(void)
{
    while (!main_is_gone())
        usleep(1000);
    usleep(30000);
}

static void allocate(void)
{
    void *volatile p = malloc(1000);
    free(p);
}

static void *works(void *unused)
{
    allocate();
    outlive_main();
    allocate();
    say("worker ");
    return unused;
}

static void *never_allocates(void *unused)
{
    outlive_main();
    say("worker ");
    return unused;
}

static void *makes_another(void *unused)
{
    pthread_t thread;
    outlive_main();
    pthread_create(&thread, NULL, works, NULL);
    return unused;
}

static void *waits_for_a_signal(void *unused)
{
    outlive_main();
    say("ready ");
    for (;;)
        pause();
    return unused;
}

static void *registers(void *unused)
{
    static const struct jespan_reporter reporter = {.size = sizeof reporter, .name = "late"};
    outlive_main();
    if (!jespan_register_reporter(&reporter, 3600000))
        say("no reporter ");
    usleep(30000);
    say("worker ");
    return unused;
}

/* Outlives the main thread first: pthread_exit() there loads libgcc_s, and glibc leaves a child that is forked meanwhile
 * with half of it. */
static void *forks(void *unused)
{
    int status = -1;
    outlive_main();
    pid_t pid = fork();
    if (pid == 0) {
        say("child ");
        pthread_exit(NULL);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        say("the child failed ");
    return unused;
}

static void start(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL))
        _exit(9);
}

/* ---- Cases: what main() does ---- */

static void nothing(void)
{
}

static void three_threads(void)
{
    start(works);
    start(never_allocates);
    start(makes_another);
}

static void silent_thread(void)
{
    start(never_allocates);
}

static void late_reporter(void)
{
    start(registers);
}

static void forking_thread(void)
{
    start(forks);
}

static void signalled_thread(void)
{
    start(waits_for_a_signal);
}

static void wait_in_handler(void)
{
    say("ready ");
    for (;;)
        pause();
}

static void signalled_handler(void)
{
    atexit(wait_in_handler);
}

static void check_mask(void)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < 32; number++)
        if (sigismember(&mask, number) != (number == SIGUSR1))
            say("wrong mask ");
}

static void own_mask(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    atexit(check_mask);
}

static void slow_destructor(void *unused)
{
    (void)unused;
    usleep(30000);
    say("destructor ");
}

static void main_has_destructors(void)
{
    pthread_key_t key;
    for (int i = 0; i < 40; i++) /* jespan's have run by then */
        pthread_key_create(&key, i == 39 ? slow_destructor : NULL);
    pthread_setspecific(key, &key);
}

static const struct main_case {
    const char *name;
    void (*run)(void);
    const char *conf, *output;
    int signal; /* sent when it is ready */
    bool has_dump;
} cases[] = {
    {"without threads of jespan's", nothing, "", "exit ", 0, false},
    {"alone", nothing, "dump_dir:.,dump_interval_s:3600", "exit ", 0, false},
    {"with the last dump", nothing, "dump_dir:.,dump_at_exit:true", "exit ", 0, true},
    {"with http", nothing, "http_listen:unix:http", "exit ", 0, false},
    {"with threads", three_threads, "dump_dir:.,dump_interval_s:3600", "worker worker worker exit ", 0, false},
    {"with a thread that never allocates", silent_thread, "dump_dir:.,dump_interval_s:3600", "worker exit ", 0, false},
    {"with a reporter that comes later", late_reporter, "", "worker exit ", 0, false},
    {"in a forked child", forking_thread, "dump_dir:.,dump_interval_s:3600,follow_fork:true", "child exit exit ", 0, false},
    {"by a signal to a thread", signalled_thread, "dump_dir:.,dump_interval_s:3600", "ready ", SIGTERM, false},
    {"by a signal to a handler", signalled_handler, "dump_dir:.,dump_interval_s:3600", "ready ", SIGINT, false},
    {"with its signal mask", own_mask, "dump_dir:.,dump_interval_s:3600", "exit ", 0, false},
    {"after destructors", main_has_destructors, "dump_dir:.,dump_interval_s:3600", "destructor exit ", 0, false},
};

/* ---- The test ---- */

static void begin_case(const struct main_case *c, const char *number, int output)
{
    char conf[4096];
    snprintf(conf, sizeof conf, "module_dir:%s,%s", case_modules(), c->conf);
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* which a shell has its background jobs ignore */
    setenv("JESPAN_CONF", conf, 1);
    dup2(output, STDOUT_FILENO);
    if (chdir(directory))
        _exit(9);
    execl("/proc/self/exe", "main_ends", number, NULL);
    _exit(127);
}

/* Until it has ended, or is ready for its signal. */
static void read_output(const struct main_case *c, pid_t pid, int from, char *text, size_t bytes)
{
    size_t at = 0;
    ssize_t n;
    alarm((unsigned)check_env("CASE_SECONDS", 600));
    while (at < bytes - 1 && (n = read(from, text + at, bytes - 1 - at)) > 0) {
        text[at += (size_t)n] = '\0';
        if (c->signal && strstr(text, "ready "))
            kill(pid, c->signal);
    }
    alarm(0);
}

static unsigned remove_dumps(void)
{
    unsigned n = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[sizeof directory + 300];
        n += strstr(e->d_name, ".pb.gz") != NULL;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    return n;
}

static void run_case(unsigned i)
{
    const struct main_case *c = &cases[i];
    int output[2];
    char number[16], text[256] = "";
    snprintf(number, sizeof number, "%u", i);
    CHECK_EQ(pipe2(output, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        begin_case(c, number, output[1]);
    close(output[1]);
    read_output(c, pid, output[0], text, sizeof text);
    int status = case_wait(pid);
    close(output[0]);
    if (status != (c->signal ? c->signal : 0))
        check_fail("%s: status 0x%x", c->name, (unsigned)status);
    if (strcmp(text, c->output) != 0)
        check_fail("%s: says \"%s\", not \"%s\"", c->name, text, c->output);
    unsigned dumps = remove_dumps();
    if (c->has_dump && case_has_exporter() && dumps != 1)
        check_fail("%s: %u dumps", c->name, dumps);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = case_time_is_up};
    if (argc > 1) {
        atexit(at_exit);
        cases[atoi(argv[1])].run();
        pthread_exit(NULL);
    }
    sigaction(SIGALRM, &action, NULL);
    case_make_modules_absolute();
    CHECK(mkdtemp(directory) != NULL);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(i);
    rmdir(directory);
    return check_result();
}
