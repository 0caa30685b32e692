/* SPDX-License-Identifier: BSD-2-Clause */
/* /threads: the threads of the process, also ended ones, as JSON with the names of `jespan threads --json`. */
#include <errno.h>
#include <stdlib.h>

#include "http_view.h"
#include "snapshot/view_threads.h"

#define MOST_CELLS ((size_t)1 << 20) /* pairs of a thread and a context: 24 MiB. With more, the smallest contexts are one */

struct threads {
    struct http_view of;
    struct view_threads all;
    struct thread_shares *shares; /* by thread */
    uint32_t *order;              /* the threads with figures, those that allocated most first */
    uint32_t n;
};

static int compare(const void *a, const void *b, void *all)
{
    const struct view_threads *threads = all;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t u = threads->threads[x].alloc_bytes, v = threads->threads[y].alloc_bytes;
    return u != v ? (u < v ? 1 : -1) : (x > y) - (x < y);
}

static int read_threads(struct threads *t, const struct http_source *source)
{
    int error = http_view_open(&t->of, source);
    if (!error)
        error = view_threads_read_within(&t->all, t->of.view, t->of.snapshot, MOST_CELLS);
    if (error)
        return error;
    view_threads_rename(&t->all, source->pid);
    t->shares = view_threads_shares(&t->all);
    t->order = calloc((size_t)t->all.n_threads + 1, sizeof *t->order);
    if (!t->shares || !t->order)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->all.n_threads; i++)
        if (view_thread_has_figures(&t->all.threads[i]))
            t->order[t->n++] = i;
    qsort_r(t->order, t->n, sizeof *t->order, compare, &t->all);
    return 0;
}

static void write_bounds(struct http_json *to, const char *name, const struct bounds *b)
{
    http_json_open(to, name, '[');
    http_json_number(to, NULL, b->low);
    http_json_number(to, NULL, b->high);
    http_json_close(to, ']');
}

static void write_thread(struct http_json *to, const struct threads *t, uint32_t i)
{
    const struct view_thread *thread = &t->all.threads[i];
    char path[HTTP_PATH_BYTES];
    http_json_line(to);
    http_json_open(to, NULL, '{');
    http_json_string(to, "name", view_thread_name(thread));
    http_json_number(to, "id", (uint64_t)thread->thread_id);
    http_json_number(to, "block", thread->block);
    http_json_word(to, "live", thread->live ? "true" : "false");
    http_json_number(to, "threads", thread->lives);
    if (thread->live) {
        http_view_path(&t->of, thread->context, path);
        http_json_string(to, "context", path);
        http_json_number(to, "context_id", thread->context);
    } else {
        http_json_word(to, "context", "null");
    }
    http_json_number(to, "alloc_objects", thread->alloc_objects);
    http_json_number(to, "alloc_bytes", thread->alloc_bytes);
    http_json_number(to, "free_objects", thread->free_objects);
    http_json_number(to, "free_bytes", thread->free_bytes);
    write_bounds(to, "freed_by_others_bytes", &t->shares[i].freed_by_others);
    write_bounds(to, "inuse_bytes", &t->shares[i].in_use);
    http_json_number(to, "busy_ns", thread->busy_ns);
    http_json_number(to, "cpu_ns", thread->cpu_ns);
    http_json_close(to, '}');
}

static void write_threads(struct http_json *to, const struct threads *t, uint32_t limit)
{
    uint32_t n = t->n < limit ? t->n : limit;
    http_json_open(to, NULL, '{');
    http_json_number(to, "pid", t->of.snapshot->pid);
    http_json_number(to, "inuse_bytes", totals_inuse_bytes(&t->of.snapshot->all));
    http_json_number(to, "not_listed", t->all.n_left_out);
    http_json_number(to, "left_out", t->n - n);
    http_json_number(to, "contexts_as_one", t->all.n_as_one);
    http_json_open(to, "threads", '[');
    for (uint32_t i = 0; i < n; i++)
        write_thread(to, t, t->order[i]);
    http_json_close(to, ']');
    http_json_close(to, '}');
}

void http_threads_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    struct threads t = {.n = 0};
    uint32_t limit;
    if (!http_spans_limit(request, &limit, answer))
        return;
    int error = read_threads(&t, source);
    if (!error)
        write_threads(&(struct http_json){.to = &answer->body}, &t, limit);
    http_view_finish(answer, error);
    free(t.order);
    free(t.shares);
    view_threads_free(&t.all);
    http_view_close(&t.of);
}
