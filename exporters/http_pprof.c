/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles over HTTP. */
#include "http_pprof.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/descriptor.h"
#include "pprof.h"

/* ---- Differences ---- */

/* CPU time that the kernel took back is none that was spent. */
static void subtract(struct totals *t, const struct totals *base)
{
    totals_subtract(t, base);
    if ((int64_t)t->cpu < 0)
        t->cpu = 0;
}

/* Both are ordered by id, but an id may have been given to another context. */
static void subtract_rows(struct snapshot_row *rows, uint32_t n, const struct snapshot *start, struct totals *gone)
{
    for (uint32_t i = 0, at = 0; i < start->n_rows; i++) {
        const struct snapshot_row *was = &start->rows[i];
        while (at < n && rows[at].id < was->id)
            at++;
        if (at < n && rows[at].id == was->id && rows[at].generation == was->generation)
            subtract(&rows[at].totals, &was->totals);
        else
            totals_add(gone, &was->totals);
    }
}

struct snapshot *http_pprof_difference(const struct snapshot *start, const struct snapshot *end)
{
    struct totals gone = start->retired;
    struct snapshot *s = malloc(sizeof *s + end->n_rows * sizeof *end->rows);
    if (s == NULL)
        return NULL;
    struct snapshot_row *rows = (struct snapshot_row *)(s + 1);
    memcpy(rows, end->rows, end->n_rows * sizeof *rows);
    subtract_rows(rows, end->n_rows, start, &gone);
    *s = *end;
    s->rows = rows;
    s->start_unix_ns += start->time_unix_ns - start->start_unix_ns; /* the clock may have been set meanwhile */
    subtract(&s->retired, &gone);
    subtract(&s->all, &start->all);
    return s;
}

/* ---- Profiles ---- */

struct text_sink {
    struct exporter_sink sink; /* first */
    struct http_text *text;
};

static int write_text(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct http_text *text = ((struct text_sink *)sink)->text;
    http_text_bytes(text, data, bytes);
    return text->failed ? -ENOMEM : 0;
}

static void answer_profile(struct http_source *source, const struct http_request *request, struct http_answer *answer,
                           const struct pprof_kind *kind, const char *file)
{
    struct text_sink to = {{write_text}, &answer->body};
    const struct snapshot *now = http_answer_look(source, answer);
    if (now == NULL)
        return;
    struct snapshot *difference = request->start != NULL ? http_pprof_difference(request->start, now) : NULL;
    int error = request->start != NULL && difference == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = pprof_encode(difference != NULL ? difference : now, kind, PPROF_GZIP, &to.sink);
    free(difference);
    answer->status = 200;
    answer->type = "application/octet-stream";
    answer->file = file;
    if (error != 0)
        http_answer_line(answer, 503, "there is no memory for the profile");
}

void http_pprof_heap(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_heap, request->start != NULL ? "heap-delta" : "heap");
}

void http_pprof_allocs(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_allocs, request->start != NULL ? "allocs-delta" : "allocs");
}

void http_pprof_cpu(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_cpu, "profile");
}

/* ---- What pprof asks for besides ---- */

/* The arguments with NULs in between. */
void http_pprof_cmdline(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    char part[1024];
    ssize_t n;
    (void)source;
    (void)request;
    int fd = descriptor_open("/proc/self/cmdline", O_RDONLY, 0);
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0)
        http_text_bytes(&answer->body, part, (size_t)n);
    if (fd >= 0)
        close(fd);
    if (answer->body.n > 0 && answer->body.data[answer->body.n - 1] == '\0')
        answer->body.n--;
    answer->status = 200;
    answer->type = HTTP_TYPE_TEXT;
}

/* Names are in the profiles; none can be asked for by address. */
void http_pprof_symbol(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    (void)source;
    (void)request;
    http_answer_line(answer, 200, "num_symbols: 0");
}
