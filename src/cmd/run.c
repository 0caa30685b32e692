/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan run`: starts a program with libjespan.so preloaded and configured.
 *
 * The process becomes the program, so that process id, exit status, signals and terminal are the program's own.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cmd.h"
#include "conf/conf.h"
#include "run.h"

#define MAX_INTERVAL_S (86400ul * 365)
#define MAX_KEEP (1ul << 30)
#define MAX_BYTES (UINT64_C(1) << 50)

static int check_number(const char *option, const char *text, unsigned long maximum)
{
    char *end;
    errno = 0;
    if (!text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= maximum)
        return 0;
    cmd_error("%s: '%s' is not a number from 0 to %lu", option, text, maximum);
    return STATUS_USAGE;
}

static int check_bytes(const char *option, const char *text)
{
    uint64_t bytes;
    if (!text || (bytes_parse(text, &bytes) == 0 && bytes <= MAX_BYTES))
        return 0;
    cmd_error("%s: '%s' is not a number of bytes from 0 to 1024T, as 500M", option, text);
    return STATUS_USAGE;
}

/* For values that JESPAN_CONF takes as they are. The message leaves the value out: a URL may contain a password. */
static int check_value(const char *option, const char *value)
{
    if (!value)
        return 0;
    if (value[0] == '\0')
        cmd_error("%s: the value is empty", option);
    else if (strchr(value, ','))
        cmd_error("%s: the value cannot contain a ','", option);
    else if (strlen(value) >= CONF_STRING_BYTES)
        cmd_error("%s: the value is longer than %d bytes", option, CONF_STRING_BYTES - 1);
    else
        return 0;
    return STATUS_USAGE;
}

/* For lists. Empty items of a list do not count. */
static int check_list(const char *option, const char *list)
{
    int status = check_value(option, list);
    if (status != 0 || !list || list[strspn(list, "|")] != '\0')
        return status;
    cmd_error("%s: '%s' is a list without an item", option, list);
    return STATUS_USAGE;
}

static int check_url(const char *option, const char *url)
{
    int status = check_value(option, url);
    if (status != 0 || !url)
        return status;
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (scheme > 0 && url[scheme] != '\0')
        return 0;
    cmd_error("%s: the URL is not http://… or https://…", option);
    return STATUS_USAGE;
}

static int check_values(const struct run_options *options)
{
    const struct {
        int (*check)(const char *option, const char *value);
        const char *option, *value;
    } checks[] = {{check_url, "--pyroscope", options->pyroscope},
                  {check_value, "--app", options->app},
                  {check_value, "--http", options->http},
                  {check_list, "--limit", options->limit},
                  {check_list, "--arena", options->arena},
                  {check_list, "--dump-on", options->dump_on},
                  {check_list, "--only", options->only}};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof checks / sizeof *checks; i++)
        status = checks[i].check(checks[i].option, checks[i].value);
    return status;
}

/* Returns only if the program could not be started. */
static int start(const struct run_options *options, char **argv)
{
    struct run_library library;
    struct run_program program;
    struct run_environment environment = {0};
    char dump_dir[PATH_MAX] = "";
    int status = run_program_find(&program, argv[0]);
    if (status == 0)
        status = run_library_find(&library, options->lib);
    if (status == 0 && run_wants_dumps(options))
        status = run_dump_dir_choose(dump_dir, options);
    if (status == 0)
        status = run_environment_make(&environment, options, dump_dir, &library);
    if (status != 0)
        return status;
    run_program_check(&program, library.path);
    run_dump_dir_check_workers(dump_dir, options);
    execvpe(program.path, argv, environment.all);
    int error = errno;
    cmd_error("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

enum {
    OPTION_DUMP_DIR = 1,
    OPTION_INTERVAL,
    OPTION_KEEP,
    OPTION_PYROSCOPE,
    OPTION_APP,
    OPTION_HTTP,
    OPTION_CONF,
    OPTION_LIB,
    OPTION_TIME,
    OPTION_FOLLOW_FORK,
    OPTION_LIMIT,
    OPTION_ARENA,
    OPTION_DUMP_ON,
    OPTION_ONLY,
    OPTION_DIR_FILES,
    OPTION_DIR_BYTES,
    OPTION_HELP = 'h',
};

static const struct option long_options[] = {
    {"dump-dir", required_argument, NULL, OPTION_DUMP_DIR},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"keep", required_argument, NULL, OPTION_KEEP},
    {"pyroscope", required_argument, NULL, OPTION_PYROSCOPE},
    {"app", required_argument, NULL, OPTION_APP},
    {"http", required_argument, NULL, OPTION_HTTP},
    {"conf", required_argument, NULL, OPTION_CONF},
    {"lib", required_argument, NULL, OPTION_LIB},
    {"time", no_argument, NULL, OPTION_TIME},
    {"follow-fork", no_argument, NULL, OPTION_FOLLOW_FORK},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"arena", required_argument, NULL, OPTION_ARENA},
    {"dump-on", required_argument, NULL, OPTION_DUMP_ON},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"dir-files", required_argument, NULL, OPTION_DIR_FILES},
    {"dir-bytes", required_argument, NULL, OPTION_DIR_BYTES},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* Stops at the first word that is not an option: the rest is the program's. */
static int read_options(struct run_options *options, int argc, char **argv)
{
    const char **const values[] = {[OPTION_DUMP_DIR] = &options->dump_dir, [OPTION_INTERVAL] = &options->interval,
                                   [OPTION_KEEP] = &options->keep, [OPTION_PYROSCOPE] = &options->pyroscope,
                                   [OPTION_APP] = &options->app, [OPTION_HTTP] = &options->http,
                                   [OPTION_CONF] = &options->conf, [OPTION_LIB] = &options->lib,
                                   [OPTION_LIMIT] = &options->limit, [OPTION_ARENA] = &options->arena,
                                   [OPTION_DUMP_ON] = &options->dump_on, [OPTION_ONLY] = &options->only,
                                   [OPTION_DIR_FILES] = &options->dir_files,
                                   [OPTION_DIR_BYTES] = &options->dir_bytes};
    for (int option; (option = getopt_long(argc, argv, "+h", long_options, NULL)) != -1;) {
        if (option == '?')
            return STATUS_USAGE;
        if (option == OPTION_HELP)
            options->help = true;
        else if (option == OPTION_TIME)
            options->time = true;
        else if (option == OPTION_FOLLOW_FORK)
            options->follow_fork = true;
        else
            *values[option] = optarg;
    }
    int status = check_number("--interval", options->interval, MAX_INTERVAL_S);
    if (status == 0)
        status = check_number("--keep", options->keep, MAX_KEEP);
    if (status == 0)
        status = check_number("--dir-files", options->dir_files, MAX_KEEP);
    if (status == 0)
        status = check_bytes("--dir-bytes", options->dir_bytes);
    return status != 0 ? status : check_values(options);
}

static int run(int argc, char **argv)
{
    struct run_options options = {0};
    int status = read_options(&options, argc, argv);
    if (status != 0)
        return status;
    if (options.help)
        return cmd_help("run");
    if (optind == argc) {
        cmd_error("there is no PROGRAM to run; see 'jespan help run'");
        return STATUS_USAGE;
    }
    return start(&options, argv + optind);
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program under jespan, with heap dumps or pushes every few seconds",
    .usage =
        "usage: jespan run [OPTION…] -- PROGRAM [ARGUMENT…]\n"
        "\n"
        "Runs PROGRAM with jespan as its malloc. Heap dumps, heap.PID.NUMBER.pb.gz, are\n"
        "written every few seconds and at exit; read them with 'jespan report' or\n"
        "'go tool pprof'. Programs that PROGRAM executes are tracked too and write their\n"
        "own, at exit only if they ran for a second or --interval is 0. With\n"
        "--pyroscope or --http there are dumps only where --dump-dir, --interval,\n"
        "--keep, --dir-files, --dir-bytes, --time or --dump-on asks for them.\n"
        "\n"
        "  --dump-dir DIR  where dumps go, created if missing (default: the current\n"
        "                  directory)\n"
        "  --interval S    seconds between dumps; 0: only at exit (default: 10)\n"
        "  --keep N        keep the newest N dumps of a process (default: 0, all)\n"
        "  --dir-files N   keep the newest N files in DIR, whichever process wrote them\n"
        "                  (default: 0, all)\n"
        "  --dir-bytes N   keep the newest files of N bytes in all, as 500M (default: 0,\n"
        "                  all)\n"
        "  --only PROGRAMS only programs of these names, 'NAME|NAME*'; others are left out,\n"
        "                  even PROGRAM itself\n"
        "  --time          write a dump of times beside each heap dump,\n"
        "                  time.PID.NUMBER.pb.gz\n"
        "  --dump-on EVENTS\n"
        "                  dump at these events too: 'oom|limit|peak'\n"
        "  --limit LIMITS  the most bytes that spans may have in use:\n"
        "                  'NAME=64M|NAME{KEY=VALUE}=1G'\n"
        "  --arena ARENAS  spans that get pages of their own: 'NAME|NAME=WISH+WISH'\n"
        "  --pyroscope URL push profiles to this Pyroscope server\n"
        "  --app NAME      the name that the server shows (default: the program's)\n"
        "  --http ADDRESS  answer HTTP at ADDRESS:PORT or unix:PATH: profiles, /metrics\n"
        "  --follow-fork   include processes that are forked without executing a program\n"
        "  --conf STRING   more of JESPAN_CONF's key:value,…; wins over the options and\n"
        "                  the variable\n"
        "  --lib PATH      the libjespan.so to use (default: $JESPAN_LIB, or the one that\n"
        "                  belongs to this command)\n"
        "\n"
        "Exit status: PROGRAM's; 2 wrong command line, 125 the run cannot be prepared,\n"
        "126 PROGRAM cannot be run, 127 PROGRAM was not found.\n",
    .run = run,
};
