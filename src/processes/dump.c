/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan dump`: writes a dump of a process that runs, hangs or is stopped. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "outside.h"

struct options {
    const char *file;
    bool time;
};

static int write_dump(const struct outside *process, const struct options *options, const char *path)
{
    enum exporter_profile profile = options->time ? EXPORTER_TIME : EXPORTER_HEAP;
    int error = strcmp(path, "-") ? outside_write_path(process, profile, path) : outside_write(process, profile, STDOUT_FILENO);
    return error ? cmd_fail(path, strerror(-error), STATUS_WRITE) : 0;
}

static int run(int argc, char **argv)
{
    struct options options = {0};
    struct outside process;
    char name[64];
    const struct cmd_option rows[] = {{"output", 'o', .text = &options.file}, {"time", .on = &options.time}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    pid_t pid = cmd_only_pid(argc, argv);
    if (!pid)
        return STATUS_USAGE;
    const char *reason = outside_read(&process, pid);
    if (reason)
        return cmd_fail(argv[optind], reason, STATUS_USAGE);
    snprintf(name, sizeof name, "%s.%d.pb.gz", options.time ? "time" : "heap", (int)pid);
    status = write_dump(&process, &options, options.file ? options.file : name);
    outside_close(&process);
    if (status || options.file)
        return status;
    puts(name);
    return cmd_finish_output();
}

const struct command command_dump = {
    .name = "dump",
    .summary = "write a heap dump of a running process",
    .usage =
        "usage: jespan dump [OPTION…] PID\n"
        "\n"
        "Writes a heap dump of a process that has jespan in it, and prints its name:\n"
        "heap.PID.pb.gz. The process is read from outside. It is not asked, stopped or\n"
        "signalled, so it may also hang or be stopped.\n"
        "\n"
        "  -o, --output FILE  the dump's name; - is standard output\n"
        "  --time             the times of spans instead: time.PID.pb.gz\n"
        "\n"
        "It needs what a debugger needs: the same user or root, and a system that lets\n"
        "processes be read (kernel.yama.ptrace_scope is 0, or root).\n"
        "\n"
        "Exit status: 0; 1 the file could not be written; 2 wrong command line, or the\n"
        "process could not be read.\n",
    .run = run,
};
