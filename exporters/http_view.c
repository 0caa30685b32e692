/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the process that a request is about, as the command does. */
#include "http_view.h"

#include <errno.h>
#include <string.h>

#include "snapshot/row_path.h"

int http_view_open(struct http_view *v, const struct http_source *source)
{
    *v = (struct http_view){0};
    int error = view_open(&v->view, source->pid);
    if (!error && !(v->snapshot = view_snapshot(v->view, NULL)))
        error = -errno;
    return error;
}

void http_view_close(struct http_view *v)
{
    snapshot_free(v->snapshot);
    view_close(v->view);
}

void http_view_finish(struct http_answer *answer, int error)
{
    if (error == -ENOMEM || (!error && answer->body.failed))
        http_answer_line(answer, 503, "there is no memory for the answer");
    else if (error)
        http_answer_line(answer, 503, view_error_text(error));
    if (answer->status)
        return;
    http_text_put(&answer->body, "\n");
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
}

void http_view_path(const struct http_view *v, uint32_t context, char path[HTTP_PATH_BYTES])
{
    const struct snapshot_row *row = snapshot_find(v->snapshot, context);
    if (row)
        row_path(path, HTTP_PATH_BYTES, v->snapshot, (uint32_t)(row - v->snapshot->rows));
    else
        strcpy(path, "(retired)");
}
