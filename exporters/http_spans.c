/* SPDX-License-Identifier: BSD-2-Clause */
/* /spans: contexts with their figures, as JSON. */
#include "http_spans.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

/* ---- Sums over the tree ---- */

/* Of each row, the figures of all below it too; rows that are in a circle keep their own. Returns false where there is
 * no memory. */
static bool sum_below(const struct snapshot *s, struct totals *sums)
{
    uint32_t n = s->n_rows, n_ready = 0;
    uint32_t *children = calloc(n + (size_t)1, sizeof *children), *ready = malloc((n + (size_t)1) * sizeof *ready);
    bool done = children != NULL && ready != NULL;
    for (uint32_t i = 0; done && i < n; i++) {
        sums[i] = s->rows[i].totals;
        if (s->rows[i].parent_row < n && s->rows[i].parent_row != i)
            children[s->rows[i].parent_row]++;
    }
    for (uint32_t i = 0; done && i < n; i++)
        if (children[i] == 0)
            ready[n_ready++] = i;
    for (uint32_t k = 0; done && k < n_ready; k++) {
        uint32_t row = ready[k], parent = s->rows[row].parent_row;
        if (parent >= n || parent == row)
            continue;
        totals_add(&sums[parent], &sums[row]);
        if (--children[parent] == 0)
            ready[n_ready++] = parent;
    }
    free(children);
    free(ready);
    return done;
}

/* ---- Which rows ---- */

struct size {
    uint64_t bytes;
    uint32_t row;
};

static int compare_sizes(const void *a, const void *b)
{
    const struct size *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->row < y->row ? -1 : x->row > y->row;
}

/* A row that is there has all above it there. */
static void add_with_ancestors(const struct snapshot *s, uint32_t row, bool *chosen)
{
    while (row < s->n_rows && !chosen[row]) {
        chosen[row] = true;
        row = s->rows[row].parent_row;
    }
}

static bool choose(const struct snapshot *s, const struct totals *sums, uint32_t limit, bool *chosen)
{
    struct size *sizes = malloc((s->n_rows + (size_t)1) * sizeof *sizes);
    if (sizes == NULL)
        return false;
    for (uint32_t i = 0; i < s->n_rows; i++)
        sizes[i] = (struct size){totals_inuse_bytes(&sums[i]), i};
    qsort(sizes, s->n_rows, sizeof *sizes, compare_sizes);
    for (uint32_t i = 0; i < s->n_rows && i < limit; i++)
        add_with_ancestors(s, sizes[i].row, chosen);
    free(sizes);
    return true;
}

/* ---- JSON ---- */

static void write_figure(struct http_text *to, const char *name, uint64_t value)
{
    http_text_put(to, ",\"");
    http_text_put(to, name);
    http_text_put(to, "\":");
    http_text_number(to, value);
}

static void write_figures(struct http_text *to, const struct totals *t, uint64_t wall_ns)
{
    http_text_put(to, "\"inuse_bytes\":");
    http_text_number(to, totals_inuse_bytes(t));
    write_figure(to, "inuse_objects", totals_inuse_objects(t));
    write_figure(to, "alloc_bytes", t->alloc_bytes);
    write_figure(to, "alloc_objects", t->alloc_objects);
    write_figure(to, "opens", t->opens);
    write_figure(to, "wall_ns", wall_ns);
    write_figure(to, "busy_ns", t->busy);
    write_figure(to, "cpu_ns", t->cpu);
    write_figure(to, "outlived_bytes", t->outlived_bytes);
    write_figure(to, "outlived_objects", t->outlived_objects);
}

static void write_totals(struct http_text *to, const char *name, const struct totals *t, uint64_t wall_ns)
{
    http_text_put(to, ",\n\"");
    http_text_put(to, name);
    http_text_put(to, "\":{");
    write_figures(to, t, wall_ns);
    http_text_put(to, "}");
}

static void write_text(struct http_text *to, const char *name, const char *value)
{
    http_text_put(to, ",\"");
    http_text_put(to, name);
    http_text_put(to, "\":");
    http_text_json(to, value);
}

