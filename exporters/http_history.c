/* SPDX-License-Identifier: BSD-2-Clause */
/* /history, and when its samples are taken. */
#include "http_answer.h"

#include <stdlib.h>
#include <string.h>

#include "http_timeline.h"

#define SECOND_NS 1000000000u
#define MAX_PROCESSES 16 /* that have a history */

/* ---- Samples ---- */

static void take(struct http_source *source)
{
    const struct snapshot *s = http_source_look(source);
    if (s && !source->timeline)
        source->timeline = http_timeline_make();
    if (!s || !source->timeline)
        return;
    http_timeline_add(source->timeline, s, source->host);
    if (!source->host->choose)
        return;
    source->host->free_snapshot(source->latest); /* the sidecar has many processes */
    source->latest = NULL;
}

/* The history with the oldest sample of all. *bytes: what all take. NULL: there are no samples. */
static struct http_timeline *find_oldest(const struct http_source *all, size_t *bytes)
{
    struct http_timeline *oldest = NULL;
    *bytes = 0;
    for (const struct http_source *s = all; s; s = s->next) {
        if (!s->timeline || http_timeline_oldest_ns(s->timeline) == UINT64_MAX)
            continue;
        *bytes += http_timeline_bytes(s->timeline);
        if (!oldest || http_timeline_oldest_ns(s->timeline) < http_timeline_oldest_ns(oldest))
            oldest = s->timeline;
    }
    return oldest;
}

void http_history_tend(struct http_source *all, uint64_t now_ns, uint64_t *at_ns)
{
    const uint64_t pause_ns = all->host->conf->http_history_s * SECOND_NS;
    struct http_timeline *oldest;
    size_t bytes;
    if (pause_ns == 0)
        *at_ns = UINT64_MAX;
    if (now_ns < *at_ns)
        return;
    http_processes_each(all, MAX_PROCESSES, take);
    while ((oldest = find_oldest(all, &bytes)) && bytes > TIMELINE_BYTES)
        http_timeline_drop_oldest(oldest);
    *at_ns = now_ns + pause_ns;
}

/* ---- The answer ---- */

/* Seconds since 1970, with up to nine decimals. Returns false if it is none. */
static bool read_time(const char *text, uint64_t *ns)
{
    uint64_t part = SECOND_NS;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 10)
        return false;
    *ns = strtoull(text, NULL, 10) * SECOND_NS;
    text += digits;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++)
            *ns += (uint64_t)(*text - '0') * (part /= 10);
    return *text == '\0';
}

void http_history_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    struct http_json to = {.to = &answer->body};
    uint64_t after_ns = 0;
    if (request->since && !read_time(request->since, &after_ns)) {
        http_answer_line(answer, 400, "since must be a time in seconds since 1970");
        return;
    }
    http_json_open(&to, NULL, '{');
    http_json_number(&to, "pid", (uint64_t)source->pid);
    http_json_number(&to, "interval_s", source->host->conf->http_history_s);
    http_timeline_write(&to, source->timeline, after_ns);
    http_json_close(&to, '}');
    http_text_put(&answer->body, "\n");
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
}
