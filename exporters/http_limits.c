/* SPDX-License-Identifier: BSD-2-Clause */
/* /limits: the contexts with limits, as JSON. */
#include "http_answer.h"

#include <inttypes.h>
#include <stdio.h>

static bool ask(const struct service_host *host, const char *name, uint64_t *value)
{
    size_t bytes = sizeof *value;
    *value = 0;
    return host->mallctl(name, value, &bytes, NULL, 0) == 0;
}

/* 0: there is none. */
static uint64_t ask_of(const struct service_host *host, uint32_t id, const char *leaf)
{
    char name[64];
    uint64_t value;
    snprintf(name, sizeof name, "spans.%" PRIu32 ".%s", id, leaf);
    return ask(host, name, &value) ? value : 0;
}

static void write_limit(struct http_json *to, const struct snapshot *s, uint32_t row, uint64_t soft, uint64_t hard,
                        const struct service_host *host)
{
    uint32_t id = s->rows[row].id, parent = s->rows[row].parent_row;
    http_json_line(to);
    http_json_open(to, NULL, '{');
    http_json_number(to, "id", id);
    http_json_number(to, "parent", parent < s->n_rows && parent != row ? s->rows[parent].id : 0);
    http_spans_write_context(to, s, row);
    http_json_number(to, "soft_bytes", soft);
    http_json_number(to, "hard_bytes", hard);
    http_json_number(to, "inuse_bytes", ask_of(host, id, "limit_inuse_bytes"));
    http_json_number(to, "refusals", ask_of(host, id, "limit_refusals"));
    http_json_close(to, '}');
}

void http_limits_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    const struct service_host *host = source->host;
    struct http_json to = {.to = &answer->body};
    uint64_t left = 0;
    const struct snapshot *s = http_answer_look(source, answer);
    (void)request;
    if (!s)
        return;
    ask(host, "spans.stats.limits", &left);
    http_json_open(&to, NULL, '{');
    http_json_open(&to, "limits", '[');
    for (uint32_t i = 0; i < s->n_rows && left > 0; i++) {
        uint64_t soft = ask_of(host, s->rows[i].id, "limit_soft"), hard = ask_of(host, s->rows[i].id, "limit_hard");
        if (soft == 0 && hard == 0)
            continue;
        write_limit(&to, s, i, soft, hard, host);
        left--;
    }
    http_json_close(&to, ']');
    http_json_close(&to, '}');
    http_text_put(&answer->body, "\n");
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
}
