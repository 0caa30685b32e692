/* SPDX-License-Identifier: BSD-2-Clause */
/* /spans: contexts with their figures, as JSON. */
#include "http_answer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/process_stat.h"
#include "http_rows.h"
#include "http_text.h"

/* ---- JSON ---- */

static void write_figures(struct http_json *to, const struct totals *t, uint64_t wall_ns)
{
    http_json_number(to, "inuse_bytes", totals_inuse_bytes(t));
    http_json_number(to, "inuse_objects", totals_inuse_objects(t));
    http_json_number(to, "alloc_bytes", t->alloc_bytes);
    http_json_number(to, "alloc_objects", t->alloc_objects);
    http_json_number(to, "opens", t->opens);
    http_json_number(to, "wall_ns", wall_ns);
    http_json_number(to, "busy_ns", t->busy);
    http_json_number(to, "cpu_ns", t->cpu);
    http_json_number(to, "outlived_bytes", t->outlived_bytes);
    http_json_number(to, "outlived_objects", t->outlived_objects);
    http_json_number(to, "temporary_objects", t->temporary_objects);
    if (t->lifetimes > 0)
        http_json_number(to, "lifetimes_us", t->lifetimes);
}

/* One at a time: figures of the context alone, and with all below it. */
static void write_row_figures(struct http_json *to, const struct snapshot_row *row, const struct totals *sum)
{
    write_figures(to, &row->totals, row->totals.wall);
    http_json_number(to, "peak_bytes", row->peaks.own_bytes);
    http_json_number(to, "at_peak_bytes", row->peaks.at_peak_bytes);
    http_json_line(to);
    http_json_open(to, "total", '{');
    write_figures(to, sum, row->wall_ns);
    http_json_number(to, "peak_bytes", row->peaks.total_bytes);
    http_json_close(to, '}');
}

static void write_totals(struct http_json *to, const char *name, const struct totals *t, uint64_t wall_ns)
{
    http_json_line(to);
    http_json_open(to, name, '{');
    write_figures(to, t, wall_ns);
    http_json_close(to, '}');
}

static void write_labels(struct http_json *to, const struct snapshot_row *row)
{
    http_json_open(to, "labels", '{');
    for (uint32_t i = 0; i < row->n_labels; i++)
        http_json_string(to, row->labels[i].key, row->labels[i].value);
    http_json_close(to, '}');
}

/* The id of the parent, 0 for the root. */
static uint32_t parent_id(const struct snapshot *s, uint32_t row)
{
    uint32_t parent = s->rows[row].parent_row;
    return parent < s->n_rows && parent != row ? s->rows[parent].id : 0;
}

void http_spans_write_context(struct http_json *to, const struct snapshot *s, uint32_t i)
{
    const struct snapshot_row *row = &s->rows[i];
    http_json_string(to, "kind", kind_text(row->kind));
    http_json_string(to, "name", row->name);
    http_json_string(to, "target", row->target);
    http_json_string(to, "file", row->file);
    http_json_number(to, "line", row->line);
    write_labels(to, row);
}

static void write_row(struct http_json *to, const struct snapshot *s, uint32_t i, const struct totals *sum)
{
    const struct snapshot_row *row = &s->rows[i];
    http_json_line(to);
    http_json_open(to, NULL, '{');
    http_json_number(to, "id", row->id);
    http_json_number(to, "parent", parent_id(s, i));
    http_spans_write_context(to, s, i);
    write_row_figures(to, row, sum);
    http_json_close(to, '}');
}

uint64_t http_resident_bytes(const struct snapshot *s)
{
    return s->program ? s->resident_bytes : process_resident_bytes(0);
}

const char *http_spans_stacks(const struct http_source *source)
{
    const char *mode = "";
    size_t bytes = sizeof mode;
    return source->host->mallctl("spans.stacks", &mode, &bytes, NULL, 0) == 0 && mode ? mode : "";
}

static void write_head(struct http_json *to, const struct snapshot *s, const struct http_source *source, const char *names)
{
    http_json_seconds(to, "time", s->time_unix_ns);
    http_json_number(to, "pid", s->pid);
    http_json_string(to, "program", http_answer_program(s));
    http_json_number(to, "resident_bytes", http_resident_bytes(s));
    http_json_string(to, "stacks", http_spans_stacks(source));
    http_json_word(to, "may_switch", http_access_may_change(source) ? "true" : "false");
    if (names)
        http_json_string(to, "names", names);
    write_totals(to, "all", &s->all, s->all.wall);
    write_totals(to, "retired", &s->retired, s->retired.wall);
}

static void write_chosen(struct http_json *to, const struct snapshot *s, const struct totals *sums, const bool *chosen)
{
    uint32_t left_out = 0;
    http_json_line(to);
    http_json_open(to, "spans", '[');
    for (const struct snapshot_row *row = NULL; (row = snapshot_next(s, row));) {
        uint32_t i = (uint32_t)(row - s->rows);
        if (chosen[i])
            write_row(to, s, i, &sums[i]);
        left_out += !chosen[i];
    }
    http_json_close(to, ']');
    http_json_number(to, "left_out", left_out);
}

static uint64_t inuse_of(const struct totals *sum)
{
    return totals_inuse_bytes(sum);
}

bool http_spans_write(struct http_text *to, const struct snapshot *s, uint32_t limit, const struct http_source *source,
                      const char *names)
{
    struct totals *sums = malloc((s->n_rows + (size_t)1) * sizeof *sums);
    bool *chosen = calloc(s->n_rows + (size_t)1, sizeof *chosen);
    uint32_t room = UINT32_MAX;
    bool done = sums && chosen && http_rows_sum(s, sums) && http_rows_choose(s, sums, inuse_of, limit, &room, chosen);
    struct http_json json = {.to = to};
    if (done) {
        http_json_open(&json, NULL, '{');
        write_head(&json, s, source, names);
        write_chosen(&json, s, sums, chosen);
        http_json_close(&json, '}');
        http_text_put(to, "\n");
    }
    free(sums);
    free(chosen);
    return done && !to->failed;
}

bool http_spans_limit(const struct http_request *request, uint32_t *limit, struct http_answer *answer)
{
    char *end;
    unsigned long n = request->limit ? strtoul(request->limit, &end, 10) : HTTP_SPANS_DEFAULT_LIMIT;
    *limit = (uint32_t)n;
    if (request->limit && (request->limit[0] < '0' || request->limit[0] > '9' || *end != '\0' || n > HTTP_SPANS_MAX_LIMIT))
        http_answer_line(answer, 400, "limit must be a number from 0 to 100000");
    else if (request->format && strcmp(request->format, "json") != 0)
        http_answer_line(answer, 400, "the only format is json");
    return answer->status == 0;
}

void http_spans_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    uint32_t limit;
    const struct snapshot *s = http_spans_limit(request, &limit, answer) ? http_answer_look(source, answer) : NULL;
    if (!s)
        return;
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
    if (!http_spans_write(&answer->body, s, limit, source, NULL))
        http_answer_line(answer, 503, "there is no memory for the answer");
}
