/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of `jespan top`: readings of a process, rates between two of them, and the rows that are shown. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "sidecar/ending.h"
#include "top.h"

#define THREADS_BEFORE 65536u
#define PATH_BYTES 1024

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Which process ---- */

static void read_name(char name[16], pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    name[0] = '\0';
    if (!file)
        return;
    if (fgets(name, 16, file))
        name[strcspn(name, "\n")] = '\0';
    fclose(file);
}

/* Opens the process of that name that has jespan in it, if there is one and no other. */
static const char *open_by_name(struct top *top, const char *word)
{
    DIR *proc = opendir("/proc");
    const char *reason = "no readable process with this name has jespan in it; 'jespan ps' lists the processes";
    if (!proc)
        return strerror(errno);
    for (struct dirent *entry; (entry = readdir(proc));) {
        char name[16];
        struct view *view;
        pid_t pid = cmd_pid(entry->d_name);
        if (pid == 0)
            continue;
        read_name(name, pid);
        if (strncmp(name, word, sizeof name - 1) != 0 || view_open(&view, pid) != 0)
            continue;
        if (top->process) {
            view_close(view);
            view_close(top->process);
            top->process = NULL;
            reason = "several processes have this name; give the PID of one, which 'jespan ps' lists";
            break;
        }
        top->process = view;
        top->pid = pid;
    }
    closedir(proc);
    return top->process ? NULL : reason;
}

const char *top_open(struct top *top, const char *word)
{
    top->pid = cmd_pid(word);
    if (top->pid == 0) {
        const char *reason = open_by_name(top, word);
        if (reason)
            return reason;
    } else {
        int error = view_open(&top->process, top->pid);
        if (error)
            return view_error_text(error);
    }
    read_name(top->name, top->pid);
    return NULL;
}

/* ---- Rates ---- */

static int64_t rate(const struct top *top, uint64_t now, uint64_t before)
{
    return top->period_ns == 0 ? 0 : (int64_t)((double)(int64_t)(now - before) * 1e9 / (double)top->period_ns);
}

/* Room for contexts with numbers below `end`. */
static int grow(struct top *top, uint32_t end)
{
    if (end > top->n_before) {
        struct top_before *before = reallocarray(top->before, end, sizeof *before);
        if (!before)
            return -ENOMEM;
        memset(before + top->n_before, 0xff, (end - top->n_before) * sizeof *before);
        top->before = before;
        top->n_before = end;
    }
    if (end > top->n_collapsed) {
        bool *collapsed = reallocarray(top->collapsed, end, sizeof *collapsed);
        if (!collapsed)
            return -ENOMEM;
        memset(collapsed + top->n_collapsed, 0, end - top->n_collapsed);
        top->collapsed = collapsed;
        top->n_collapsed = end;
    }
    return 0;
}

/* A context that is new has grown from nothing, unless all are new. */
static void find_figures(struct top *top, uint32_t i)
{
    const struct snapshot_row *row = &top->snapshot->rows[i];
    const struct totals *t = &row->totals;
    struct top_before *before = &top->before[row->id];
    struct top_figures *f = &top->figures[i];
    if (before->generation != row->generation)
        *before = (struct top_before){.generation = row->generation};
    *f = (struct top_figures){.inuse_bytes = totals_inuse_bytes(t), .objects = totals_inuse_objects(t), .alloc_bytes = t->alloc_bytes};
    f->growth = rate(top, f->inuse_bytes, before->inuse_bytes);
    f->alloc = rate(top, f->alloc_bytes, before->alloc_bytes);
    before->inuse_bytes = f->inuse_bytes;
    before->alloc_bytes = f->alloc_bytes;
}

static int find_all_figures(struct top *top)
{
    const struct snapshot *s = top->snapshot;
    uint64_t inuse = top->all.inuse_bytes, alloc = top->all.alloc_bytes;
    int error = s->n_rows > 0 ? grow(top, s->rows[s->n_rows - 1].id + 1) : 0;
    struct top_figures *figures = reallocarray(top->figures, (size_t)s->n_rows + 1, sizeof *figures);
    if (error || !figures)
        return -ENOMEM;
    top->figures = figures;
    for (uint32_t i = 0; i < s->n_rows; i++)
        find_figures(top, i);
    top->all = (struct top_figures){.inuse_bytes = totals_inuse_bytes(&s->all), .objects = totals_inuse_objects(&s->all),
                                    .alloc_bytes = s->all.alloc_bytes};
    top->all.growth = rate(top, top->all.inuse_bytes, inuse);
    top->all.alloc = rate(top, top->all.alloc_bytes, alloc);
    top->history[top->n_history++ % TOP_HISTORY] = top->all.inuse_bytes;
    return 0;
}

/* ---- Rows ---- */

