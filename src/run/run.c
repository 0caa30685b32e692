/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan run`: starts a program with libjespan.so preloaded and configured.
 *
 * The process becomes the program, so that process id, exit status, signals and terminal are the program's own.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "report/dump_dir.h"
#include "run.h"

/* Adds the sidecar to the program's configuration. Without a sidecar, a thread in the program reports, also if the
 * configuration has the sidecar of a `jespan run` that started this one. */
static int add_sidecar(char **conf, const struct run_options *options)
{
    char page[RUN_SIDECAR_BYTES], *with_page;
    if (options->in_process || !run_sidecar_start(page, *conf, options->quiet))
        page[0] = '\0';
    if (asprintf(&with_page, "%s,sidecar:%s", *conf, page) < 0) {
        cmd_error("out of memory");
        return STATUS_PREPARE;
    }
    *conf = with_page;
    return 0;
}

/* Returns only if the program could not be started. */
static int start(const struct run_options *options, char **argv)
{
    struct run_library library;
    struct run_program program;
    struct run_environment environment = {0};
    char dump_dir[PATH_MAX] = "", directory[PATH_MAX], *conf = NULL;
    int status = run_program_find(&program, argv[0]);
    if (status == 0)
        status = run_library_find(&library, options->lib);
    if (status == 0 && run_wants_dumps(options))
        status = run_dump_dir_choose(dump_dir, options, run_dump_dir_name(directory, argv[0], getpid()), false);
    if (status == 0)
        status = run_check_files(options); /* they may lie in that directory */
    if (status == 0)
        status = run_conf_make(&conf, options, dump_dir, &library, getpid());
    if (status == 0)
        status = add_sidecar(&conf, options);
    if (status == 0)
        status = run_environment_make(&environment, conf, &library, run_program_check(&program, library.path));
    if (status != 0) {
        run_dump_dir_undo();
        return status;
    }
    if (options->in_process) {
        run_dump_dir_check_workers(dump_dir, options);
        dump_dir_remove_empty(dump_dir, (uint64_t)getpid()); /* the first dump makes it again */
    }
    run_sidecar_leave_outer();
    execvpe(program.path, argv, environment.all);
    int error = errno;
    cmd_error("cannot run '%s': %s", argv[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

static int run(int argc, char **argv)
{
    struct run_options options = {0};
    int status = run_options_read(&options, argc, argv);
    if (status != OPTIONS_READ)
        return status;
    if (optind == argc) {
        cmd_error("there is no PROGRAM to run; see 'jespan help run'");
        return STATUS_USAGE;
    }
    status = !options.in_process && getpid() == 1 ? run_init_split(true) : 0;
    return status != 0 ? status : start(&options, argv + optind);
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program under jespan, with heap dumps or pushes every few seconds",
    .usage =
        "usage: jespan run [OPTION…] -- PROGRAM [ARGUMENT…]\n"
        "\n"
        "Runs PROGRAM with jespan as its malloc. A process beside it, the sidecar, writes\n"
        "heap dumps, heap.PID.NUMBER.pb.gz, every few seconds and at the end, also when\n"
        "PROGRAM is killed; read them with 'jespan report' or\n"
        "'go tool pprof'. Programs that PROGRAM executes are tracked too and write their\n"
        "own, at exit only if they ran for a second or --interval is 0. With\n"
        "--pyroscope, --otlp or --http there are dumps only where --dump-dir, --interval,\n"
        "--keep, --dir-files, --dir-bytes, --time or --dump-on asks for them.\n"
        "\n"
        "  --dump-dir DIR  where dumps go, created if missing (default:\n"
        "                  jespan.PROGRAM.PID)\n"
        "  --interval S    seconds between dumps; 0: only at exit (default: 10)\n"
        "  --keep N        keep the newest N dumps of a process (default: 0, all)\n"
        "  --dir-files N   keep the newest N files in DIR, whichever process wrote them\n"
        "                  (default: 0, all)\n"
        "  --dir-bytes N   keep the newest files of N bytes in all, as 500M (default: 0,\n"
        "                  all)\n"
        "  --only PROGRAMS only programs of these names, 'NAME|NAME*'; others are left out,\n"
        "                  even PROGRAM itself\n"
        "  --stacks[=MODE] credit allocations to the stack of calls that made them:\n"
        "                  all, sampled or off; without MODE all. 'all@NAME|NAME*' is for\n"
        "                  spans and threads of these names, and the spans below\n"
        "  --guard[=N]     put one allocation in N between guard pages, to find overflows\n"
        "                  and uses after free; without N one in 5000\n"
        "  --time          write a dump of times beside each heap dump,\n"
        "                  time.PID.NUMBER.pb.gz\n"
        "  --flame FILE    at the end, write the time of each span as folded stacks\n"
        "  --flame-events FILE\n"
        "                  write each enter and exit as a folded stack, for flame charts\n"
        "  --flame-svg FILE  at the end, write who holds memory as a flame graph\n"
        "  --trace FILE    write each enter and exit, and memory, for ui.perfetto.dev\n"
        "  --dump-on EVENTS\n"
        "                  dump at these events too: 'oom|limit|peak'\n"
        "  --alert RULES   tell, and dump, when spans hold or grow too much:\n"
        "                  'inuse(SPAN)>1G|growth(SPAN)>10M/min|outlived(*)>64M'\n"
        "  --peak          keep a dump of the moment with the most memory in use\n"
        "  --limit LIMITS  the most bytes that spans may have in use:\n"
        "                  'NAME=64M|NAME{KEY=VALUE}=1G'\n"
        "  --arena ARENAS  spans with pages of their own: 'NAME|NAME=PROPERTY+PROPERTY'\n"
        "  --pyroscope URL push profiles to this Pyroscope server\n"
        "  --otlp URL      push profiles to this OpenTelemetry collector\n"
        "  --app NAME      the name that the server shows (default: the program's)\n"
        "  --http ADDRESS  answer HTTP at ADDRESS:PORT or unix:PATH: profiles, /metrics\n"
        "  --follow-fork   include processes that are forked without executing a program\n"
        "  --in-process    dump, push and answer on threads in PROGRAM, and not in a\n"
        "                  process beside it, which is the default (--sidecar)\n"
        "  --quiet         no line on stderr at the end\n"
        "  --conf STRING   more of JESPAN_CONF's key:value,…; wins over the options and\n"
        "                  the variable\n"
        "  --lib PATH      the libjespan.so to use (default: $JESPAN_LIB, or the one that\n"
        "                  belongs to this command)\n"
        "\n"
        "Exit status: PROGRAM's; 2 wrong command line, 125 the run cannot be prepared,\n"
        "126 PROGRAM cannot be run, 127 PROGRAM was not found.\n",
    .run = run,
};
