/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan top`: who holds and who allocates, while a process runs. */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/report.h"
#include "console/command.h"
#include "console/options.h"
#include "top.h"

#define PIPE_COLUMNS 120

struct options {
    uint64_t interval_ms, count; /* count 0: until the process ends */
    uint64_t rows;               /* 0: all */
    bool batch;
};

/* ---- Batch ---- */

static void print_line(const struct text *text)
{
    text_print(text);
    putchar('\n');
}

static void print_frame(const struct top *top, const struct options *options)
{
    static struct text text;
    const char *columns_wanted = getenv("COLUMNS");
    size_t columns = columns_wanted && atoi(columns_wanted) > 0 ? (size_t)atoi(columns_wanted) : PIPE_COLUMNS;
    top_title(&text, top, columns);
    print_line(&text);
    top_headings(&text, top, columns);
    print_line(&text);
    for (uint32_t i = 0; i < top->n_rows && (options->rows == 0 || i < options->rows); i++) {
        top_line(&text, top, i, columns);
        print_line(&text);
    }
    if (top_none(top))
        printf("(%s)\n", top_none(top));
    fflush(stdout);
}

static void wait_ms(uint64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Whether there are no more readings because the process has ended, and not after an error. */
static bool has_process_ended(const struct top *top)
{
    return top->url[0] != '\0' ? fetch_met_nobody() : top->ended == top_process_ended;
}

/* Rates need two readings, so the first one is not printed. */
static int run_batch(struct top *top, const struct options *options)
{
    for (uint64_t n = 0; options->count == 0 || n < options->count; n++) {
        wait_ms(options->interval_ms);
        if (top_read(top) != 0) {
            cmd_error("out of memory");
            return STATUS_USAGE;
        }
        if (top->ended)
            break;
        if (n > 0)
            putchar('\n');
        print_frame(top, options);
        if (ferror(stdout))
            break;
    }
    int status = cmd_finish_output();
    if (top->ended && status == 0 && top->url[0] != '\0')
        cmd_error("%s: %s", top->url, top->ended);
    else if (top->ended && status == 0)
        cmd_error("%d: %s", (int)top->pid, top->ended);
    return top->ended && status == 0 && !has_process_ended(top) ? STATUS_USAGE : status;
}

/* ---- Options ---- */

static int read_sort(void *data, const char *word)
{
    struct top *top = data;
    for (unsigned i = 0; i < TOP_N_SORTS; i++)
        if (strcmp(top_sort_names[i], word) == 0) {
            top->sort = (enum top_sort)i;
            return 0;
        }
    cmd_error("--sort: '%s' is none of inuse, growth, alloc, objects", word);
    return STATUS_USAGE;
}

static int read_view(void *data, const char *word)
{
    struct top *top = data;
    for (unsigned i = 0; i < TOP_N_VIEWS; i++)
        if (strcmp(top_view_names[i], word) == 0) {
            top->view = (enum top_view)i;
            return 0;
        }
    cmd_error("--view: '%s' is none of contexts, threads, arenas, limits, stacks", word);
    return STATUS_USAGE;
}

static int read_interval(void *data, const char *word)
{
    struct options *options = data;
    char *end;
    double seconds = strtod(word, &end);
    if (*end != '\0' || end == word || !(seconds >= 0.05 && seconds <= 3600)) {
        cmd_error("--interval: '%s' is not a number of seconds from 0.05 to 3600", word);
        return STATUS_USAGE;
    }
    options->interval_ms = (uint64_t)(seconds * 1000);
    return 0;
}

static int read_filter(void *data, const char *word)
{
    struct top *top = data;
    snprintf(top->filter, sizeof top->filter, "%s", word);
    return 0;
}

static int read_count(void *data, const char *word)
{
    struct options *options = data;
    options->batch = true;
    return cmd_count("--count", word, &options->count);
}

static int read_options(struct top *top, struct options *options, int argc, char **argv)
{
    bool once = false, threads = false;
    const struct cmd_option rows[] = {
        {"sort", .read = read_sort, .data = top},
        {"view", .read = read_view, .data = top},
        {"interval", .read = read_interval, .data = options},
        {"filter", .read = read_filter, .data = top},
        {"top", .count = &options->rows},
        {"count", .read = read_count, .data = options},
        {"once", .on = &once},
        {"flat", .off = &top->tree},
        {"threads", .on = &threads},
        {0},
    };
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    options->batch |= once;
    options->count = once ? 1 : options->count;
    top->view = threads ? TOP_THREADS : top->view;
    return status;
}

#ifndef JESPAN_WITH_NCURSES
int top_show(struct top *top, uint64_t interval_ms)
{
    (void)top, (void)interval_ms;
    cmd_error("this build has no screen, as ncurses was missing (Debian: libncurses-dev): use --once or --count N");
    return STATUS_USAGE;
}
#endif

static int show(struct top *top, const struct options *options, const char *word)
{
    const char *reason = top_open(top, word);
    if (!reason && top_read(top) != 0)
        reason = "out of memory";
    if (!reason && !top->snapshot)
        reason = top->ended;
    if (reason)
        return cmd_fail(word, reason, STATUS_USAGE);
    return options->batch ? run_batch(top, options) : top_show(top, options->interval_ms);
}

static int run(int argc, char **argv)
{
    static struct top top = {.tree = true};
    struct options options = {.interval_ms = 1000, .batch = !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)};
    int status = read_options(&top, &options, argc, argv);
    if (status != OPTIONS_READ)
        return status;
    const char *word = cmd_only_word(argc, argv, "PID");
    if (!word)
        return STATUS_USAGE;
    text_init();
    status = show(&top, &options, word);
    top_close(&top);
    return status;
}

#define KEYS \
    "  1 2 3 4 5      contexts, threads, arenas, limits, stacks\n" \
    "  v              the next of these views\n" \
    "  up, down, page up, page down, home, end    move; also k j g G\n" \
    "  left, right    collapse a row, expand it; enter changes from one to the other\n" \
    "  - +            collapse all, expand all\n" \
    "  t              tree, or each context alone\n" \
    "  s S            sort by the next key, or the one before\n" \
    "  /              filter: type a text, and enter. An empty one shows all\n" \
    "  p, space       pause, and go on\n" \
    "  ? h            show the keys\n" \
    "  q              quit\n"

const char top_keys[] = KEYS;

const struct command command_top = {
    .name = "top",
    .summary = "watch who holds and who allocates memory in a process",
    .usage =
        "usage: jespan top [OPTION…] PID|NAME|URL\n"
        "\n"
        "Shows the contexts of a process while it runs: bytes in use, how fast they grow,\n"
        "and how fast memory is allocated. NAME is a program's. The process is read from\n"
        "outside; it is not asked, stopped or signalled. URL, as http://HOST:PORT/ or\n"
        "unix:PATH, is a program that answers HTTP; ?pid=N chooses one of several.\n"
        "\n"
        "  --interval S   seconds between readings (default: 1)\n"
        "  --sort KEY     inuse (the default), growth, alloc or objects: the largest first\n"
        "  --filter TEXT  only rows with that text in their path or labels\n"
        "  --flat         each context alone, not a tree\n"
        "  --view NAME    contexts (the default), threads, arenas, limits or stacks\n"
        "  --threads      the same as --view threads\n"
        "  --once         print the table once, after one interval\n"
        "  --count N      print it N times; 0: until the process ends. It is the default if\n"
        "                 the output is no terminal\n"
        "  --top N        with these two: the first N rows; 0: all (the default)\n"
        "\n"
        "Keys:\n"
        KEYS
        "\n"
        "When the process ends, the last figures stay. NO_COLOR turns colours off.\n"
        "\n"
        "Exit status: 0, also if the process ended; 1 the output could not be written; 2\n"
        "wrong command line, or the process could not be read.\n",
    .run = run,
};
