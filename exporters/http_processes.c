/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the process that a request is about. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_answer.h"
#include "http_series.h"
#include "http_text.h"
#include "http_timeline.h"

#define MAX_PROCESSES 4096

/* ---- The processes ---- */

struct processes {
    size_t n;
    struct service_process *all;
};

/* False: no memory. The caller frees the list. */
static bool list(const struct service_host *host, struct processes *p)
{
    *p = (struct processes){1, calloc(MAX_PROCESSES, sizeof *p->all)};
    if (!p->all)
        return false;
    if (host->processes) {
        size_t n = host->processes(p->all, MAX_PROCESSES);
        p->n = n < MAX_PROCESSES ? n : MAX_PROCESSES;
        return true;
    }
    p->all[0].pid = host->pid;
    snprintf(p->all[0].name, sizeof p->all[0].name, "%s", host->program);
    struct snapshot *s = host->snapshot(NULL);
    p->all[0].inuse_bytes = s ? totals_inuse_bytes(&s->all) : 0;
    host->free_snapshot(s);
    return true;
}

void http_processes_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    struct http_json to = {.to = &answer->body};
    struct processes p;
    (void)request;
    if (!list(source->host, &p)) {
        http_answer_line(answer, 503, "there is no memory for the answer");
        return;
    }
    http_json_open(&to, NULL, '{');
    http_json_open(&to, "processes", '[');
    for (size_t i = 0; i < p.n; i++) {
        http_json_line(&to);
        http_json_open(&to, NULL, '{');
        http_json_number(&to, "pid", (uint64_t)p.all[i].pid);
        http_json_string(&to, "program", p.all[i].name);
        http_json_number(&to, "inuse_bytes", p.all[i].inuse_bytes);
        http_json_close(&to, '}');
    }
    http_json_close(&to, ']');
    http_json_close(&to, '}');
    http_text_put(&answer->body, "\n");
    free(p.all);
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
}

/* ---- The sources ---- */

static void empty(struct http_source *source)
{
    source->host->free_snapshot(source->latest);
    http_series_free(source->series);
    http_pprof_free(source->history);
    http_timeline_free(source->timeline);
    source->latest = NULL;
    source->timeline = NULL;
    source->series = NULL;
    source->history = NULL;
}

/* Frees the sources of processes that are no longer served, but not the first source, which may be used again. */
static void drop_ended(struct http_source *all)
{
    struct processes p;
    if (!all->next || !list(all->host, &p))
        return;
    for (struct http_source **at = &all->next, *s; (s = *at);) {
        size_t i = 0;
        while (i < p.n && p.all[i].pid != s->pid)
            i++;
        if (i < p.n) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        empty(s);
        free(s);
    }
    free(p.all);
}

static struct http_source *find(struct http_source *all, pid_t pid)
{
    struct http_source *s = all;
    while (s && s->pid != pid)
        s = s->next;
    if (s)
        return s;
    drop_ended(all);
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct http_source){.host = all->host, .local = all->local, .is_unix = all->is_unix, .pid = pid, .next = all->next};
    all->next = s;
    return s;
}

/* 0: not a number of a process. */
static pid_t number(const char *text)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && errno == 0 && n == (pid_t)n ? (pid_t)n : 0;
}

struct http_source *http_processes_choose(struct http_source *all, const struct http_request *request,
                                          struct http_answer *answer)
{
    const struct service_host *host = all->host;
    pid_t pid = request->pid ? number(request->pid) : 0;
    bool has_chosen = host->choose ? (pid || !request->pid) && host->choose(pid) : !request->pid || pid == host->pid;
    if (!has_chosen && request->pid) {
        http_answer_line(answer, 404, "there is no such process here; /processes has a list");
        return NULL;
    }
    if (!host->choose || !has_chosen) /* all have ended: the last reading of the last one that was asked for */
        return all;
    struct service_process first = {.pid = pid};
    if (!pid)
        host->processes(&first, 1);
    struct http_source *source = find(all, first.pid);
    if (!source)
        http_answer_line(answer, 503, "there is no memory for the answer");
    return source;
}

static int compare(const void *a, const void *b)
{
    const struct service_process *x = a, *y = b;
    return (x->inuse_bytes < y->inuse_bytes) - (x->inuse_bytes > y->inuse_bytes);
}

void http_processes_each(struct http_source *all, size_t most, void (*call)(struct http_source *source))
{
    struct processes p;
    if (!all->host->choose) {
        call(all);
        return;
    }
    if (!list(all->host, &p))
        return;
    qsort(p.all, p.n, sizeof *p.all, compare);
    for (size_t i = 0; i < p.n && i < most; i++) {
        struct http_source *source = all->host->choose(p.all[i].pid) ? find(all, p.all[i].pid) : NULL;
        if (source)
            call(source);
    }
    free(p.all);
}

void http_processes_free(struct http_source *all)
{
    empty(all);
    for (struct http_source *s = all->next, *next; s; s = next) {
        next = s->next;
        empty(s);
        free(s);
    }
    all->next = NULL;
}
