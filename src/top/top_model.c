/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of `jespan top`: readings of a process, and rates between two of them. top_rows.c has the rows. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/process_stat.h"
#include "console/command.h"
#include "sidecar/ending.h"
#include "top.h"

#define THREADS_BEFORE 65536u

uint64_t top_now_ns(void)
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
    if (top_url_take(top, word))
        return NULL;
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

int64_t top_rate(uint64_t period_ns, uint64_t now, uint64_t before)
{
    return period_ns == 0 ? 0 : (int64_t)((double)(int64_t)(now - before) * 1e9 / (double)period_ns);
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
    f->growth = top_rate(top->period_ns, f->inuse_bytes, before->inuse_bytes);
    f->alloc = top_rate(top->period_ns, f->alloc_bytes, before->alloc_bytes);
    before->inuse_bytes = f->inuse_bytes;
    before->alloc_bytes = f->alloc_bytes;
}

static int find_all_figures(struct top *top)
{
    const struct snapshot *s = top->snapshot;
    uint64_t inuse = top->all.inuse_bytes, alloc = top->all.alloc_bytes;
    int error = s->n_rows > 0 ? grow(top, snapshot_ids_end(s)) : 0;
    struct top_figures *figures = reallocarray(top->figures, (size_t)s->n_rows + 1, sizeof *figures);
    if (error || !figures)
        return -ENOMEM;
    top->figures = figures;
    for (uint32_t i = 0; i < s->n_rows; i++)
        find_figures(top, i);
    top->all = (struct top_figures){.inuse_bytes = totals_inuse_bytes(&s->all), .objects = totals_inuse_objects(&s->all),
                                    .alloc_bytes = s->all.alloc_bytes};
    top->all.growth = top_rate(top->period_ns, top->all.inuse_bytes, inuse);
    top->all.alloc = top_rate(top->period_ns, top->all.alloc_bytes, alloc);
    top->history[top->n_history++ % TOP_HISTORY] = top->all.inuse_bytes;
    return 0;
}

/* ---- Readings ---- */

struct top_before *top_thread_before(const struct top *top, const struct view_thread *t)
{
    return &top->threads_before[(uint32_t)t->thread_id % THREADS_BEFORE];
}

static void keep_threads(struct top *top)
{
    for (uint32_t i = 0; i < top->threads.n_threads; i++) {
        const struct view_thread *t = &top->threads.threads[i];
        if (t->live)
            *top_thread_before(top, t) =
                (struct top_before){.alloc_bytes = t->alloc_bytes, .free_bytes = t->free_bytes, .cpu_ns = t->cpu_ns};
    }
    view_threads_free(&top->threads);
}

void top_take_threads(struct top *top, struct view_threads *threads)
{
    uint64_t now = top_now_ns();
    keep_threads(top);
    top->threads = *threads;
    top->threads_period_ns = top->threads_time_ns == 0 ? 0 : now - top->threads_time_ns;
    top->threads_time_ns = now;
}

/* Takes the snapshot, and reads the threads. */
static int take_reading(struct top *top, struct snapshot *s)
{
    struct view_threads threads;
    snapshot_free(top->snapshot);
    top->snapshot = s;
    top->n_lacking = 0;
    int error = view_threads_read(&threads, top->process, VIEW_MOST_CELLS);
    if (!error)
        top_take_threads(top, &threads);
    return error;
}

static int read_process(struct top *top)
{
    struct snapshot *s = view_snapshot(top->process, NULL); /* if it fails, the one before is shown */
    return s ? take_reading(top, s) : -errno;
}

/* Another program in the same process is another one to watch. If it cannot be read, the figures of the one before are still shown,
 * whose names lie in its view. */
static int read_again(struct top *top)
{
    struct view *process;
    int error = view_open(&process, top->pid);
    if (error)
        return error;
    struct snapshot *s = view_snapshot(process, NULL);
    if (!s) {
        error = -errno;
        view_close(process);
        return error;
    }
    snapshot_free(top->snapshot);
    top->snapshot = NULL;
    view_close(top->process);
    top->process = process;
    memset(top->before, 0xff, top->n_before * sizeof *top->before);
    read_name(top->name, top->pid);
    return take_reading(top, s);
}

const char top_process_ended[] = "the process has ended";

static bool has_ended(pid_t pid)
{
    struct process_stat stat;
    return !process_stat_read(&stat, pid) || strchr("ZX", process_stat_state(&stat));
}

/* Why there are no more readings. NULL: there may be some. A program that is about to begin has no jespan, and then no memory yet. */
static const char *why_ended(struct top *top, int error)
{
    if (error == -ESRCH || ((error == -ENOENT || error == -EAGAIN) && has_ended(top->pid)))
        return top_process_ended;
    if (top->snapshot && (error == -EAGAIN || (error == -ENOENT && top->n_lacking++ == 0)))
        return NULL;
    return error == -ENOENT && top->snapshot ? "the process executes a program without jespan now" : view_error_text(error);
}

/* Sets top->ended if there are no more readings. */
static int read_source(struct top *top)
{
    if (top->url[0] != '\0') {
        top->ended = top_url_read(top);
        return 0;
    }
    int error = read_process(top);
    if (error == -ENOENT)
        error = read_again(top);
    if (error && error != -ENOMEM)
        top->ended = why_ended(top, error);
    return error == -ENOMEM ? error : 0;
}

int top_read(struct top *top)
{
    uint64_t now = top_now_ns();
    if (!top->threads_before && !(top->threads_before = calloc(THREADS_BEFORE, sizeof *top->threads_before)))
        return -ENOMEM;
    if (top->ended)
        return 0;
    int error = read_source(top);
    if (error)
        return error;
    if (top->ended)
        return top->snapshot ? top_arrange(top) : 0;
    top->period_ns = top->time_ns == 0 ? 0 : now - top->time_ns;
    top->time_ns = now;
    error = find_all_figures(top);
    if (!error)
        error = top_items_read(top);
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
    top_items_free(&top->items);
    view_threads_free(&top->threads);
    if (top->page)
        top_url_free(top->page);
    else
        snapshot_free(top->snapshot);
    view_close(top->process);
    free(top->before);
    free(top->threads_before);
    free(top->figures);
    free(top->collapsed);
    free(top->rows);
}
