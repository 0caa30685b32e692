/* SPDX-License-Identifier: BSD-2-Clause */
/* Common parts of all answers. */
#include "http_answer.h"

void http_answer_line(struct http_answer *answer, unsigned status, const char *line)
{
    http_text_free(&answer->body);
    answer->status = status;
    answer->type = HTTP_TYPE_TEXT;
    answer->file = NULL;
    http_text_put(&answer->body, line);
    http_text_put(&answer->body, "\n");
}

const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer)
{
    struct snapshot *s = source->host->snapshot(source->latest);
    if (!s) {
        http_answer_line(answer, 503, "there is no memory for a snapshot");
        return NULL;
    }
    return source->latest = s;
}
