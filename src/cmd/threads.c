/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan threads`: what each thread of a process allocated and freed, and whose memory it freed. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "outside.h"
#include "sidecar/ending.h"
#include "snapshot/view_threads.h"
#include "text.h"
#include "threads_shares.h"

#define NAME_COLUMNS 15
#define PATH_BYTES 1024
#define PATH_COLUMNS 40
#define MATRIX_COLUMNS 5 /* threads that free; the others share a column */

struct row {
    const struct view_thread *thread;
    const struct thread_shares *shares;
    char name[16];
};

struct report {
    struct outside process;
    pid_t pid;
    struct view_threads threads;
    struct thread_shares *shares;
    struct row *rows;
};

struct options {
    uint64_t top;
    bool exact, json;
    unsigned sort;
};

/* ---- Sorting ---- */

static uint64_t in_use(const struct row *r)
{
    return r->shares->in_use.high;
}

static uint64_t allocated(const struct row *r)
{
    return r->thread->alloc_bytes;
}

static uint64_t freed(const struct row *r)
{
    return r->thread->free_bytes;
}

static uint64_t busy(const struct row *r)
{
    return r->thread->busy_ns;
}

static uint64_t cpu(const struct row *r)
{
    return r->thread->cpu_ns;
}

static const struct {
    const char *name;
    uint64_t (*value)(const struct row *);
} sorts[] = {{"alloc", allocated}, {"inuse", in_use}, {"freed", freed}, {"busy", busy}, {"cpu", cpu}};
#define N_SORTS (sizeof sorts / sizeof sorts[0])

static int compare(const void *a, const void *b, void *sort)
{
    const struct row *x = a, *y = b;
    uint64_t u = sorts[*(unsigned *)sort].value(x), v = sorts[*(unsigned *)sort].value(y);
    return u != v ? (u < v ? 1 : -1) : (x > y) - (x < y);
}

/* ---- Reading ---- */

/* A thread that is alive may have another name by now. */
static void find_name(struct row *row, pid_t pid)
{
    char path[64];
    memcpy(row->name, row->thread->name, sizeof row->name);
    if (row->thread->thread_id == 0)
        strcpy(row->name, "(no thread)");
    if (!row->thread->live)
        return;
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)pid, row->thread->thread_id);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fgets(row->name, sizeof row->name, file))
            row->name[strcspn(row->name, "\n")] = '\0';
        fclose(file);
    }
}

static const char *measure(struct report *r, const char *word)
{
    const char *reason = outside_read_word(&r->process, word, &r->pid);
    if (reason)
        return reason;
    int error = view_threads_read(&r->threads, r->process.view);
    if (!error) {
        r->shares = threads_find_shares(&r->threads);
        r->rows = calloc((size_t)r->threads.n_threads + 1, sizeof *r->rows);
        error = r->shares && r->rows ? 0 : -ENOMEM;
    }
    for (uint32_t i = 0; i < r->threads.n_threads && !error; i++) {
        r->rows[i] = (struct row){.thread = &r->threads.threads[i], .shares = &r->shares[i]};
        find_name(&r->rows[i], r->pid);
    }
    if (error)
        outside_close(&r->process);
    return error ? view_error_text(error) : NULL;
}

/* The block of threads that have none has nothing to tell if it counted nothing. */
static bool is_worth_a_line(const struct view_thread *t)
{
    return t->live || t->alloc_objects > 0 || t->free_objects > 0 || (t->thread_id != 0 && t->lives > 0);
}

/* ---- The table ---- */

static void print_path(const struct report *r, uint32_t context, size_t columns)
{
    static struct text text;
    char path[PATH_BYTES];
    const struct snapshot_row *row = snapshot_find(r->process.snapshot, context);
    if (!row)
        strcpy(path, "(retired)");
    else
        line_path(path, sizeof path, r->process.snapshot, (uint32_t)(row - r->process.snapshot->rows));
    text_clear(&text);
    text_add_bytes(&text, path, strlen(path), sizeof path);
    text_fit(&text, columns);
    text_print(&text);
}

static void print_name(const char *name, int columns)
{
    static struct text text;
    text_clear(&text);
    text_add_bytes(&text, name, strlen(name), NAME_COLUMNS);
    text_fit(&text, (size_t)columns);
    size_t used = text.n;
    text_print(&text);
    printf("%*s", (int)((size_t)columns > used ? (size_t)columns - used : 0), "");
}

static void print_cell(const char *figure, int columns)
{
    printf("  %*s%s", columns - figure_columns(figure) > 0 ? columns - figure_columns(figure) : 0, "", figure);
}

static void print_bytes(uint64_t bytes, const struct options *options, int columns)
{
    char figure[FIGURE_BYTES];
    figure_bytes(figure, (int64_t)bytes, options->exact);
    print_cell(figure, columns);
}

static void print_bounds(const struct bounds *b, const struct options *options, int columns)
{
    char figure[FIGURE_BYTES], text[FIGURE_BYTES + 8];
    figure_bytes(figure, (int64_t)b->high, options->exact);
    snprintf(text, sizeof text, "%s%s", b->low < b->high ? "<= " : "", figure);
    print_cell(text, columns);
}

static void print_time(uint64_t ns, const struct options *options)
{
    char figure[FIGURE_BYTES];
    figure_time(figure, (int64_t)ns, options->exact);
    print_cell(figure, 9);
}

static void print_row(const struct report *r, const struct row *row, const struct options *options)
{
    const struct view_thread *t = row->thread;
    print_name(row->name, NAME_COLUMNS);
    printf("  %7d", t->thread_id);
    print_bytes(t->alloc_bytes, options, 10);
    print_bytes(t->free_bytes, options, 10);
    print_bounds(&row->shares->freed_by_others, options, 13);
    print_bounds(&row->shares->in_use, options, 13);
    print_time(t->busy_ns, options);
    print_time(t->cpu_ns, options);
    fputs("  ", stdout);
    if (t->lives > 1)
        printf("(%" PRIu32 " threads, one after the other) ", t->lives);
    if (t->live)
        print_path(r, t->context, PATH_COLUMNS);
    else
        fputs(t->thread_id == 0 ? "-" : "(ended)", stdout);
    putchar('\n');
}

static void print_table(const struct report *r, const struct options *options)
{
    uint64_t shown = 0, others = 0;
    printf("%-*s  %7s  %10s  %10s  %13s  %13s  %9s  %9s  %s\n", NAME_COLUMNS, "THREAD", "ID", "ALLOCATED", "FREED", "BY OTHERS", "IN USE",
           "BUSY", "CPU", "NOW IN");
    for (uint32_t i = 0; i < r->threads.n_threads; i++) {
        if (!is_worth_a_line(r->rows[i].thread))
            continue;
        if (options->top == 0 || shown < options->top)
            print_row(r, &r->rows[i], options);
        else
            others++;
        shown++;
    }
    if (others > 0)
        printf("(%" PRIu64 " more threads: --top 0)\n", others);
    if (r->threads.n_left_out > 0)
        printf("(%" PRIu64 " threads that ended earlier are not listed)\n", r->threads.n_left_out);
}

/* ---- Who frees whose ---- */

struct matrix {
    uint32_t blocks[MATRIX_COLUMNS], n_blocks; /* that freed most */
    struct matrix_row {
        uint32_t context;
        uint64_t out, by[MATRIX_COLUMNS];
    } *rows;
    size_t n_rows;
};

static int compare_rows(const void *a, const void *b)
{
    const struct matrix_row *x = a, *y = b;
    return x->out != y->out ? (x->out < y->out ? 1 : -1) : (x->context > y->context) - (x->context < y->context);
}

static void choose_blocks(struct matrix *m, const uint64_t *out, uint32_t n)
{
    while (m->n_blocks < MATRIX_COLUMNS) {
        uint32_t most = n;
        for (uint32_t i = 0; i < n; i++) {
            bool is_taken = false;
            for (uint32_t k = 0; k < m->n_blocks; k++)
                is_taken |= m->blocks[k] == i;
            if (!is_taken && out[i] > (most < n ? out[most] : 0))
                most = i;
        }
        if (most == n)
            return;
        m->blocks[m->n_blocks++] = most;
    }
}

static void add_to_matrix(struct matrix *m, const struct view_cell *cell, size_t *places)
{
    size_t *place = &places[cell->context];
    if (*place == 0) {
        m->rows[m->n_rows++] = (struct matrix_row){.context = cell->context};
        *place = m->n_rows;
    }
    struct matrix_row *row = &m->rows[*place - 1];
    row->out += cell->out_bytes;
    for (uint32_t k = 0; k < m->n_blocks; k++)
        if (m->blocks[k] == cell->block)
            row->by[k] += cell->out_bytes;
}

static int make_matrix(struct matrix *m, const struct view_threads *t)
{
    uint32_t end = 0;
    uint64_t *out = calloc((size_t)t->n_blocks + 1, sizeof *out);
    for (size_t i = 0; i < t->n_cells && out; i++) {
        out[t->cells[i].block] += t->cells[i].out_bytes;
        end = t->cells[i].context >= end ? t->cells[i].context + 1 : end;
    }
    size_t *places = calloc((size_t)end + 1, sizeof *places);
    m->rows = calloc((size_t)end + 1, sizeof *m->rows);
    bool is_complete = out && places && m->rows;
    if (is_complete)
        choose_blocks(m, out, t->n_blocks);
    for (size_t i = 0; i < t->n_cells && is_complete; i++)
        if (t->cells[i].out_bytes > 0)
            add_to_matrix(m, &t->cells[i], places);
    if (is_complete)
        qsort(m->rows, m->n_rows, sizeof *m->rows, compare_rows);
    free(out);
    free(places);
    return is_complete ? 0 : -1;
}

/* The rows of blocks come first in the list of threads, before they are sorted. */
static const struct row *row_of_block(const struct report *r, uint32_t block)
{
    for (uint32_t i = 0; i < r->threads.n_threads; i++)
        if (r->rows[i].thread == &r->threads.threads[block])
            return &r->rows[i];
    return r->rows;
}

static void print_matrix_row(const struct report *r, const struct matrix *m, const struct matrix_row *row, const struct options *options)
{
    uint64_t others = row->out;
    for (uint32_t k = 0; k < m->n_blocks; k++) {
        print_bytes(row->by[k], options, 10);
        others -= row->by[k];
    }
    print_bytes(others, options, 10);
    fputs("  ", stdout);
    print_path(r, row->context, PATH_COLUMNS);
    putchar('\n');
}

/* The thread that has the block, and how many had it before. */
static void print_block_id(const struct report *r, uint32_t block)
{
    char text[FIGURE_BYTES];
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->threads.n_threads; i++)
        n += r->threads.threads[i].block == block ? r->threads.threads[i].lives : 0;
    int used = snprintf(text, sizeof text, "%d", r->threads.threads[block].thread_id);
    if (n > 1)
        snprintf(text + used, sizeof text - (size_t)used, " +%" PRIu64, n - 1);
    print_cell(text, 10);
}

static int print_matrix(const struct report *r, const struct options *options)
{
    struct matrix m = {.n_blocks = 0};
    int error = make_matrix(&m, &r->threads);
    if (!error && m.n_rows > 0) {
        puts("\nFreed, by the thread that freed (columns) and the context that had allocated:");
        for (uint32_t k = 0; k < m.n_blocks; k++) {
            fputs("  ", stdout);
            print_name(row_of_block(r, m.blocks[k])->name, 10);
        }
        printf("  %10s  CONTEXT\n", "");
        for (uint32_t k = 0; k < m.n_blocks; k++)
            print_block_id(r, m.blocks[k]);
        printf("  %10s\n", "others");
        for (size_t i = 0; i < m.n_rows && (options->top == 0 || i < options->top); i++)
            print_matrix_row(r, &m, &m.rows[i], options);
    }
    free(m.rows);
    return error;
}

/* ---- JSON ---- */

static void print_json_path(const struct report *r, uint32_t context)
{
    char path[PATH_BYTES] = "(retired)";
    const struct snapshot_row *row = snapshot_find(r->process.snapshot, context);
    if (row)
        line_path(path, sizeof path, r->process.snapshot, (uint32_t)(row - r->process.snapshot->rows));
    text_print_json(path);
}

static void print_json_row(const struct report *r, const struct row *row)
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
    printf(", \"alloc_objects\": %" PRIu64 ", \"alloc_bytes\": %" PRIu64 ", \"free_objects\": %" PRIu64 ", \"free_bytes\": %" PRIu64
           ", \"freed_by_others_bytes\": [%" PRIu64 ", %" PRIu64 "], \"inuse_bytes\": [%" PRIu64 ", %" PRIu64 "], \"busy_ns\": %" PRIu64
           ", \"cpu_ns\": %" PRIu64 "}",
           t->alloc_objects, t->alloc_bytes, t->free_objects, t->free_bytes, row->shares->freed_by_others.low,
           row->shares->freed_by_others.high, row->shares->in_use.low, row->shares->in_use.high, t->busy_ns, t->cpu_ns);
}

static void print_json(const struct report *r)
{
    const struct view_threads *t = &r->threads;
    const char *comma = "";
    printf("{\"pid\": %d, \"inuse_bytes\": %" PRIu64 ", \"not_listed\": %" PRIu64 ", \"threads\": [\n", (int)r->pid,
           totals_inuse_bytes(&r->process.snapshot->all), t->n_left_out);
    for (uint32_t i = 0; i < t->n_threads; i++)
        if (is_worth_a_line(r->rows[i].thread)) {
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

static int read_sort(struct options *options, const char *word)
{
    for (options->sort = 0; options->sort < N_SORTS; options->sort++)
        if (strcmp(sorts[options->sort].name, word) == 0)
            return 0;
    cmd_error("--sort: '%s' is none of alloc, inuse, freed, busy, cpu", word);
    return STATUS_USAGE;
}

static int read_options(struct options *options, int argc, char **argv)
{
    static const struct option long_options[] = {{"top", required_argument, NULL, 't'}, {"sort", required_argument, NULL, 's'},
                                                 {"exact", no_argument, NULL, 'e'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int status = 0;
    for (int option; status == 0 && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (option == 'e')
            options->exact = true;
        else if (option == 'j')
            options->json = true;
        else if (option == 's')
            status = read_sort(options, optarg);
        else
            status = option == 't' ? cmd_count("--top", optarg, &options->top) : STATUS_USAGE;
    }
    return status;
}

static int print(const struct report *r, const struct options *options)
{
    unsigned sort = options->sort;
    if (r->threads.n_threads > 0)
        qsort_r(r->rows, r->threads.n_threads, sizeof *r->rows, compare, &sort);
    if (options->json) {
        print_json(r);
    } else {
        print_table(r, options);
        if (print_matrix(r, options)) {
            cmd_error("out of memory");
            return STATUS_USAGE;
        }
    }
    return cmd_finish_output();
}

static int run(int argc, char **argv)
{
    struct report r = {.pid = 0};
    struct options options = {.top = 20};
    int status = read_options(&options, argc, argv);
    if (status)
        return status;
    if (argc - optind != 1) {
        cmd_error("%s; see 'jespan help threads'", optind == argc ? "there is no PID" : "there is more than one PID");
        return STATUS_USAGE;
    }
    text_init();
    const char *reason = measure(&r, argv[optind]);
    if (reason) {
        cmd_error("%s: %s", argv[optind], reason);
        status = STATUS_USAGE;
    } else {
        status = print(&r, &options);
        outside_close(&r.process);
    }
    view_threads_free(&r.threads);
    free(r.shares);
    free(r.rows);
    return status;
}

const struct command command_threads = {
    .name = "threads",
    .summary = "print what each thread of a process allocated and freed",
    .usage =
        "usage: jespan threads [OPTION…] PID\n"
        "\n"
        "Prints the threads of a process, those that have ended too, and then which thread\n"
        "freed how much of what each context had allocated. The process is read from\n"
        "outside; it is not asked, stopped or signalled.\n"
        "\n"
        "  ALLOCATED    bytes that the thread allocated\n"
        "  FREED        bytes that it freed, whoever had allocated them\n"
        "  BY OTHERS    of what it allocated, bytes that other threads freed\n"
        "  IN USE       of what it allocated, bytes that are live. '<=' is a bound: objects\n"
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
