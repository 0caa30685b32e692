/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan serve`: reports for a program that runs already, or that `jespan run` starts. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "conf/conf.h"
#include "console/command.h"
#include "console/options.h"
#include "run.h"
#include "sidecar/sidecar.h"
#include "snapshot/view.h"

/* Dumps go to jespan.NAME.PID/ unless the user says otherwise. */
static void default_directory(char directory[PATH_MAX], pid_t pid)
{
    char path[40], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? strcspn(name, "\n/") : 0] = '\0';
    run_dump_dir_name(directory, name, pid);
}

static int make_conf(const struct run_options *options, pid_t pid)
{
    static struct run_library library;
    static char dump_dir[PATH_MAX], directory[PATH_MAX];
    char *text = NULL;
    int status = run_library_find(&library, options->lib); /* for its modules */
    default_directory(directory, pid);
    if (status == 0 && run_wants_dumps(options))
        status = run_dump_dir_choose(dump_dir, options, directory, true);
    if (status == 0)
        status = run_conf_make(&text, options, dump_dir, &library, pid);
    if (status == 0 && setenv("JESPAN_CONF", text, 1) != 0) {
        cmd_error("out of memory");
        status = STATUS_PREPARE;
    }
    free(text);
    return status;
}

/* A directory is only made for a process that can be read. */
static int check(pid_t pid)
{
    struct view *view;
    int error = view_open(&view, pid);
    if (error == 0)
        view_close(view);
    if (error == 0 || error == -EAGAIN)
        return 0;
    cmd_error("process %d: %s", (int)pid, view_error_text(error));
    return STATUS_PREPARE;
}

static int serve(struct sidecar_options *o)
{
    conf_boot_sidecar(o->is_early);
    int error = sidecar_run(o);
    if (error == 0)
        return 0;
    if (!o->is_early) /* `jespan run` says it */
        cmd_error("process %d: %s", (int)o->pid, view_error_text(error));
    return STATUS_PREPARE;
}

static int run(int argc, char **argv)
{
    struct run_options options = {0};
    int status = serve_options_read(&options, argc, argv);
    if (status != OPTIONS_READ)
        return status;
    const char *word = cmd_only_word(argc, argv, "PID");
    if (!word)
        return STATUS_USAGE;
    struct sidecar_options o = {.quiet = options.quiet, .is_early = options.from_run,
                                .page = options.from_run ? RUN_SIDECAR_PAGE : -1, .ready = options.from_run ? RUN_SIDECAR_READY : -1};
    o.pid = cmd_pid(word);
    if (o.pid == 0)
        return cmd_no_pid(word);
    o.pidfd = o.is_early ? RUN_SIDECAR_PIDFD : descriptor_lift((int)syscall(SYS_pidfd_open, o.pid, 0));
    if (o.pidfd < 0) {
        cmd_error("process %d: %s", (int)o.pid, errno == ESRCH ? "there is no such process" : strerror(errno));
        return STATUS_PREPARE;
    }
    status = o.is_early ? 0 : check(o.pid);
    if (!o.is_early && status == 0)
        status = make_conf(&options, o.pid);
    if (status == 0)
        status = serve(&o);
    run_dump_dir_undo(); /* if it has no dump */
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "dump, push and answer for a program that runs already",
    .usage =
        "usage: jespan serve [OPTION…] PID\n"
        "\n"
        "Reports for the process PID until it ends: reads its memory from outside, writes\n"
        "heap dumps every few seconds and when the process ends or is killed, answers HTTP\n"
        "and pushes to servers. The process needs libjespan in it and no configuration.\n"
        "It is not stopped and not asked. SIGINT and SIGTERM end the report.\n"
        "\n"
        "  --dump-dir DIR  where dumps go, created if missing (default: jespan.NAME.PID)\n"
        "  --interval S    seconds between dumps; 0: only at the end (default: 10)\n"
        "  --keep N        keep the newest N dumps (default: 0, all)\n"
        "  --dir-files N   keep the newest N files in DIR, whichever process wrote them\n"
        "                  (default: 0, all)\n"
        "  --dir-bytes N   keep the newest files of N bytes in all, as 500M (default: 0,\n"
        "                  all)\n"
        "  --time          write a dump of times beside each heap dump\n"
        "  --alert RULES   tell, and dump, when spans hold or grow too much:\n"
        "                  'inuse(SPAN)>1G|growth(SPAN)>10M/min|outlived(*)>64M'\n"
        "  --peak          keep a dump of the moment with the most memory in use\n"
        "  --pyroscope URL push profiles to this Pyroscope server\n"
        "  --otlp URL      push profiles to this OpenTelemetry collector\n"
        "  --app NAME      the name that the server shows (default: the program's)\n"
        "  --http ADDRESS  answer HTTP at ADDRESS:PORT or unix:PATH: profiles, /metrics\n"
        "  --quiet         no line on stderr at the end\n"
        "  --conf STRING   more of JESPAN_CONF's key:value,…; wins over the options and\n"
        "                  the variable\n"
        "  --lib PATH      the libjespan.so whose modules are used\n"
        "\n"
        "Exit status: 0; 2 wrong command line, 125 the process cannot be read, or the report\n"
        "cannot be prepared.\n",
    .run = run,
};
