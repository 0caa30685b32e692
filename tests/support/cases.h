/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases that need a process each: the program runs itself again for every case, with the case's configuration.
 *
 * A case passes if it ends with 0 within CASE_SECONDS (600) and writes nothing to stderr but what it must say. A case that hangs is killed
 * with all its children, after gdb has shown where their threads are. With a case's name as its argument, the program
 * runs that case in place.
 */
#ifndef JESPAN_TESTS_CASES_H
#define JESPAN_TESTS_CASES_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct test_case {
    const char *name;
    void (*run)(void);
    const char *malloc_conf, *jespan_conf; /* NULL: none */
    const char *says;                      /* what it writes to stderr, once for each of its processes; NULL: nothing */
    int may_be_silent;                     /* or nothing, as it depends on time */
};

/* Of a case with max_contexts:`most` that needs more of them. */
#define CASE_SAYS_OVERFLOW(most) \
    "jespan: all " #most " contexts are in use (max_contexts): spans that need another one are credited to an ancestor\n"

static inline const char *case_modules(void)
{
    const char *modules = getenv("JESPAN_MODULES");
    return modules ? modules : "exporters/.libs";
}

/* For cases that change their directory. */
static inline void case_make_modules_absolute(void)
{
    char *path = realpath(case_modules(), NULL);
    if (path)
        setenv("JESPAN_MODULES", path, 1);
    free(path);
}

/* Whether dumps can be written. */
static inline int case_has_exporter(void)
{
    char module[4096];
    snprintf(module, sizeof module, "%s/pprof.so", case_modules());
    return access(module, R_OK) == 0;
}

/* In the child. A pipe, as cases may limit the size of files. */
static inline void case_exec(const struct test_case *c, int output)
{
    char conf[4096];
    snprintf(conf, sizeof conf, "module_dir:%s,%s", case_modules(), c->jespan_conf ? c->jespan_conf : "");
    setpgid(0, 0);
    setenv("JESPAN_CONF", conf, 1);
    if (c->malloc_conf)
        setenv("MALLOC_CONF", c->malloc_conf, 1);
    dup2(output, STDERR_FILENO);
    execl("/proc/self/exe", "case", c->name, NULL);
    _exit(127);
}

static inline void case_time_is_up(int signal)
{
    (void)signal;
}

/* Shows what the processes of a group are doing. */
static inline void case_show_threads(pid_t group)
{
    char command[256];
    snprintf(command, sizeof command,
             "for p in $(pgrep -g %d); do echo \"process $p\"; "
             "timeout 60 gdb -p $p -batch -nx -ex 'thread apply all backtrace 12' 2>&1; done >&2", (int)group);
    if (system(command))
        fprintf(stderr, "gdb: not all threads are shown\n");
}

/* The case's status, or -1 after killing it. */
static inline int case_wait(pid_t pid)
{
    int status = -1;
    alarm((unsigned)check_env("CASE_SECONDS", 600));
    if (waitpid(pid, &status, 0) < 0) {
        status = -1;
        case_show_threads(pid);
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    alarm(0);
    return status;
}

/* Whether the text is nothing but a line that each process may write, and at least one does. */
static inline int case_is_said(const char *text, const char *line)
{
    const char *at = text;
    while (line && strncmp(at, line, strlen(line)) == 0)
        at += strlen(line);
    return *at == '\0' && (at != text || !line);
}

static inline void case_judge(const struct test_case *c, int status, int output)
{
    char text[65536] = ""; /* as much as a pipe has */
    if (status == -1)
        check_fail("%s: hung", c->name);
    else if (WIFSIGNALED(status))
        check_fail("%s: ended by signal %d", c->name, WTERMSIG(status));
    else if (status)
        check_fail("%s: ended with %d", c->name, WEXITSTATUS(status));
    if (read(output, text, sizeof text - 1) < 0)
        text[0] = '\0';
    if (!case_is_said(text, c->says) && !(c->may_be_silent && case_is_said(text, NULL)))
        check_fail("%s: said: %s", c->name, text);
}

static inline void case_run_again(const struct test_case *c)
{
    int output[2];
    CHECK_EQ(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t pid = fork();
    if (pid == 0)
        case_exec(c, output[1]);
    case_judge(c, case_wait(pid), output[0]);
    close(output[0]);
    close(output[1]);
}

/* Runs all cases, or the named one. Returns the status for main(). */
static inline int cases_main(int argc, char **argv, const struct test_case *cases, size_t n)
{
    struct sigaction action = {.sa_handler = case_time_is_up}; /* no SA_RESTART: it ends waitpid() */
    if (argc == 1)
        sigaction(SIGALRM, &action, NULL);
    size_t ran = 0;
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        if (argc > 1)
            cases[i].run();
        else
            case_run_again(&cases[i]);
        ran++;
    }
    CHECK(ran > 0);
    return check_result();
}

#endif