static void write_labels(struct http_text *to, const struct snapshot_row *row)
{
    http_text_put(to, ",\"labels\":{");
    for (uint32_t i = 0; i < row->n_labels; i++) {
        http_text_put(to, i > 0 ? "," : "");
        http_text_json(to, row->labels[i].key);
        http_text_put(to, ":");
        http_text_json(to, row->labels[i].value);
    }
    http_text_put(to, "}");
}

/* The root's parent is 0. */
static uint32_t parent_id(const struct snapshot *s, uint32_t row)
{
    uint32_t parent = s->rows[row].parent_row;
    return parent < s->n_rows && parent != row ? s->rows[parent].id : 0;
}

static void write_row(struct http_text *to, const struct snapshot *s, uint32_t i, const struct totals *sum)
{
    const struct snapshot_row *row = &s->rows[i];
    http_text_put(to, "\n{\"id\":");
    http_text_number(to, row->id);
    write_figure(to, "parent", parent_id(s, i));
    write_text(to, "kind", kind_text(row->kind));
    write_text(to, "name", row->name);
    write_text(to, "target", row->target);
    write_text(to, "file", row->file);
    write_figure(to, "line", row->line);
    write_labels(to, row);
    http_text_put(to, ",");
    write_figures(to, &row->totals, row->totals.wall);
    write_totals(to, "total", sum, row->wall_ns);
    http_text_put(to, "}");
}

static uint64_t resident_bytes(void)
{
    char text[128];
    char *second;
    int fd = descriptor_open("/proc/thread-self/statm", O_RDONLY, 0);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    second = strchr(text, ' ');
    return second != NULL ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void write_head(struct http_text *to, const struct snapshot *s)
{
    http_text_put(to, "{\"time\":");
    http_text_seconds(to, s->time_unix_ns);
    write_figure(to, "pid", s->pid);
    write_text(to, "program", program_invocation_short_name);
    write_figure(to, "resident_bytes", resident_bytes());
    write_totals(to, "all", &s->all, s->all.wall);
    write_totals(to, "retired", &s->retired, s->retired.wall);
}

bool http_spans_write(struct http_text *to, const struct snapshot *s, uint32_t limit)
{
    struct totals *sums = malloc((s->n_rows + (size_t)1) * sizeof *sums);
    bool *chosen = calloc(s->n_rows + (size_t)1, sizeof *chosen);
    uint32_t n = 0;
    bool done = sums != NULL && chosen != NULL && sum_below(s, sums) && choose(s, sums, limit, chosen);
    if (done) {
        write_head(to, s);
        http_text_put(to, ",\n\"spans\":[");
        for (uint32_t i = 0; i < s->n_rows; i++)
            if (chosen[i]) {
                http_text_put(to, n++ > 0 ? "," : "");
                write_row(to, s, i, &sums[i]);
            }
        http_text_put(to, "]");
        write_figure(to, "left_out", s->n_rows - n);
        http_text_put(to, "}\n");
    }
    free(sums);
    free(chosen);
    return done && !to->failed;
}

void http_spans_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    char *end;
    unsigned long limit = request->limit != NULL ? strtoul(request->limit, &end, 10) : HTTP_SPANS_DEFAULT_LIMIT;
    if (request->limit != NULL && (request->limit[0] < '0' || request->limit[0] > '9' || *end != '\0'
                                   || limit > HTTP_SPANS_MAX_LIMIT)) {
        http_answer_line(answer, 400, "limit is no number from 0 to 100000");
        return;
    }
    if (request->format != NULL && strcmp(request->format, "json") != 0) {
        http_answer_line(answer, 400, "the only format is json");
        return;
    }
    const struct snapshot *s = http_answer_look(source, answer);
    if (s == NULL)
        return;
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
    if (!http_spans_write(&answer->body, s, (uint32_t)limit))
        http_answer_line(answer, 503, "there is no memory for the answer");
}
