/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan report`: the options, and the pager. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "profile/allocators.h"
#include "report.h"

#define FILE_COLUMNS 120 /* if the output is no terminal */
#define MIN_COLUMNS 60
#define KEPT_BYTES ((size_t)64 << 20) /* of samples */
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

/* ---- Options ---- */

struct words {
    struct report_source source;
    struct report_query query;
    struct report_filter *filter;
    bool diff, pager, peak;
};

/* The kind of profile is not known yet. */
static int read_sort(void *data, const char *word)
{
    struct report_options *options = data;
    options->sort = word;
    if (report_knows_sort(word))
        return 0;
    cmd_error("--sort: '%s' is none of inuse, alloc, objects, allocs, peak, atpeak, temporary, lifetime; cpu, busy, wall, opens", word);
    return STATUS_USAGE;
}

static int read_by(void *data, const char *word)
{
    struct words *words = data;
    if (report_by_find(word, &words->query.by, &words->query.argument))
        return 0;
    cmd_error("--by: '%s' is none of path, name, site, thread, label:KEY; function, line, file, library", word);
    return STATUS_USAGE;
}

static int read_options(struct report_options *options, struct words *words, int argc, char **argv)
{
    const struct cmd_option rows[] = {
        {"sort", .read = read_sort, .data = options},
        {"top", .count = &options->top},
        {"min-bytes", .bytes = &options->min_bytes},
        {"by", .read = read_by, .data = words},
        {"filter", .read = report_filter_read, .data = &words->filter},
        {"at", .text = &words->source.at},
        {"columns", .text = &options->wanted},
        {"tree", .on = &options->tree},
        {"stacks", .choice = &words->source.frames, .chosen = REPORT_CALLS},
        {"allocator", .read = allocators_read},
        {"all-frames", .on = &words->source.all_frames},
        {"diff", .on = &words->diff},
        {"inclusive", .on = &words->query.inclusive},
        {"exact", .on = &options->exact},
        {"bytes", .on = &options->exact}, /* its first name */
        {"peak", .on = &words->peak},
        {"time", .on = &words->source.time},
        {"json", .choice = &options->format, .chosen = REPORT_JSON},
        {"csv", .choice = &options->format, .chosen = REPORT_CSV},
        {"markdown", .choice = &options->format, .chosen = REPORT_MARKDOWN},
        {"svg", .choice = &options->format, .chosen = REPORT_SVG},
        {"folded", .choice = &options->format, .chosen = REPORT_FOLDED},
        {"no-pager", .off = &words->pager},
        {0},
    };
    return cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
}

static const char *find_contradiction(const struct report_options *options, const struct words *words)
{
    if (options->tree && words->query.by)
        return "--tree is for paths: it cannot go with another --by";
    if (options->tree && words->diff)
        return "--tree and --diff cannot go together";
    if (options->format == REPORT_SVG && (words->query.by || words->diff))
        return words->diff ? "--svg and --diff cannot go together" : "--svg is for paths: it cannot go with another --by";
    if (options->format >= REPORT_FOLDED && options->sort && (strcmp(options->sort, "peak") == 0 || strcmp(options->sort, "lifetime") == 0))
        return "--svg and --folded are for figures that add up: they cannot go with --sort peak or lifetime; atpeak does";
    if (words->peak && (words->diff || words->source.time))
        return words->diff ? "--peak and --diff cannot go together" : "--peak is for memory, and not for times";
    if (options->format == REPORT_FOLDED && (words->query.by || options->tree || words->query.inclusive || words->diff))
        return "--folded is for each path alone: it cannot go with --by, --tree, --inclusive or --diff";
    if (words->source.all_frames && words->source.frames != REPORT_CALLS && !(words->query.by && words->query.by->of_calls))
        return "--all-frames is for stacks: with --stacks, or --by function, line, file or library";
    if (words->source.frames == REPORT_CALLS && words->source.time)
        return "times have no stacks";
    if (words->source.frames == REPORT_CALLS && words->query.by && !words->query.by->of_calls)
        return "--stacks is for paths, and for --by function, line, file and library";
    return NULL;
}

/* ---- Output ---- */

/* Standard output goes through a pager if it is a terminal and there is a keyboard. Returns its process, or 0. */
static pid_t start_pager(const struct words *words)
{
    const char *pager = getenv("JESPAN_PAGER") ? getenv("JESPAN_PAGER") : getenv("PAGER");
    int ends[2];
    if (!words->pager || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || (pager && strcmp(pager, "cat") == 0) ||
        pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    setenv("LESS", "FRX", 0); /* ends at once if one screen is enough; shows colours */
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        execlp("sh", "sh", "-c", pager && pager[0] ? pager : "if command -v less > /dev/null; then exec less; else exec cat; fi",
               (char *)NULL);
        _exit(STATUS_NOT_FOUND);
    }
    if (pid > 0) {
        /* ^C goes to both processes. The pager may stay and keep the terminal, so report waits for its end. */
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
        dup2(ends[1], STDOUT_FILENO);
    }
    close(ends[0]);
    close(ends[1]);
    return pid > 0 ? pid : 0;
}

/* A pager that was quit reads no more, which is no error. */
static int finish(pid_t pager)
{
    if (pager == 0)
        return cmd_finish_output();
    fflush(stdout);
    close(STDOUT_FILENO);
    while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

/* The dump of a peak, which also has the objects and stacks of that moment, is shown as any other. */
static void choose_peak(struct words *words, struct report_options *options, const struct report_input *input)
{
    if (words->peak && !(words->source.peak && report_input_is_of_peak(input))) {
        bool of_calls = options->chains || (words->query.by && words->query.by->of_calls);
        options->sort = options->sort ? options->sort : "atpeak";
        options->wanted = options->wanted ? options->wanted : of_calls ? "atpeak,share,inuse" : "atpeak,share,peak,inuse";
    }
    words->query.with_peaks = report_wants_peaks(options);
}

/* Reads one profile, or two, and prints them. Returns the exit status. */
static int print(struct words *words, struct report_options *options, char *const *inputs, uint32_t n)
{
    static struct report_input input[2];
    const char *reason = NULL;
    uint32_t n_read = 0;
    pid_t pager = 0;
    while (n_read < n && !reason) {
        reason = report_input_read(&input[n_read], inputs[n_read], &words->source);
        n_read++;
    }
    if (!reason) {
        choose_peak(words, options, input);
        pager = start_pager(words);
        if (pager != 0)
            signal(SIGPIPE, SIG_IGN);
        reason = report_print(input, n, &words->query, options);
    }
    if (reason)
        cmd_error("%s: %s", input[n_read - 1].name, reason);
    for (uint32_t i = 0; i < n_read; i++)
        report_input_free(&input[i]);
    int status = finish(pager);
    return reason ? STATUS_USAGE : status;
}

/* The columns that go with --sort, so that the figure is among them. NULL: the usual ones. */
static const char *columns_of(const char *sort, bool diff)
{
    static const struct {
        const char *sort, *columns, *diff_columns;
    } rows[] = {{"temporary", "temporary,share,allocs,alloc", "temporary,allocs,alloc"},
                {"lifetime", "lifetime,allocs,inuse,objects,alloc", NULL},
                {"peak", "peak,share,inuse,objects,alloc", NULL},
                {"atpeak", "atpeak,share,inuse,objects,alloc", NULL}};
    for (size_t i = 0; sort && i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(sort, rows[i].sort) == 0)
            return diff ? rows[i].diff_columns : rows[i].columns;
    return NULL;
}

static int run(int argc, char **argv)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    struct report_options options = {.bold = is_terminal && wants_bold(), .columns = find_columns(is_terminal)};
    struct words words = {.pager = true, .query = {.argument = ""}, .source = {.kept_bytes = KEPT_BYTES}};
    options.top = is_terminal ? TERMINAL_ROWS : 0;
    int status = read_options(&options, &words, argc, argv);
    const char *contradiction = find_contradiction(&options, &words);
    uint32_t n = words.diff ? 2 : 1;
    if (status == OPTIONS_READ && contradiction)
        cmd_error("%s", contradiction), status = STATUS_USAGE;
    else if (status == OPTIONS_READ && n == 2 && argc - optind != 2)
        cmd_error("--diff needs two inputs, OLD and NEW; see 'jespan help report'"), status = STATUS_USAGE;
    else if (status == OPTIONS_READ && n == 1 && !cmd_only_word(argc, argv, "INPUT"))
        status = STATUS_USAGE;
    else if (status == OPTIONS_READ) {
        text_init();
        if (options.format == REPORT_SVG)
            options.tree = true, options.top = 0;
        bool by_calls = words.query.by && words.query.by->of_calls;
        words.source.frames = by_calls ? REPORT_CALLS : words.source.frames;
        words.source.peak = words.peak && words.source.frames == REPORT_CALLS;
        options.chains = options.tree && words.source.frames == REPORT_CALLS && options.format != REPORT_SVG;
        words.query.filter = words.filter;
        if (!options.wanted)
            options.wanted = columns_of(options.sort, words.diff);
        words.query.inclusive |= options.tree || by_calls;
        words.query.with_own = options.tree || (by_calls && !words.diff);
        status = print(&words, &options, argv + optind, n);
    }
    report_filter_free(words.filter);
    return status;
}

const struct command command_report = {
    .name = "report",
    .summary = "print who holds memory: of a dump, a process or a page",
    .usage =
        "usage: jespan report [OPTION…] INPUT\n"
        "       jespan report [OPTION…] --diff OLD NEW\n"
        "\n"
        "Prints the contexts of a dump: the path of spans and their labels. A heap dump\n"
        "comes with bytes in use, share of the total, objects in use and bytes ever\n"
        "allocated. A dump of times (time.PID.NUMBER.pb.gz) comes with CPU time, share,\n"
        "busy time, wall time, spans opened and mean time open.\n"
        "\n"
        "INPUT, OLD and NEW are each one of these:\n"
        "  FILE         any heap profile in pprof's format, gzipped or plain\n"
        "  -            the same from standard input\n"
        "  DIRECTORY    the newest dump in it, of the largest process\n"
        "  URL          http://HOST:PORT or unix:PATH of a program that answers HTTP;\n"
        "               JESPAN_HTTP_TOKEN is the token that it wants\n"
        "  PID          a process, read from outside, as 'jespan dump' does\n"
        "  CORE         the core file or the state file of a process, as it was when it died\n"
        "\n"
        "What is shown:\n"
        "  --by KEY     a row for each path (the default), name (the innermost span), site\n"
        "               (its place in the code), thread, or label:KEY (a label's value)\n"
        "  --stacks     paths go on into the calls that allocated, of a program that runs with\n"
        "               stacks ('jespan run --stacks'). With --tree it is a call tree\n"
        "  --by KEY     with stacks: a row for each function, line, file or library: all\n"
        "               that it and its callees allocated, and alone (OWN)\n"
        "  --allocator NAME  a function that allocates for its callers, as xmalloc does: it\n"
        "               is left out; 'pool_*' is all of these names. May be repeated\n"
        "  --all-frames  also functions of the allocator and of libc's start\n"
        "  --tree       contexts below each other, each with all below it, and alone (OWN)\n"
        "  --inclusive  each row with all contexts below it\n"
        "  --diff       what has grown and what has shrunk from OLD to NEW, and how much\n"
        "               a minute\n"
        "  --filter EXPR  only contexts that fit: 'cache' (a span of that name is on the\n"
        "               path), 'request > cache' (below each other; ** is any number of\n"
        "               spans), 'cache{tenant=b*}' (with a label), '!cache' (not), 'a|b'\n"
        "               (one of them), '~^get_(a|b)' (a name on the path fits this\n"
        "               regular expression). Several --filter must all fit\n"
        "  --top N      the first N rows only; 0: all (default: 50 on a terminal, else\n"
        "               all)\n"
        "  --min-bytes N  only rows that have so many bytes, as 500K, and with --tree those\n"
        "               above them\n"
        "  --sort KEY   the largest first, and shares of it. For a heap dump: inuse (bytes\n"
        "               in use, the default), alloc (bytes ever allocated), objects (in use),\n"
        "               allocs, peak (the most that was in use at once), atpeak (what was\n"
        "               in use when the process had most), temporary (allocations that\n"
        "               were freed before the next one; with stacks) or lifetime (the\n"
        "               mean, with lifetimes:true). For times: cpu (the default), busy,\n"
        "               wall or opens\n"
        "  --columns LIST  these columns, as inuse,share,objects,alloc,allocs,freed,\n"
        "               frees,size,peak,atpeak,temporary,lifetime. A wrong word makes it\n"
        "               list all of them\n"
        "  --at TIME    the dump of a directory that was the newest then: 12:04,\n"
        "               '2026-11-24 12:04:30', -10m (so long ago) or @SECONDS\n"
        "  --peak       who held memory when the process had most: --sort atpeak with the\n"
        "               columns for it. With --stacks, of a directory the newest dump of a\n"
        "               peak ('jespan run --peak') if there is one, which is shown as it is\n"
        "  --time       times of a process, a URL (of the next 30 seconds) or a directory,\n"
        "               not the heap\n"
        "\n"
        "How it is shown:\n"
        "  --json       for other programs; figures are in bytes and nanoseconds\n"
        "  --csv        the same, a line for each row\n"
        "  --markdown   a table for a page\n"
        "  --svg        a flame graph of the figure of --sort, as an SVG file\n"
        "  --folded     folded stacks, for flame graph tools: a line for each path, with the\n"
        "               figure of --sort in bytes, nanoseconds or objects\n"
        "  --exact      bytes and nanoseconds in digits, not in KiB or ms; --bytes is the\n"
        "               same\n"
        "  --no-pager   on a terminal, a long table goes through $JESPAN_PAGER, $PAGER or\n"
        "               less otherwise\n"
        "\n"
        "Lines are as wide as $COLUMNS or the terminal says, else 120 columns. A longer\n"
        "path loses its middle. NO_COLOR turns colours off.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line or input.\n",
    .run = run,
};
