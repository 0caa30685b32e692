/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan rss`: the parts of a process's resident memory, and which contexts keep it. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"
#include "outside.h"
#include "rss_mappings.h"
#include "sidecar/ending.h"
#include "snapshot/row_path.h"
#include "snapshot/view_heap.h"
#include "text.h"

#define PIECE_BYTES ((uint64_t)1 << 30) /* of a mapping, walked at once */
#define PAGE_BYTES 4096u
#define PATH_BYTES 1024

enum part { LIVE, HOLES, CACHED, EMPTY, JEMALLOC, OWN, STACKS, CODE, FILES, SHARED, OTHER, N_PARTS };

static const struct {
    const char *name, *meaning;
} parts[N_PARTS] = {
    [LIVE] = {"in_use", "objects in use"},
    [HOLES] = {"holes", "free, in slabs and pages that objects in use keep"},
    [CACHED] = {"cached", "freed objects there that threads keep for their next allocations"},
    [EMPTY] = {"empty_slabs", "slabs without objects in use: cached, or not given back yet"},
    [JEMALLOC] = {"jemalloc", "other pages of the heap: not given back yet, and jemalloc's own data"},
    [OWN] = {"jespan", "jespan: headers, page map, counters, contexts"},
    [STACKS] = {"stacks", "stacks"},
    [CODE] = {"code", "the program and its libraries, with their data"},
    [FILES] = {"files", "other files"},
    [SHARED] = {"shared", "shared memory"},
    [OTHER] = {"other", "other anonymous memory: jemalloc's own data, and the program's own mappings"},
};

struct holder {
    uint32_t row;
    struct heap_context figures;
    uint64_t in_use; /* by the books */
};

struct rss {
    struct outside process;
    struct mappings mappings;
    struct view_heap *heap;
    bool *resident; /* of a piece of a mapping */
    uint64_t bytes[N_PARTS], all, swapped, usable, requested;
    struct holder *holders;
    uint32_t n_holders;
};

struct options {
    uint64_t top;
    bool exact, json;
};

/* ---- Figures ---- */

/* The zero page is present in a mapping, but the kernel does not count it, so parts may be more than the mapping has. */
static void add_parts(struct rss *rss, const struct heap_parts *p, uint64_t counted, enum part other)
{
    uint64_t sum = p->live + p->cached + p->holes + p->empty + p->own + p->other;
    double scale = sum == 0 ? 0 : (double)counted / (double)sum;
    rss->bytes[LIVE] += (uint64_t)((double)p->live * scale);
    rss->bytes[CACHED] += (uint64_t)((double)p->cached * scale);
    rss->bytes[HOLES] += (uint64_t)((double)p->holes * scale);
    rss->bytes[EMPTY] += (uint64_t)((double)p->empty * scale);
    rss->bytes[OWN] += (uint64_t)((double)p->own * scale);
    rss->bytes[other] += (uint64_t)((double)p->other * scale);
}

static void sum_parts(struct heap_parts *to, const struct heap_parts *from)
{
    to->live += from->live;
    to->cached += from->cached;
    to->holes += from->holes;
    to->empty += from->empty;
    to->own += from->own;
    to->other += from->other;
}

/* jespan's pages are known when all mappings have been walked, so there are two rounds. */
static int walk_mapping(struct rss *rss, const struct mapping *m, struct heap_parts *sum, bool *is_heap)
{
    int error = 0;
    for (uint64_t start = m->start, end; start < m->end && !error; start = end) {
        struct heap_parts piece;
        bool has = false;
        end = m->end - start > PIECE_BYTES ? start + PIECE_BYTES : m->end;
        long n = mappings_resident(&rss->mappings, start, end, rss->resident);
        error = n < 0 ? (int)n : view_heap_walk(rss->heap, start, end, rss->resident, &piece, &has);
        if (!error) {
            sum_parts(sum, &piece);
            *is_heap |= has;
        }
    }
    return error;
}

static int own_of_mapping(struct rss *rss, const struct mapping *m, struct heap_parts *sum)
{
    for (uint64_t start = m->start, end; start < m->end; start = end) {
        end = m->end - start > PIECE_BYTES ? start + PIECE_BYTES : m->end;
        long n = mappings_resident(&rss->mappings, start, end, rss->resident);
        if (n < 0)
            return (int)n;
        view_heap_own(rss->heap, start, end, rss->resident, sum);
    }
    return 0;
}

static const enum part part_of[MAPPING_N_KINDS] = {
    [MAPPING_ANONYMOUS] = OTHER, [MAPPING_STACK] = STACKS, [MAPPING_CODE] = CODE, [MAPPING_FILE] = FILES, [MAPPING_SHARED] = SHARED};

static int walk(struct rss *rss)
{
    size_t n = rss->mappings.n;
    struct heap_parts *sums = calloc(n + 1, sizeof *sums);
    bool *is_heap = calloc(n + 1, sizeof *is_heap);
    rss->resident = malloc(PIECE_BYTES / PAGE_BYTES);
    int error = sums && is_heap && rss->resident ? 0 : -ENOMEM;
    for (size_t i = 0; i < n && !error; i++)
        if (rss->mappings.items[i].kind == MAPPING_ANONYMOUS && rss->mappings.items[i].resident_bytes > 0)
            error = walk_mapping(rss, &rss->mappings.items[i], &sums[i], &is_heap[i]);
    for (size_t i = 0; i < n && !error; i++) {
        const struct mapping *m = &rss->mappings.items[i];
        if (m->kind == MAPPING_ANONYMOUS && m->resident_bytes > 0)
            error = own_of_mapping(rss, m, &sums[i]);
        if (m->kind == MAPPING_ANONYMOUS)
            add_parts(rss, &sums[i], m->resident_bytes, is_heap[i] ? JEMALLOC : OTHER);
        else
            rss->bytes[part_of[m->kind]] += m->resident_bytes;
        rss->all += m->resident_bytes;
        rss->swapped += m->swapped_bytes;
    }
    free(sums);
    free(is_heap);
    return error;
}

static uint64_t keeps(const struct holder *h)
{
    return h->figures.resident_bytes + h->figures.pinned_bytes;
}

static int compare(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    return keeps(x) != keeps(y) ? (keeps(x) < keeps(y) ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

static int find_holders(struct rss *rss)
{
    const struct snapshot *s = rss->process.snapshot;
    uint32_t n_contexts;
    const struct heap_context *contexts = view_heap_contexts(rss->heap, &n_contexts);
    rss->holders = calloc((size_t)s->n_rows + 1, sizeof *rss->holders);
    if (!rss->holders)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct totals *t = &s->rows[i].totals;
        struct holder *h = &rss->holders[rss->n_holders];
        *h = (struct holder){.row = i, .in_use = totals_inuse_bytes(t)};
        if (s->rows[i].id < n_contexts)
            h->figures = contexts[s->rows[i].id];
        double asked = t->alloc_bytes == 0 ? 1 : (double)t->alloc_requested_bytes / (double)t->alloc_bytes;
        rss->requested += (uint64_t)((double)h->in_use * asked);
        rss->usable += h->in_use;
        rss->n_holders += h->in_use > 0 || keeps(h) > 0;
    }
    qsort(rss->holders, rss->n_holders, sizeof *rss->holders, compare);
    return 0;
}

/* Returns NULL, or the reason in words. */
static const char *measure(struct rss *rss, pid_t pid)
{
    const char *reason = outside_read(&rss->process, pid);
    if (reason)
        return reason;
    int error = mappings_read(&rss->mappings, pid);
    if (!error)
        error = view_heap_open(&rss->heap, rss->process.view);
    if (!error)
        error = walk(rss);
    if (!error)
        error = find_holders(rss);
    if (!error)
        return NULL;
    return error == -ENOENT || error == -EFAULT ? view_error_text(ESRCH) : view_error_text(error);
}

static void forget(struct rss *rss)
{
    if (rss->heap)
        view_heap_close(rss->heap);
    outside_close(&rss->process);
    mappings_free(&rss->mappings);
    free(rss->resident);
    free(rss->holders);
}

/* ---- Output ---- */

static void print_line(const struct options *options, uint64_t bytes, uint64_t all, const char *what)
{
    char figure[FIGURE_BYTES], share[FIGURE_BYTES];
    figure_bytes(figure, (int64_t)bytes, options->exact);
    figure_share(share, (int64_t)bytes, (int64_t)all);
    printf("%12s  %6s  %s", figure, share, what);
}

static void print_waterfall(const struct rss *rss, const struct options *options)
{
    char usable[FIGURE_BYTES], requested[FIGURE_BYTES], swapped[FIGURE_BYTES];
    figure_bytes(usable, (int64_t)rss->usable, options->exact);
    figure_bytes(requested, (int64_t)rss->requested, options->exact);
    figure_bytes(swapped, (int64_t)rss->swapped, options->exact);
    printf("In use: %s, of which the program requested about %s.", usable, requested);
    if (rss->swapped > 0)
        printf(" Swapped out: %s.", swapped);
    printf("\n\n%12s  %6s  WHAT\n", "IN MEMORY", "SHARE");
    for (int i = 0; i < N_PARTS; i++)
        if (rss->bytes[i] > 0) {
            print_line(options, rss->bytes[i], rss->all, parts[i].meaning);
            putchar('\n');
        }
    print_line(options, rss->all, rss->all, "resident memory (RSS)\n");
}

static void print_holders(const struct rss *rss, const struct options *options)
{
    static struct text text;
    char path[PATH_BYTES], cells[4][FIGURE_BYTES];
    uint64_t n = options->top == 0 || options->top > rss->n_holders ? rss->n_holders : options->top;
    printf("\n%12s  %12s  %12s  %12s  CONTEXT\n", "IN USE", "IN MEMORY", "KEEPS FREE", "ALONE");
    for (uint32_t i = 0; i < n; i++) {
        const struct holder *h = &rss->holders[i];
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
    if (n < rss->n_holders)
        printf("%54s  (%" PRIu64 " more)\n", "", rss->n_holders - n);
}

static void print_json(const struct rss *rss, pid_t pid, const struct options *options)
{
    char path[PATH_BYTES];
    uint64_t n = options->top == 0 || options->top > rss->n_holders ? rss->n_holders : options->top;
    printf("{\"pid\": %d, \"rss_bytes\": %" PRIu64 ", \"swapped_bytes\": %" PRIu64 ", \"inuse_bytes\": %" PRIu64
           ", \"requested_bytes_estimate\": %" PRIu64 ",\n \"parts\": {", (int)pid, rss->all, rss->swapped, rss->usable, rss->requested);
    for (int i = 0; i < N_PARTS; i++)
        printf("%s\"%s_bytes\": %" PRIu64, i == 0 ? "" : ", ", parts[i].name, rss->bytes[i]);
    fputs("},\n \"contexts\": [", stdout);
    for (uint32_t i = 0; i < n; i++) {
        const struct holder *h = &rss->holders[i];
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
        print_waterfall(rss, options);
        print_holders(rss, options);
    }
    return cmd_finish_output();
}

/* ---- The command ---- */

static int run(int argc, char **argv)
{
    static struct rss rss = {.mappings.pagemap = -1};
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