static int64_t key_of(enum top_sort sort, const struct top_figures *f)
{
    switch (sort) {
    case TOP_GROWTH:
        return f->growth;
    case TOP_ALLOC:
        return f->alloc;
    case TOP_OBJECTS:
        return (int64_t)f->objects;
    default:
        return (int64_t)f->inuse_bytes;
    }
}

static int compare(const void *a, const void *b, void *sort)
{
    const struct top_row *x = a, *y = b;
    int64_t u = key_of(*(enum top_sort *)sort, &x->figures), v = key_of(*(enum top_sort *)sort, &y->figures);
    return u != v ? (u < v ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

static bool fits(const struct top *top, uint32_t row)
{
    char path[PATH_BYTES];
    if (top->filter[0] == '\0')
        return true;
    line_path(path, sizeof path, top->snapshot, row);
    return strcasestr(path, top->filter);
}

static void add(struct top_figures *to, const struct top_figures *more)
{
    to->inuse_bytes += more->inuse_bytes;
    to->objects += more->objects;
    to->alloc_bytes += more->alloc_bytes;
    to->growth += more->growth;
    to->alloc += more->alloc;
}

static bool is_empty(const struct top_figures *f)
{
    return f->inuse_bytes == 0 && f->alloc == 0 && f->growth == 0;
}

/* The root is shown as any other context; contexts below it are on the outermost level. */
static bool is_outermost(const struct snapshot *s, uint32_t i)
{
    return i == 0 || s->rows[i].parent_row == 0 || s->rows[i].parent_row >= s->n_rows;
}

struct tree {
    struct top_row *nodes; /* by row of the snapshot */
    bool *shown;           /* it, or a context below it, fits */
    uint32_t *first, *next; /* children, the largest last; index + 1 */
};

/* A parent may have a higher number than its child. A path has at most as many steps as there are rows. */
static void sum_up(struct top *top, struct tree *tree)
{
    const struct snapshot *s = top->snapshot;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        bool is_shown = fits(top, i) && !is_empty(&top->figures[i]);
        uint32_t at = i, steps = 0;
        for (; steps++ < s->n_rows; at = s->rows[at].parent_row) {
            add(&tree->nodes[at].figures, &top->figures[i]);
            tree->nodes[at].row = at;
            tree->nodes[at].has_below |= at != i;
            tree->shown[at] |= is_shown;
            if (is_outermost(s, at))
                break;
        }
    }
}

static void put_rows(struct top *top, const struct tree *tree, uint32_t first, uint32_t depth)
{
    for (uint32_t i = first; i != 0; i = tree->next[i - 1]) {
        struct top_row *row = &top->rows[top->n_rows];
        uint32_t id = top->snapshot->rows[i - 1].id;
        *row = tree->nodes[i - 1];
        row->depth = depth;
        row->is_collapsed = row->has_below && top->collapsed[id];
        top->n_rows++;
        if (row->is_collapsed)
            row->depth = depth;
        else if (depth < 1000)
            put_rows(top, tree, tree->first[i - 1], depth + 1);
    }
}

/* Puts all nodes below their parents: the smallest first, so that each list begins with the largest. */
static void arrange_tree(struct top *top, struct tree *tree, struct top_row *sorted)
{
    const struct snapshot *s = top->snapshot;
    uint32_t n = 0, outermost = 0;
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (tree->shown[i])
            sorted[n++] = tree->nodes[i];
    if (n > 0)
        qsort_r(sorted, n, sizeof *sorted, compare, &top->sort);
    while (n-- > 0) {
        uint32_t i = sorted[n].row;
        uint32_t *list = is_outermost(s, i) ? &outermost : &tree->first[s->rows[i].parent_row];
        tree->next[i] = *list;
        *list = i + 1;
    }
    put_rows(top, tree, outermost, 0);
}

static int arrange_contexts(struct top *top)
{
    uint32_t n = top->snapshot->n_rows;
    struct tree tree = {calloc((size_t)n + 1, sizeof *tree.nodes), calloc((size_t)n + 1, sizeof *tree.shown),
                        calloc((size_t)n + 1, sizeof *tree.first), calloc((size_t)n + 1, sizeof *tree.next)};
    struct top_row *sorted = calloc((size_t)n + 1, sizeof *sorted);
    bool is_complete = tree.nodes && tree.shown && tree.first && tree.next && sorted;
    if (is_complete && top->tree) {
        sum_up(top, &tree);
        arrange_tree(top, &tree, sorted);
    }
    for (uint32_t i = 0; i < n && is_complete && !top->tree; i++)
        if (!is_empty(&top->figures[i]) && fits(top, i))
            top->rows[top->n_rows++] = (struct top_row){.row = i, .figures = top->figures[i]};
    if (is_complete && !top->tree && top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof *top->rows, compare, &top->sort);
    free(tree.nodes);
    free(tree.shown);
    free(tree.first);
    free(tree.next);
    free(sorted);
    return is_complete ? 0 : -ENOMEM;
}

static struct top_before *thread_before(const struct top *top, const struct view_thread *t)
{
    return &top->threads_before[(uint32_t)t->thread_id % THREADS_BEFORE];
}

/* Live threads. Their growth is what they allocate less what they free. */
static void arrange_threads(struct top *top)
{
    for (uint32_t i = 0; i < top->threads.n_threads; i++) {
        const struct view_thread *t = &top->threads.threads[i];
        const struct top_before *b = thread_before(top, t);
        if (!t->live || (top->filter[0] != '\0' && !strcasestr(t->name, top->filter)))
            continue;
        struct top_row *row = &top->rows[top->n_rows++];
        *row = (struct top_row){.row = i, .figures = {.inuse_bytes = t->alloc_bytes, .objects = t->alloc_objects}};
        if (b->alloc_bytes > t->alloc_bytes || b->free_bytes > t->free_bytes || b->cpu_ns > t->cpu_ns)
            continue;
        row->figures.alloc = rate(top, t->alloc_bytes, b->alloc_bytes);
        row->free_rate = (uint64_t)rate(top, t->free_bytes, b->free_bytes);
        row->figures.growth = row->figures.alloc - (int64_t)row->free_rate;
        row->cpu_share = top->period_ns == 0 ? 0 : (double)(t->cpu_ns - b->cpu_ns) / (double)top->period_ns;
    }
    if (top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof *top->rows, compare, &top->sort);
}

int top_arrange(struct top *top)
{
    uint32_t most = top->snapshot->n_rows > top->threads.n_threads ? top->snapshot->n_rows : top->threads.n_threads;
    struct top_row *rows = reallocarray(top->rows, (size_t)most + 1, sizeof *rows);
    if (!rows)
        return -ENOMEM;
    top->rows = rows;
    top->n_rows = 0;
    if (top->view == TOP_CONTEXTS)
        return arrange_contexts(top);
    arrange_threads(top);
    return 0;
}

/* ---- Readings ---- */

static void keep_threads(struct top *top)
{
    for (uint32_t i = 0; i < top->threads.n_threads; i++) {
        const struct view_thread *t = &top->threads.threads[i];
        if (t->live)
            *thread_before(top, t) =
                (struct top_before){.alloc_bytes = t->alloc_bytes, .free_bytes = t->free_bytes, .cpu_ns = t->cpu_ns};
    }
    view_threads_free(&top->threads);
}

static int read_process(struct top *top)
{
    struct snapshot *s = view_snapshot(top->process, top->snapshot);
    if (!s)
        return -errno;
    top->snapshot = s;
    keep_threads(top);
    return view_threads_read(&top->threads, top->process);
}

/* Another program in the same process is another one to watch. */
static int read_again(struct top *top)
{
    snapshot_free(top->snapshot);
    top->snapshot = NULL;
    view_close(top->process);
    top->process = NULL;
    memset(top->before, 0xff, top->n_before * sizeof *top->before);
    int error = view_open(&top->process, top->pid);
    read_name(top->name, top->pid);
    return error ? error : read_process(top);
}

int top_read(struct top *top)
{
    uint64_t now = now_ns();
    if (!top->threads_before && !(top->threads_before = calloc(THREADS_BEFORE, sizeof *top->threads_before)))
        return -ENOMEM;
    if (top->ended)
        return 0;
    int error = read_process(top);
    if (error == -ENOENT)
        error = read_again(top);
    if (error == -ENOMEM)
        return error;
    if (error) {
        top->ended = error == -ESRCH || error == -ENOENT || error == -EAGAIN ? "the process has ended" : view_error_text(error);
        return top->snapshot ? top_arrange(top) : 0;
    }
    top->period_ns = top->time_ns == 0 ? 0 : now - top->time_ns;
    top->time_ns = now;
    error = find_all_figures(top);
    return error ? error : top_arrange(top);
}

void top_toggle(struct top *top, uint32_t row, bool collapse)
{
    if (top->view == TOP_CONTEXTS && top->tree && row < top->n_rows)
        top->collapsed[top->snapshot->rows[top->rows[row].row].id] = collapse;
}

void top_toggle_all(struct top *top, bool collapse)
{
    if (top->n_collapsed > 0)
        memset(top->collapsed, collapse, top->n_collapsed * sizeof *top->collapsed);
}

void top_close(struct top *top)
{
    view_threads_free(&top->threads);
    snapshot_free(top->snapshot);
    view_close(top->process);
    free(top->before);
    free(top->threads_before);
    free(top->figures);
    free(top->collapsed);
    free(top->rows);
}
