/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan check`: runs a program as `jespan run` does, and checks rules on the memory of its spans.
 *
 * Each rule is an alert of the sidecar, whose dump has the reading that broke the rule. So the rules need no reading of
 * their own: they are checked on the dumps of alerts, of the peak and of the exit. Each of these dumps also has the peaks of
 * all contexts, which the threads of the program look for as often as it helps. */
#include <errno.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "conf/conf.h"
#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "run/run.h"

#define STATUS_RULE 3 /* a rule does not hold */

struct options {
    struct check check;
    const char *junit, *markdown, *dump_dir, *lib;
    bool no_outlived;
};

static int read_max(void *data, const char *text)
{
    struct options *options = data;
    const char *reason = check_add_max(&options->check, text);
    if (reason)
        cmd_error("--max: '%s': %s", text, reason);
    return reason ? STATUS_USAGE : 0;
}

static int read_options(struct options *options, int argc, char **argv)
{
    const struct cmd_option rows[] = {
        {"max", .read = read_max, .data = options},
        {"no-outlived", .on = &options->no_outlived},
        {"junit", .text = &options->junit},
        {"markdown", .text = &options->markdown},
        {"dump-dir", .text = &options->dump_dir},
        {"lib", .text = &options->lib},
        {0},
    };
    return cmd_options(argc, argv, rows, OPTIONS_FIRST);
}

/* The tests may take an hour: what cannot be written is refused before. The files may lie in the directory of the dumps. Returns
 * OPTIONS_READ if all can. */
static int check_outputs(const struct options *options)
{
    const struct cmd_output outputs[] = {{"--junit", options->junit}, {"--markdown", options->markdown}};
    char dump_dir[PATH_MAX];
    int status = options->dump_dir ? cmd_no_stdout("--dump-dir", options->dump_dir) : 0;
    if (status == 0 && options->dump_dir)
        status = run_dump_dir_choose(dump_dir, &(struct run_options){.dump_dir = options->dump_dir}, NULL, true);
    if (status == 0)
        status = cmd_output_files(outputs, 2);
    return status == 0 ? OPTIONS_READ : status;
}

/* ---- The program ---- */

/* The rules as alerts. Returns 0 or -E2BIG. */
static int make_alerts(char alerts[CONF_STRING_BYTES], const struct check *check)
{
    size_t n = 0;
    alerts[0] = '\0';
    for (size_t i = 0; i < check->n; i++) {
        const struct check_rule *rule = &check->rules[i];
        if (rule->outlived)
            continue;
        int bytes = snprintf(alerts + n, CONF_STRING_BYTES - n, "%sinuse(%s)>=%s", n > 0 ? "|" : "", rule->spans, rule->bound_text);
        if (bytes < 0 || (size_t)bytes >= CONF_STRING_BYTES - n)
            return -E2BIG;
        n += (size_t)bytes;
    }
    return 0;
}

/* Keys that JESPAN_CONF of the environment must not change: all dumps of the run must be there to be checked. */
#define CONF                                                                                                           \
    "reading_interval_ms:10,dump_format:pprof,dump_keep:0,dump_dir_files:0,dump_dir_bytes:0,"                          \
    "dump_at_exit:true,dump_at_exit_min_ms:0,peak_looks_percent:100,contexts_kept:16777216"

/* Becomes the program. A process between it and the check waits for the sidecar, as process 1 of a container does. */
static _Noreturn void become_program(const struct options *options, const char *directory, const char *alerts, char **words, int n)
{
    const char *first[] = {"run", "--quiet", "--peak", "--interval", "0", "--conf", CONF, "--dump-dir", directory};
    const char *argv[sizeof first / sizeof *first + 6 + (size_t)n];
    int k = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (run_init_split(false) != 0)
        _exit(STATUS_PREPARE);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        argv[k++] = first[i];
    if (alerts[0]) {
        argv[k++] = "--alert";
        argv[k++] = alerts;
    }
    if (options->lib) {
        argv[k++] = "--lib";
        argv[k++] = options->lib;
    }
    argv[k++] = "--";
    for (int i = 0; i < n; i++)
        argv[k++] = words[i];
    argv[k] = NULL;
    optind = 0; /* getopt starts again */
    _exit(command_run.run(k, (char **)argv));
}

static volatile pid_t waiting; /* the process between this one and the program */

static void pass_on(int signal)
{
    kill(waiting, signal);
}

/* Unless it was started with the signal ignored, as by nohup(1). */
static void handle(int signal, void (*handler)(int))
{
    struct sigaction before, now = {.sa_handler = handler};
    if (sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal, &now, NULL);
}

/* The program decides whether it ends: the terminal sends it SIGINT and SIGQUIT, and we pass SIGTERM and SIGHUP on. A pipe that
 * nobody reads makes printf() fail. So the check always writes its files, and removes its directory. */
static int run_program(const struct options *options, const char *directory, const char *alerts, char **words, int n)
{
    static const struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction of_program;
    int status = 0;
    fflush(NULL);
    sigaction(SIGCHLD, &standard, &of_program); /* who ignores it is not told how a child ended */
    pid_t pid = fork();
    if (pid == 0) {
        sigaction(SIGCHLD, &of_program, NULL);
        become_program(options, directory, alerts, words, n);
    }
    if (pid < 0) {
        cmd_error("cannot start a process: %s", strerror(errno));
        return STATUS_PREPARE;
    }
    waiting = pid;
    handle(SIGINT, SIG_IGN);
    handle(SIGQUIT, SIG_IGN);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGTERM, pass_on);
    handle(SIGHUP, pass_on);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    handle(SIGTERM, SIG_IGN);
    handle(SIGHUP, SIG_IGN);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- The results ---- */

static int write_files(const struct options *options)
{
    int junit = options->junit ? check_write_junit(&options->check, options->junit) : 0;
    int markdown = options->markdown ? check_write_markdown(&options->check, options->markdown) : 0;
    if (junit != 0)
        cmd_fail(options->junit, strerror(-junit), STATUS_WRITE);
    if (markdown != 0)
        cmd_fail(options->markdown, strerror(-markdown), STATUS_WRITE);
    return junit != 0 || markdown != 0 ? STATUS_WRITE : 0;
}

static int status_of_rules(const struct check *check)
{
    if (check->not_checked)
        return STATUS_PREPARE;
    for (size_t i = 0; i < check->n; i++)
        if (!check_holds(&check->rules[i]))
            return STATUS_RULE;
    return 0;
}

/* The program's status comes first: if a test failed, the user must know that. */
static int conclude(struct options *options, const char *directory)
{
    struct check *check = &options->check;
    check->not_checked = check_read(check, directory);
    if (check->not_checked)
        cmd_error("nothing was checked: %s", check->not_checked);
    else
        check_print(check);
    int status = write_files(options);
    if (status == 0)
        status = cmd_finish_output();
    if (status == 0)
        status = status_of_rules(check);
    return check->program_status != 0 ? check->program_status : status;
}

/* To be called only for a directory that the check made. */
static void remove_directory(const char *path)
{
    DIR *files = opendir(path);
    for (struct dirent *file; files && (file = readdir(files));)
        unlinkat(dirfd(files), file->d_name, 0);
    if (files)
        closedir(files);
    rmdir(path);
}

static int check_program(struct options *options, char **words, int n)
{
    char made[PATH_MAX], alerts[CONF_STRING_BYTES];
    const char *tmp = getenv("TMPDIR");
    if (make_alerts(alerts, &options->check) != 0) {
        cmd_error("the rules are longer than %d bytes", CONF_STRING_BYTES - 1);
        return STATUS_USAGE;
    }
    snprintf(made, sizeof made, "%s/jespan.check.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!options->dump_dir && !mkdtemp(made))
        return cmd_fail(made, strerror(errno), STATUS_PREPARE);
    const char *directory = options->dump_dir ? options->dump_dir : made;
    options->check.program = words[0];
    options->check.program_status = run_program(options, directory, alerts, words, n);
    int status = conclude(options, directory);
    if (!options->dump_dir)
        remove_directory(made);
    return status;
}

static int run(int argc, char **argv)
{
    static struct options options;
    int status = read_options(&options, argc, argv);
    const char *reason = status == OPTIONS_READ && options.no_outlived ? check_add_no_outlived(&options.check) : NULL;
    if (status == OPTIONS_READ && !reason && options.check.n == 0)
        reason = "there is no rule";
    if (status == OPTIONS_READ && !reason && optind == argc)
        reason = "there is no PROGRAM to run";
    if (reason) {
        cmd_error("%s; see 'jespan help check'", reason);
        status = STATUS_USAGE;
    }
    if (status == OPTIONS_READ)
        status = check_outputs(&options);
    text_init();
    if (status == OPTIONS_READ)
        status = check_program(&options, argv + optind, argc - optind);
    run_dump_dir_undo(); /* if it has no dump */
    check_free(&options.check);
    return status;
}

const struct command command_check = {
    .name = "check",
    .summary = "run a program, and fail if its spans hold too much memory; for CI",
    .usage =
        "usage: jespan check [OPTION…] -- PROGRAM [ARGUMENT…]\n"
        "\n"
        "Runs PROGRAM as 'jespan run' does, and checks rules on the memory of its spans. The\n"
        "programs that it executes are checked too, each alone. At the end there is a line\n"
        "for each rule, with the most that a process had.\n"
        "\n"
        "  --max RULE       'SPANS<BYTES': these spans never have so many bytes in use, such\n"
        "                   as 'request<64M', 'request > parse<1M', 'cache{tenant=b*}<8M' or\n"
        "                   '*<1G' (all). May be given several times. Each span with all\n"
        "                   below it is checked all the time; spans in several places\n"
        "                   together each 10 ms and at exit\n"
        "  --no-outlived    spans leave nothing in use at exit\n"
        "  --junit FILE     write the results as JUnit's XML\n"
        "  --markdown FILE  add the results as a table, such as to $GITHUB_STEP_SUMMARY\n"
        "  --dump-dir DIR   keep the dumps in DIR, which should be empty (default: they are\n"
        "                   removed)\n"
        "  --lib PATH       the libjespan.so to use, as in 'jespan run'\n"
        "\n"
        "Exit status: PROGRAM's if it is not 0, 128 and the number of a signal that ended\n"
        "it; else 0 all rules hold, 1 a result could not be written, 2 wrong command line,\n"
        "3 a rule does not hold, 125 nothing was checked, 126 PROGRAM cannot be run, 127\n"
        "PROGRAM was not found.\n",
    .run = run,
};
