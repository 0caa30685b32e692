/* SPDX-License-Identifier: BSD-2-Clause */
/* Common parts of all answers. */
#include "http_answer.h"

#include "http_pprof.h"
#include "http_series.h"

void http_answer_line(struct http_answer *answer, unsigned status, const char *line)
{
    http_text_free(&answer->body);
    answer->status = status;
    answer->type = HTTP_TYPE_TEXT;
    answer->file = NULL;
    http_text_put(&answer->body, line);
    http_text_put(&answer->body, "\n");
}

/* The process has executed another program. Its counters began anew. */
static void forget_program(struct http_source *source)
{
    http_series_free(source->series);
    http_pprof_free(source->history);
    source->series = NULL;
    source->history = NULL;
}

const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer)
{
    struct snapshot *s = source->host->snapshot(source->latest);
    if (!s) {
        http_answer_line(answer, 503, "there is no memory for a snapshot");
        return NULL;
    }
    if (source->program != s->program)
        forget_program(source);
    source->program = s->program;
    return source->latest = s;
}
