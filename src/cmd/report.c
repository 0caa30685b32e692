/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan report`: the options, and errors in words. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd.h"
#include "outside.h"
#include "profile.h"
#include "report.h"
#include "text.h"

#define FILE_COLUMNS 120 /* if the output is no terminal */
#define MIN_COLUMNS 60
#define TERMINAL_ROWS 50 /* shown on a terminal unless --top says otherwise */

static size_t clamp_columns(unsigned long columns)
{
    return columns < MIN_COLUMNS ? MIN_COLUMNS : columns > REPORT_MAX_COLUMNS ? REPORT_MAX_COLUMNS : columns;
}

static size_t find_columns(bool is_terminal)
{
    struct winsize size;
    const char *variable = getenv("COLUMNS");
    bool is_number = variable && variable[0] >= '0' && variable[0] <= '9';
    unsigned long columns = is_number ? strtoul(variable, NULL, 10) : 0;
    if (columns > 0)
        return clamp_columns(columns);
    if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return clamp_columns(size.ws_col);
    return FILE_COLUMNS;
}

static bool wants_bold(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool knows_bold = terminal && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
    return knows_bold && (!no_color || no_color[0] == '\0');
}

/* The kind of profile is not known yet. */
static int check_sort(const char *word)
{
    for (int kind = 0; kind < PROFILE_N_KINDS; kind++)
        if (report_sort((enum profile_kind)kind, word) >= 0)
            return 0;
    cmd_error("--sort: '%s' is none of inuse, alloc, objects; cpu, busy, wall, opens", word);
    return STATUS_USAGE;
}

static int read_top(struct report_options *options, const char *word)
{
    char *end;
    errno = 0;
    options->top = strtoull(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && *end == '\0' && errno == 0 && options->top <= UINT32_MAX)
        return 0;
    cmd_error("--top: '%s' is not a number from 0 to %" PRIu32, word, UINT32_MAX);
    return STATUS_USAGE;
}

static int read_options(struct report_options *options, const char **sort, bool *help, bool *time, int argc, char **argv)
{
    static const struct option long_options[] = {
        {"sort", required_argument, NULL, 's'},
        {"top", required_argument, NULL, 't'},
        {"inclusive", no_argument, NULL, 'i'},
        {"exact", no_argument, NULL, 'e'},
        {"bytes", no_argument, NULL, 'e'}, /* its first name */
        {"time", no_argument, NULL, 'T'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int status = 0;
    for (int option; status == 0 && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        if (option == 's')
            status = check_sort(*sort = optarg);
        else if (option == 't')
            status = read_top(options, optarg);
        else if (option == 'h')
            *help = true;
        else if (option == 'T')
            *time = true;
        else if (option == 'i')
            options->inclusive = true;
        else if (option == 'e')
            options->exact = true;
        else
            status = STATUS_USAGE;
    }
    return status;
}

static const char *describe(int error)
{
    switch (error) {
    case 0:
        return NULL;
    case -E2BIG:
        return "too many contexts for --inclusive";
    case -EBADMSG:
        return "not a pprof profile";
    default:
        return "out of memory";
    }
}

static const char *print(struct profile *profile, struct report_options *options, const char *sort)
{
    options->sort = report_sort(profile->kind, sort);
    if (options->sort >= 0)
        return describe(report_print(profile, options));
    return profile->kind == PROFILE_HEAP ? "a heap profile is sorted by inuse, alloc or objects"
                                         : "a time profile is sorted by cpu, busy, wall or opens";
}

/* Returns NULL, or the reason why the file cannot be printed. `sort` is NULL for the default. */
static const char *print_file(const char *path, struct report_options *options, const char *sort)
{
    struct profile profile;
    const char *error = profile_read(&profile, path);
    if (!error)
        error = print(&profile, options, sort);
    profile_free(&profile);
    return error;
}

/* A word of digits that no file is called is a process. Its dump never comes to a disk. */
static const char *print_process(pid_t pid, enum exporter_profile profile, struct report_options *options, const char *sort)
{
    char path[32];
    struct outside process;
    const char *reason = outside_read(&process, pid);
    if (reason)
        return reason;
    int fd = memfd_create("jespan-report", MFD_CLOEXEC), error = fd < 0 ? -errno : outside_write(&process, profile, fd);
    outside_close(&process);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    reason = error ? strerror(-error) : print_file(path, options, sort);
    if (fd >= 0)
        close(fd);
    return reason;
}

static const char *print_word(const char *word, bool time, struct report_options *options, const char *sort)
{
    pid_t pid = access(word, F_OK) != 0 ? cmd_pid(word) : 0;
    if (pid != 0)
        return print_process(pid, time ? EXPORTER_TIME : EXPORTER_HEAP, options, sort);
    return time ? "--time is for a process's number" : print_file(word, options, sort);
}

static int run(int argc, char **argv)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    struct report_options options = {.top = is_terminal ? TERMINAL_ROWS : 0, .bold = is_terminal && wants_bold(),
                                     .columns = find_columns(is_terminal)};
    const char *sort = NULL;
    bool help = false, time = false;
    int status = read_options(&options, &sort, &help, &time, argc, argv);
    if (status != 0 || help)
        return status != 0 ? status : cmd_help("report");
    if (argc - optind != 1) {
        cmd_error("%s; see 'jespan help report'", optind == argc ? "there is no FILE" : "there is more than one FILE");
        return STATUS_USAGE;
    }
    text_init();
    const char *error = print_word(argv[optind], time, &options, sort);
    if (error) {
        cmd_error("%s: %s", argv[optind], error);
        return STATUS_USAGE;
    }
    return cmd_finish_output();
}

const struct command command_report = {
    .name = "report",
    .summary = "print a dump as a table of contexts",
    .usage =
        "usage: jespan report [OPTION…] FILE.pb.gz\n"
        "       jespan report [OPTION…] PID\n"
        "\n"
        "Prints the contexts of a dump: the path of spans and their labels. A heap dump\n"
        "comes with bytes in use, share of the total, objects in use and bytes ever\n"
        "allocated. A dump of times (time.PID.NUMBER.pb.gz) comes with CPU time, share,\n"
        "busy time, wall time, spans opened and mean time open. FILE may be any heap\n"
        "profile in pprof's format, gzipped or plain. A PID is a process to be read now, as\n"
        "'jespan dump' does.\n"
        "\n"
        "  --sort KEY   the largest first, and shares of it. For a heap dump: inuse (bytes\n"
        "               in use, the default), alloc (bytes ever allocated) or objects (in\n"
        "               use). For times: cpu (the default), busy, wall or opens\n"
        "  --top N      the first N contexts only; 0: all (default: 50 on a terminal,\n"
        "               else all)\n"
        "  --time       times of the process, not its heap\n"
        "  --inclusive  each context with all contexts below it\n"
        "  --exact      bytes and nanoseconds in digits, not in KiB or ms; --bytes is the\n"
        "               same\n"
        "\n"
        "Lines are as wide as $COLUMNS or the terminal says, else 120 columns. A longer\n"
        "path loses its middle.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line or file.\n",
    .run = run,
};
