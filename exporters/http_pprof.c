/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles over HTTP. */
#include "http_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/process_stat.h"
#include "digest.h"
#include "period.h"
#include "pprof.h"

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

/* Encodes with the labels that series_labels lists. Scrapers make a series of each value of a label. Contexts that
 * differ only in other labels are one sample. */
static int encode_digest(struct digest *d, const struct snapshot *s, const struct pprof_kind *kind,
                         struct exporter_sink *sink)
{
    digest_set_time(d, s->start_unix_ns, s->time_unix_ns);
    const struct snapshot *view = digest_view(d);
    if (!view)
        return -ENOMEM;
    struct snapshot shown = *view;
    shown.epoch = s->epoch;
    shown.pid = s->pid;
    return pprof_encode(&shown, kind, PPROF_GZIP, sink);
}

static int encode_difference(const struct snapshot *s, const char *labels, const struct pprof_kind *kind,
                             struct exporter_sink *sink)
{
    struct label_names names;
    if (!label_names_make(&names, labels))
        return -ENOMEM;
    const struct digest_shape shape = {.labels = labels, .names = &names};
    struct digest *d = digest_make(&shape);
    if (!d) {
        label_names_free(&names);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < s->n_rows; i++)
        digest_add(d, s, i, &s->rows[i].totals);
    digest_add(d, s, PERIOD_RETIRED, &s->retired);
    int error = encode_digest(d, s, kind, sink);
    digest_free(d);
    label_names_free(&names);
    return error;
}

/* ---- Since the program began ---- */

/* Scrapers subtract such profiles from one another, so no sample may go down. But the figures of a recycled context
 * move to "(retired)". So the history keeps the sum of each sample. */
struct http_history {
    struct digest_shape shape;
    struct label_names names; /* that servers accept */
    struct period *period;
    struct digest *digest; /* the sum of all periods. NULL: none yet */
};

void http_pprof_free(struct http_history *history)
{
    if (!history)
        return;
    period_free(history->period);
    digest_free(history->digest);
    label_names_free(&history->names);
    free(history);
}

static struct http_history *make_history(const char *labels)
{
    struct http_history *history = calloc(1, sizeof *history);
    if (!history)
        return NULL;
    history->shape = (struct digest_shape){.labels = labels, .names = &history->names};
    history->period = period_make();
    if (history->period && label_names_make(&history->names, labels))
        return history;
    http_pprof_free(history);
    return NULL;
}

/* Without memory the history stays unchanged, and the next request adds the period. */
static int add_period(struct http_history *history, const struct snapshot *s)
{
    struct digest *d = digest_make(&history->shape);
    int error = d ? period_next(history->period, s, digest_add, d) : -ENOMEM;
    if (error != 0) {
        digest_free(d);
        return error;
    }
    if (history->digest)
        digest_merge(d, history->digest);
    digest_free(history->digest);
    history->digest = d;
    return 0;
}

static int encode_history(struct http_source *source, const struct pprof_kind *kind, struct exporter_sink *sink)
{
    if (!source->history)
        source->history = make_history(source->host->conf->series_labels);
    int error = source->history ? add_period(source->history, source->latest) : -ENOMEM;
    return error != 0 ? error : encode_digest(source->history->digest, source->latest, kind, sink);
}

/* The start is subtracted from a copy: other readers have the snapshot too, and the next one may be made out of it. A start has no
 * figures of stacks, so rows are shown without theirs. */
static int encode_since(struct http_source *source, const struct http_request *request, const struct pprof_kind *kind,
                        struct exporter_sink *sink)
{
    struct snapshot end = *source->latest;
    size_t bytes = end.n_rows * sizeof *end.rows;
    struct snapshot_row *rows = malloc(bytes + 1);
    if (!rows)
        return -ENOMEM;
    end.rows = memcpy(rows, end.rows, bytes);
    for (uint32_t i = 0; i < end.n_rows; i++)
        rows[i].first_stack = 0;
    end.n_stacks = 0;
    http_start_subtract(request->start, &end);
    int error = request->labels ? pprof_encode(&end, kind, PPROF_GZIP, sink)
                                : encode_difference(&end, source->host->conf->series_labels, kind, sink);
    free(rows);
    return error;
}

static int encode(struct http_source *source, const struct http_request *request, const struct pprof_kind *kind,
                  struct exporter_sink *sink)
{
    if (request->start)
        return encode_since(source, request, kind, sink);
    return request->labels ? pprof_encode(source->latest, kind, PPROF_GZIP, sink) : encode_history(source, kind, sink);
}

/* PROGRAM.WHAT.pb.gz. The name of a program may have any bytes; a header may not. */
static void name_file(struct http_answer *answer, const struct snapshot *s, const char *what)
{
    snprintf(answer->file, sizeof answer->file, "%.64s.%s.pb.gz", http_answer_program(s), what);
    for (char *c = answer->file; *c; c++)
        if (!strchr("-._", *c) && !((*c | 32) >= 'a' && (*c | 32) <= 'z') && !(*c >= '0' && *c <= '9'))
            *c = '_';
}

static void answer_profile(struct http_source *source, const struct http_request *request, struct http_answer *answer,
                           const struct pprof_kind *kind, const char *what)
{
    struct text_sink to = {{write_text}, &answer->body};
    if (request->labels && strcmp(request->labels, "all") != 0) {
        http_answer_line(answer, 400, "labels can be all; without it, profiles have the labels that series_labels lists");
        return;
    }
    if (!http_answer_look(source, answer))
        return;
    if (request->start && !http_source_is_of(source, request->start)) {
        http_answer_line(answer, 503, "the program has ended, or executes another one, since the difference began");
        return;
    }
    int error = encode(source, request, kind, &to.sink);
    answer->status = 200;
    answer->type = "application/octet-stream";
    name_file(answer, source->latest, what);
    if (error != 0)
        http_answer_line(answer, 503, "there is no memory for the profile");
}

void http_pprof_heap(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_heap, request->start ? "heap-delta" : "heap");
}

void http_pprof_allocs(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_allocs, request->start ? "allocs-delta" : "allocs");
}

void http_pprof_cpu(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    answer_profile(source, request, answer, &pprof_cpu, "profile");
}

/* ---- Other requests of pprof ---- */

/* The arguments, separated by NULs. */
void http_pprof_cmdline(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    char part[1024];
    ssize_t n;
    (void)request;
    int fd = descriptor_open(process_path(part, source->pid, "cmdline"), O_RDONLY, 0);
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0)
        http_text_bytes(&answer->body, part, (size_t)n);
    if (fd >= 0)
        close(fd);
    if (answer->body.n > 0 && answer->body.data[answer->body.n - 1] == '\0')
        answer->body.n--;
    answer->status = 200;
    answer->type = HTTP_TYPE_TEXT;
}

/* Profiles have the names. pprof asks here whether it can look up addresses, and the answer is no. */
void http_pprof_symbol(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    (void)source;
    (void)request;
    http_answer_line(answer, 200, "num_symbols: 0");
}
