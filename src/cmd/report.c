/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan report`: a heap dump as a table. */
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

static int read_sort(struct report_options *options, const char *word)
{
    static const struct {
        const char *word;
        enum profile_value value;
    } sorts[] = {{"inuse", PROFILE_INUSE_BYTES}, {"alloc", PROFILE_ALLOC_BYTES}, {"objects", PROFILE_INUSE_OBJECTS}};
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++)
        if (strcmp(word, sorts[i].word) == 0) {
            options->sort = sorts[i].value;
            return 0;
        }
    cmd_error("--sort: '%s' is not inuse, alloc or objects", word);
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

static int read_options(struct report_options *options, int argc, char **argv)
{
    static const struct option long_options[] = {
        {"sort", required_argument, NULL, 's'},
        {"top", required_argument, NULL, 't'},
        {"bytes", no_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    int status = 0;
    for (int option; status == 0 && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (option == 's')
            status = read_sort(options, optarg);
        else if (option == 't')
            status = read_top(options, optarg);
        else if (option == 'b')
            options->exact = true;
        else
            status = STATUS_USAGE;
    }
    return status;
}

/* Says what is wrong with the file; NULL if nothing is. */
static const char *print_file(const char *path, const struct report_options *options)
{
    uint8_t *data;
    size_t bytes;
    struct profile profile = {0};
    const char *error = inflate_file(path, &data, &bytes);
    if (error == NULL)
        error = profile_parse(&profile, data, bytes);
    if (error == NULL && report_table_print(&profile, options) != 0)
        error = "out of memory";
    profile_free(&profile);
    free(data);
    return error;
}

static int run(int argc, char **argv)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    struct report_options options = {.sort = PROFILE_INUSE_BYTES, .top = is_terminal ? TERMINAL_ROWS : 0,
                                     .bold = is_terminal && wants_bold(), .columns = find_columns(is_terminal)};
    int status = read_options(&options, argc, argv);
    if (status != 0)
        return status;
    if (argc - optind != 1) {
        cmd_error("%s; see 'jespan help report'", optind == argc ? "which file?" : "one file at a time");
        return STATUS_USAGE;
    }
    text_init();
    const char *error = print_file(argv[optind], &options);
    if (error != NULL) {
        cmd_error("%s: %s", argv[optind], error);
        return STATUS_USAGE;
    }
    return cmd_finish_output();
}

const struct command command_report = {
    .name = "report",
    .summary = "print a heap dump as a table of contexts",
    .usage =
        "usage: jespan report [OPTION…] FILE.pb.gz\n"
        "\n"
        "Prints the contexts of a heap dump, those that hold the most memory first: bytes\n"
        "in use, share of the total, objects in use, bytes ever allocated, and the path of\n"
        "spans with their labels. Reads any heap profile in pprof's format, gzipped or\n"
        "plain.\n"
        "\n"
        "  --sort KEY  inuse (bytes in use, the default), alloc (bytes ever allocated) or\n"
        "              objects (in use); shares are of this\n"
        "  --top N     the first N contexts only; 0: all (default: 50 on a terminal,\n"
        "              else all)\n"
        "  --bytes     bytes in digits instead of KiB, MiB, …\n"
        "\n"
        "Lines are as long as $COLUMNS or the terminal says, 120 characters elsewhere;\n"
        "longer paths lose their middle.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line or file.\n",
    .run = run,
};
