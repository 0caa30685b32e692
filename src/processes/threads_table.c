/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of `jespan threads`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/text.h"
#include "threads.h"

#define NAME_COLUMNS 15
#define PATH_COLUMNS 40
#define MATRIX_COLUMNS 5 /* threads that free; the others share a column */

/* ---- The table ---- */

static void print_path(const struct threads_report *r, uint32_t context)
{
    static struct text text;
    char path[THREADS_PATH_BYTES];
    threads_path(r, context, path);
    text_clear(&text);
    text_add_bytes(&text, path, strlen(path), sizeof path);
    text_fit(&text, PATH_COLUMNS);
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

static void print_bytes(uint64_t bytes, const struct threads_options *options, int columns)
{
    char figure[FIGURE_BYTES];
    figure_bytes(figure, (int64_t)bytes, options->exact);
    print_cell(figure, columns);
}

static void print_bounds(const struct bounds *b, const struct threads_options *options, int columns)
{
    char figure[FIGURE_BYTES], text[FIGURE_BYTES + 8];
    figure_bytes(figure, (int64_t)b->high, options->exact);
    snprintf(text, sizeof text, "%s%s", b->low < b->high ? "<= " : "", figure);
    print_cell(text, columns);
}

static void print_time(uint64_t ns, const struct threads_options *options)
{
    char figure[FIGURE_BYTES];
    figure_time(figure, (int64_t)ns, options->exact);
    print_cell(figure, 9);
}

static void print_row(const struct threads_report *r, const struct threads_row *row, const struct threads_options *options)
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
        print_path(r, t->context);
    else
        fputs(t->thread_id == 0 ? "-" : "(ended)", stdout);
    putchar('\n');
}

void threads_print_table(const struct threads_report *r, const struct threads_options *options)
{
    uint64_t shown = 0, others = 0;
    printf("%-*s  %7s  %10s  %10s  %13s  %13s  %9s  %9s  %s\n", NAME_COLUMNS, "THREAD", "ID", "ALLOCATED", "FREED", "BY OTHERS", "IN USE",
           "BUSY", "CPU", "NOW IN");
    for (uint32_t i = 0; i < r->threads.n_threads; i++) {
        if (!view_thread_has_figures(r->rows[i].thread))
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
static const struct threads_row *row_of_block(const struct threads_report *r, uint32_t block)
{
    for (uint32_t i = 0; i < r->threads.n_threads; i++)
        if (r->rows[i].thread == &r->threads.threads[block])
            return &r->rows[i];
    return r->rows;
}

static void print_matrix_row(const struct threads_report *r, const struct matrix *m, const struct matrix_row *row,
                             const struct threads_options *options)
{
    uint64_t others = row->out;
    for (uint32_t k = 0; k < m->n_blocks; k++) {
        print_bytes(row->by[k], options, 10);
        others -= row->by[k];
    }
    print_bytes(others, options, 10);
    fputs("  ", stdout);
    print_path(r, row->context);
    putchar('\n');
}

/* The thread that has the block, and how many had it before. */
static void print_block_id(const struct threads_report *r, uint32_t block)
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

int threads_print_matrix(const struct threads_report *r, const struct threads_options *options)
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
