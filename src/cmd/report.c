/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan report`: a dump as a table. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd.h"
#include "inflate.h"
#include "profile.h"
#include "report_kind.h"
#include "report_path.h"
#include "report_table.h"
#include "text.h"

#define FILE_COLUMNS 120 /* when the output is no terminal */
#define MIN_COLUMNS 60
#define TERMINAL_ROWS 50 /* shown on a terminal unless --top says otherwise */

static size_t clamp_columns(unsigned long columns)
{
    return columns < MIN_COLUMNS ? MIN_COLUMNS : columns > REPORT_MAX_COLUMNS ? REPORT_MAX_COLUMNS : columns;
}

static size_t find_columns(bool is_terminal)
{
    struct winsize size;
    const char *said = getenv("COLUMNS");
    unsigned long columns = said == NULL ? 0 : strtoul(said, NULL, 10);
    if (columns > 0)
        return clamp_columns(columns);
    if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return clamp_columns(size.ws_col);
    return FILE_COLUMNS;
}

static bool wants_bold(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (no_color == NULL || no_color[0] == '\0') && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

/* Whether any kind of profile can be sorted by it. */
static int check_sort(const char *word)
{
    for (int kind = 0; kind < PROFILE_N_KINDS; kind++)
        if (report_kind_sort(&report_kinds[kind], word) >= 0)
            return 0;
    cmd_error("--sort: '%s' is none of inuse, alloc, objects; cpu, busy, wall, opens", word);
    return STATUS_USAGE;
}

static int read_top(struct report_options *options, const char *word)
{
    char *end;
    errno = 0;
    options->top = strtoull(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && *end == '\0' && errno == 0)
        return 0;
    cmd_error("--top: '%s' is not a number", word);
    return STATUS_USAGE;
}

static int read_options(struct report_options *options, const char **sort, int argc, char **argv)
{
    static const struct option long_options[] = {
        {"sort", required_argument, NULL, 's'},
        {"top", required_argument, NULL, 't'},
        {"inclusive", no_argument, NULL, 'i'},
        {"exact", no_argument, NULL, 'e'},
        {"bytes", no_argument, NULL, 'e'}, /* what it was called first */
        {NULL, 0, NULL, 0},
    };
    int status = 0;
    for (int option; status == 0 && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (option == 's')
            status = check_sort(*sort = optarg);
        else if (option == 't')
            status = read_top(options, optarg);
        else if (option == 'i')
            options->inclusive = true;
        else if (option == 'e')
            options->exact = true;
        else
            status = STATUS_USAGE;
    }
    return status;
}

/* `sort` is a word, or NULL for the default. */
static const char *choose_sort(struct report_options *options, const struct profile *profile, const char *sort)
{
    const struct report_kind *kind = &report_kinds[profile->kind];
    options->sort = sort == NULL ? kind->sorts[0].value : report_kind_sort(kind, sort);
    if (options->sort >= 0)
        return NULL;
    return profile->kind == PROFILE_HEAP ? "a heap profile is sorted by inuse, alloc or objects"
                                         : "a time profile is sorted by cpu, busy, wall or opens";
}

static const char *print_table(const struct profile *profile, const struct report_options *options)
{
    int error = report_table_print(profile, options);
    return error == 0 ? NULL : error == -E2BIG ? "too many contexts for --inclusive" : "out of memory";
}

/* Says what is wrong with the file; NULL if nothing is. */
static const char *print_file(const char *path, struct report_options *options, const char *sort)
{
    uint8_t *data;
    size_t bytes;
    struct profile profile = {0};
    const char *error = inflate_file(path, &data, &bytes);
    if (error == NULL)
        error = profile_parse(&profile, data, bytes);
    if (error == NULL)
        error = choose_sort(options, &profile, sort);
    if (error == NULL)
        error = print_table(&profile, options);
    profile_free(&profile);
    free(data);
    return error;
}

static int run(int argc, char **argv)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    struct report_options options = {.top = is_terminal ? TERMINAL_ROWS : 0, .bold = is_terminal && wants_bold(),
                                     .columns = find_columns(is_terminal)};
    const char *sort = NULL;
    int status = read_options(&options, &sort, argc, argv);
    if (status != 0)
        return status;
    if (argc - optind != 1) {
        cmd_error("%s; see 'jespan help report'", optind == argc ? "there is no FILE" : "there is more than one FILE");
        return STATUS_USAGE;
    }
    text_init();
    const char *error = print_file(argv[optind], &options, sort);
    if (error != NULL) {
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
        "\n"
        "Prints the contexts of a dump with the path of spans and their labels. Of a heap\n"
        "dump, those that hold the most memory first: bytes in use, share of the total,\n"
        "objects in use, bytes ever allocated. Of a dump of times (time.PID.NUMBER.pb.gz),\n"
        "those that took most CPU time first: CPU time, share, time entered, time that\n"
        "spans were open, spans opened, mean time open. Reads any heap profile in pprof's\n"
        "format, gzipped or plain.\n"
        "\n"
        "  --sort KEY   of a heap dump inuse (bytes in use, the default), alloc (bytes ever\n"
        "               allocated) or objects (in use); of times cpu (the default), busy,\n"
        "               wall or opens; shares are of this\n"
        "  --top N      the first N contexts only; 0: all (default: 50 on a terminal,\n"
        "               else all)\n"
        "  --inclusive  each context with all contexts below it\n"
        "  --exact      bytes and nanoseconds in digits instead of KiB or ms; --bytes is\n"
        "               the same\n"
        "\n"
        "Lines are as long as $COLUMNS or the terminal says, 120 characters elsewhere;\n"
        "longer paths lose their middle.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line or file.\n",
    .run = run,
};
