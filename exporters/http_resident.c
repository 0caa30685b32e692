/* SPDX-License-Identifier: BSD-2-Clause */
/* /rss: the parts of the resident memory, and who keeps it, as JSON with the names of `jespan rss --json`. */
#include <stdio.h>

#include "http_view.h"
#include "snapshot/row_path.h"
#include "snapshot/view_resident.h"

/* Each part has its text beside it, for the page. */
static void write_parts(struct http_json *to, const struct resident *r)
{
    char name[32];
    http_json_open(to, "parts", '{');
    for (int i = 0; i < RESIDENT_N_PARTS; i++) {
        snprintf(name, sizeof name, "%s_bytes", resident_texts[i].name);
        http_json_number(to, name, r->parts[i]);
    }
    http_json_close(to, '}');
    http_json_line(to);
    http_json_open(to, "meanings", '{');
    for (int i = 0; i < RESIDENT_N_PARTS; i++) {
        snprintf(name, sizeof name, "%s_bytes", resident_texts[i].name);
        http_json_string(to, name, resident_texts[i].meaning);
    }
    http_json_close(to, '}');
}

static void write_holder(struct http_json *to, const struct snapshot *s, const struct resident_holder *h)
{
    char path[HTTP_PATH_BYTES];
    row_path(path, sizeof path, s, h->row);
    http_json_line(to);
    http_json_open(to, NULL, '{');
    http_json_string(to, "context", path);
    http_json_number(to, "inuse_bytes", h->in_use);
    http_json_number(to, "objects", h->figures.objects);
    http_json_number(to, "resident_bytes", h->figures.resident_bytes);
    http_json_number(to, "pinned_bytes", h->figures.pinned_bytes);
    http_json_number(to, "pinned_alone_bytes", h->figures.alone_bytes);
    http_json_close(to, '}');
}

static void write_resident(struct http_json *to, const struct snapshot *s, const struct resident *r, uint32_t limit)
{
    uint32_t n = r->n_holders < limit ? r->n_holders : limit;
    http_json_open(to, NULL, '{');
    http_json_number(to, "pid", s->pid);
    http_json_number(to, "rss_bytes", r->all);
    http_json_number(to, "swapped_bytes", r->swapped);
    http_json_number(to, "inuse_bytes", r->usable);
    http_json_number(to, "requested_bytes_estimate", r->requested);
    http_json_line(to);
    write_parts(to, r);
    http_json_line(to);
    http_json_number(to, "left_out", r->n_holders - n);
    http_json_open(to, "contexts", '[');
    for (uint32_t i = 0; i < n; i++)
        write_holder(to, s, &r->holders[i]);
    http_json_close(to, ']');
    http_json_close(to, '}');
}

void http_resident_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    struct http_view v;
    struct resident r = {.n_holders = 0};
    uint32_t limit;
    if (!http_spans_limit(request, &limit, answer))
        return;
    int error = http_view_open(&v, source);
    if (!error)
        error = view_resident_read(&r, v.view, v.snapshot);
    if (!error)
        write_resident(&(struct http_json){.to = &answer->body}, v.snapshot, &r, limit);
    http_view_finish(answer, error);
    view_resident_free(&r);
    http_view_close(&v);
}
