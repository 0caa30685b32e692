/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan threads`: what each thread of a process allocated and freed, and whose memory it freed. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "threads.h"

/* ---- Sorting ---- */

static uint64_t in_use(const struct threads_row *r)
{
    return r->shares->in_use.high;
}

static uint64_t allocated(const struct threads_row *r)
{
    return r->thread->alloc_bytes;
}

static uint64_t freed(const struct threads_row *r)
{
    return r->thread->free_bytes;
}

static uint64_t busy(const struct threads_row *r)
{
    return r->thread->busy_ns;
}

static uint64_t cpu(const struct threads_row *r)
{
    return r->thread->cpu_ns;
}

static const struct {
    const char *name;
    uint64_t (*value)(const struct threads_row *);
} sorts[] = {{"alloc", allocated}, {"inuse", in_use}, {"freed", freed}, {"busy", busy}, {"cpu", cpu}};
#define N_SORTS (sizeof sorts / sizeof sorts[0])

static int compare(const void *a, const void *b, void *sort)
{
    const struct threads_row *x = a, *y = b;
    uint64_t u = sorts[*(unsigned *)sort].value(x), v = sorts[*(unsigned *)sort].value(y);
    return u != v ? (u < v ? 1 : -1) : (x > y) - (x < y);
}

/* ---- Reading ---- */

static const char *measure(struct threads_report *r)
{
    const char *reason = outside_read(&r->process, r->pid);
    if (reason)
        return reason;
    int error = view_threads_read(&r->threads, r->process.view, VIEW_MOST_CELLS);
    if (!error) {
        r->shares = view_threads_shares(&r->threads);
        r->rows = calloc((size_t)r->threads.n_threads + 1, sizeof *r->rows);
        error = r->shares && r->rows ? 0 : -ENOMEM;
    }
    if (!error)
        view_threads_rename(&r->threads, r->pid);
    for (uint32_t i = 0; i < r->threads.n_threads && !error; i++)
        r->rows[i] = (struct threads_row){.thread = &r->threads.threads[i], .shares = &r->shares[i],
                                          .name = view_thread_name(&r->threads.threads[i])};
    return error ? view_error_text(error) : NULL;
}

static void forget(struct threads_report *r)
{
    outside_close(&r->process);
    view_threads_free(&r->threads);
    free(r->shares);
    free(r->rows);
}

void threads_path(const struct threads_report *r, uint32_t context, char path[THREADS_PATH_BYTES])
{
    const struct snapshot_row *row = snapshot_find(r->process.snapshot, context);
    if (row)
        row_path(path, THREADS_PATH_BYTES, r->process.snapshot, (uint32_t)(row - r->process.snapshot->rows));
    else
        strcpy(path, "(retired)");
}

/* ---- JSON ---- */

static void print_json_path(const struct threads_report *r, uint32_t context)
{
    char path[THREADS_PATH_BYTES];
    threads_path(r, context, path);
    text_print_json(path);
}

static void print_json_row(const struct threads_report *r, const struct threads_row *row)
{
    const struct view_thread *t = row->thread;
    fputs("  {\"name\": ", stdout);
    text_print_json(row->name);
    printf(", \"id\": %d, \"block\": %" PRIu32 ", \"live\": %s, \"threads\": %" PRIu32 ", \"context\": ", t->thread_id, t->block,
           t->live ? "true" : "false", t->lives);
    if (t->live)
        print_json_path(r, t->context);
    else
        fputs("null", stdout);
    if (t->live)
        printf(", \"context_id\": %" PRIu32, t->context);
    printf(", \"alloc_objects\": %" PRIu64 ", \"alloc_bytes\": %" PRIu64 ", \"free_objects\": %" PRIu64 ", \"free_bytes\": %" PRIu64
           ", \"freed_by_others_bytes\": [%" PRIu64 ", %" PRIu64 "], \"inuse_bytes\": [%" PRIu64 ", %" PRIu64 "], \"busy_ns\": %" PRIu64
           ", \"cpu_ns\": %" PRIu64 "}",
           t->alloc_objects, t->alloc_bytes, t->free_objects, t->free_bytes, row->shares->freed_by_others.low,
           row->shares->freed_by_others.high, row->shares->in_use.low, row->shares->in_use.high, t->busy_ns, t->cpu_ns);
}

static void print_json(const struct threads_report *r)
{
    const struct view_threads *t = &r->threads;
    const char *comma = "";
    printf("{\"pid\": %d, \"inuse_bytes\": %" PRIu64 ", \"not_listed\": %" PRIu64 ", \"threads\": [\n", (int)r->pid,
           totals_inuse_bytes(&r->process.snapshot->all), t->n_left_out);
    for (uint32_t i = 0; i < t->n_threads; i++)
        if (view_thread_has_figures(r->rows[i].thread)) {
            fputs(comma, stdout);
            print_json_row(r, &r->rows[i]);
            comma = ",\n";
        }
    fputs("\n ],\n \"cells\": [", stdout);
    for (size_t i = 0; i < t->n_cells; i++) {
        printf("%s\n  {\"block\": %" PRIu32 ", \"alloc_bytes\": %" PRIu64 ", \"free_bytes\": %" PRIu64 ", \"context\": ", i == 0 ? "" : ",",
               t->cells[i].block, t->cells[i].in_bytes, t->cells[i].out_bytes);
        print_json_path(r, t->cells[i].context);
        putchar('}');
    }
    puts("\n ]}");
}

/* ---- The command ---- */

static int read_sort(void *data, const char *word)
{
    struct threads_options *options = data;
    for (options->sort = 0; options->sort < N_SORTS; options->sort++)
        if (strcmp(sorts[options->sort].name, word) == 0)
            return 0;
    cmd_error("--sort: '%s' is none of alloc, inuse, freed, busy, cpu", word);
    return STATUS_USAGE;
}

static int print(const struct threads_report *r, const char *word, const struct threads_options *options)
{
    unsigned sort = options->sort;
    if (r->threads.n_threads > 0)
        qsort_r(r->rows, r->threads.n_threads, sizeof *r->rows, compare, &sort);
    if (options->json) {
        print_json(r);
    } else {
        threads_print_table(r, options);
        if (threads_print_matrix(r, options))
            return cmd_fail(word, "out of memory", STATUS_USAGE);
    }
    return cmd_finish_output();
}

static int run(int argc, char **argv)
{
    struct threads_report r = {.pid = 0};
    struct threads_options options = {.top = 20};
    const struct cmd_option rows[] = {
        {"top", .count = &options.top}, {"sort", .read = read_sort, .data = &options}, {"exact", .on = &options.exact},
        {"json", .on = &options.json}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    r.pid = cmd_only_pid(argc, argv);
    if (!r.pid)
        return STATUS_USAGE;
    text_init();
    const char *word = argv[optind], *reason = measure(&r);
    status = reason ? cmd_fail(word, reason, STATUS_USAGE) : print(&r, word, &options);
    forget(&r);
    return status;
}

const struct command command_threads = {
    .name = "threads",
    .summary = "print what each thread of a process allocated and freed",
    .usage =
        "usage: jespan threads [OPTION…] PID\n"
        "\n"
        "Prints the threads of a process, also ended ones. A second table says which thread\n"
        "freed how much of what each context had allocated. The process is read from\n"
        "outside; it is not asked, stopped or signalled.\n"
        "\n"
        "  ALLOCATED    bytes that the thread allocated\n"
        "  FREED        bytes that it freed, also those that other threads had allocated\n"
        "  BY OTHERS    bytes that it allocated and other threads freed\n"
        "  IN USE       bytes that it allocated and that are live. '<=' is a bound: objects\n"
        "               have a context and no thread, and several threads allocate in it\n"
        "  BUSY, CPU    since the thread's start\n"
        "  NOW IN       the context that it is in\n"
        "\n"
        "In the second table, '4712 +3' is thread 4712 with three threads that had ended\n"
        "before it began: jespan keeps what they freed by context together.\n"
        "\n"
        "  --top N      the first N threads and contexts; 0: all (default: 20)\n"
        "  --sort KEY   alloc (the default), inuse, freed, busy or cpu\n"
        "  --exact      bytes and nanoseconds in digits\n"
        "  --json       for other programs, with both bounds and all contexts\n"
        "\n"
        "It needs what 'jespan dump' needs.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line, or the\n"
        "process could not be read.\n",
    .run = run,
};
