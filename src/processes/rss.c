/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan rss`: the parts of a process's resident memory, and which contexts keep it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "outside.h"
#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "snapshot/view_resident.h"

#define PATH_BYTES 1024

struct rss {
    struct outside process;
    struct resident resident;
};

struct options {
    uint64_t top;
    bool exact, json;
};

/* Returns NULL, or the reason in words. */
static const char *measure(struct rss *rss, pid_t pid)
{
    const char *reason = outside_read(&rss->process, pid);
    int error = reason ? 0 : view_resident_read(&rss->resident, rss->process.view, rss->process.snapshot);
    return error ? view_error_text(error) : reason;
}

static void forget(struct rss *rss)
{
    outside_close(&rss->process);
    view_resident_free(&rss->resident);
}

/* ---- Output ---- */

static void print_line(const struct options *options, uint64_t bytes, uint64_t all, const char *what)
{
    char figure[FIGURE_BYTES], share[FIGURE_BYTES];
    figure_bytes(figure, (int64_t)bytes, options->exact);
    figure_share(share, (int64_t)bytes, (int64_t)all);
    printf("%12s  %6s  %s", figure, share, what);
}

static void print_waterfall(const struct resident *r, const struct options *options)
{
    char usable[FIGURE_BYTES], requested[FIGURE_BYTES], swapped[FIGURE_BYTES];
    figure_bytes(usable, (int64_t)r->usable, options->exact);
    figure_bytes(requested, (int64_t)r->requested, options->exact);
    figure_bytes(swapped, (int64_t)r->swapped, options->exact);
    printf("In use: %s, of which the program requested about %s.", usable, requested);
    if (r->swapped > 0)
        printf(" Swapped out: %s.", swapped);
    printf("\n\n%12s  %6s  WHAT\n", "IN MEMORY", "SHARE");
    for (int i = 0; i < RESIDENT_N_PARTS; i++)
        if (r->parts[i] > 0) {
            print_line(options, r->parts[i], r->all, resident_texts[i].meaning);
            putchar('\n');
        }
    print_line(options, r->all, r->all, "resident memory (RSS)\n");
}

static void print_holders(const struct rss *rss, const struct options *options)
{
    static struct text text;
    const struct resident *r = &rss->resident;
    char path[PATH_BYTES], cells[4][FIGURE_BYTES];
    uint64_t n = options->top == 0 || options->top > r->n_holders ? r->n_holders : options->top;
    printf("\n%12s  %12s  %12s  %12s  CONTEXT\n", "IN USE", "IN MEMORY", "KEEPS FREE", "ALONE");
    for (uint32_t i = 0; i < n; i++) {
        const struct resident_holder *h = &r->holders[i];
        figure_bytes(cells[0], (int64_t)h->in_use, options->exact);
        figure_bytes(cells[1], (int64_t)h->figures.resident_bytes, options->exact);
        figure_bytes(cells[2], (int64_t)h->figures.pinned_bytes, options->exact);
        figure_bytes(cells[3], (int64_t)h->figures.alone_bytes, options->exact);
        row_path(path, sizeof path, rss->process.snapshot, h->row);
        text_clear(&text);
        text_add_bytes(&text, path, strlen(path), sizeof path);
        printf("%12s  %12s  %12s  %12s  ", cells[0], cells[1], cells[2], cells[3]);
        text_print(&text);
        putchar('\n');
    }
    if (n < r->n_holders)
        printf("%54s  (%" PRIu64 " more)\n", "", r->n_holders - n);
}

static void print_json(const struct rss *rss, pid_t pid, const struct options *options)
{
    const struct resident *r = &rss->resident;
    char path[PATH_BYTES];
    uint64_t n = options->top == 0 || options->top > r->n_holders ? r->n_holders : options->top;
    printf("{\"pid\": %d, \"rss_bytes\": %" PRIu64 ", \"swapped_bytes\": %" PRIu64 ", \"inuse_bytes\": %" PRIu64
           ", \"requested_bytes_estimate\": %" PRIu64 ",\n \"parts\": {", (int)pid, r->all, r->swapped, r->usable, r->requested);
    for (int i = 0; i < RESIDENT_N_PARTS; i++)
        printf("%s\"%s_bytes\": %" PRIu64, i == 0 ? "" : ", ", resident_texts[i].name, r->parts[i]);
    fputs("},\n \"contexts\": [", stdout);
    for (uint32_t i = 0; i < n; i++) {
        const struct resident_holder *h = &r->holders[i];
        row_path(path, sizeof path, rss->process.snapshot, h->row);
        fputs(i == 0 ? "\n  {\"context\": " : ",\n  {\"context\": ", stdout);
        text_print_json(path);
        printf(", \"inuse_bytes\": %" PRIu64 ", \"objects\": %" PRIu64 ", \"resident_bytes\": %" PRIu64 ", \"pinned_bytes\": %" PRIu64
               ", \"pinned_alone_bytes\": %" PRIu64 "}", h->in_use, h->figures.objects, h->figures.resident_bytes,
               h->figures.pinned_bytes, h->figures.alone_bytes);
    }
    puts("\n ]}");
}

static int print(const struct rss *rss, pid_t pid, const struct options *options)
{
    if (options->json) {
        print_json(rss, pid, options);
    } else {
        print_waterfall(&rss->resident, options);
        print_holders(rss, options);
    }
    return cmd_finish_output();
}

/* ---- The command ---- */

static int run(int argc, char **argv)
{
    static struct rss rss;
    struct options options = {.top = 20};
    const struct cmd_option rows[] = {
        {"top", .count = &options.top}, {"exact", .on = &options.exact}, {"json", .on = &options.json}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    pid_t pid = cmd_only_pid(argc, argv);
    if (!pid)
        return STATUS_USAGE;
    text_init();
    const char *reason = measure(&rss, pid);
    status = reason ? cmd_fail(argv[optind], reason, STATUS_USAGE) : print(&rss, pid, &options);
    forget(&rss);
    return status;
}

const struct command command_rss = {
    .name = "rss",
    .summary = "print where the resident memory of a process goes, and who keeps it",
    .usage =
        "usage: jespan rss [OPTION…] PID\n"
        "\n"
        "Prints what the resident memory of a process consists of: objects in use, free\n"
        "memory that they keep, caches, memory that jemalloc has not given back, jespan's\n"
        "own, stacks, files. A second table has the contexts that keep most of it. The\n"
        "process is read from outside; it is not asked, stopped or signalled.\n"
        "\n"
        "Columns of a context:\n"
        "  IN USE       bytes of its objects\n"
        "  IN MEMORY    those of them that are resident; the others were never touched\n"
        "  KEEPS FREE   its share of the free memory in slabs that have objects in use,\n"
        "               which cannot be given back because of them\n"
        "  ALONE        the part of it where no other context has objects\n"
        "\n"
        "  --top N      the first N contexts; 0: all (default: 20)\n"
        "  --exact      bytes in digits\n"
        "  --json       for other programs; all figures are in bytes\n"
        "\n"
        "It needs what 'jespan dump' needs.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line, or the\n"
        "process could not be read.\n",
    .run = run,
};
