/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that a request is about, read as the command reads it: from outside, through /proc. So the answers of /threads and
 * /rss have the figures of `jespan threads` and `jespan rss`. In the program itself, the service reads its own process so.
 *
 * A view is made for a request and ends with it. Its memory is not kept. */
#ifndef JESPAN_HTTP_VIEW_H
#define JESPAN_HTTP_VIEW_H

#include "http_answer.h"
#include "snapshot/view.h"

struct http_view {
    struct view *view;
    struct snapshot *snapshot;
};

/* Returns 0 or a negative errno of view.h. */
int http_view_open(struct http_view *v, const struct http_source *source);
void http_view_close(struct http_view *v);

/* Ends an answer whose JSON is complete, or says in its place why there is none. */
void http_view_finish(struct http_answer *answer, int error);

/* The path of a context of the snapshot, by its number, as text of any bytes: its innermost spans. */
#define HTTP_PATH_BYTES 1024
void http_view_path(const struct http_view *v, uint32_t context, char path[HTTP_PATH_BYTES]);

#endif
