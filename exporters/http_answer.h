/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and answers of the service `http`, and its endpoints. No socket is involved. */
#ifndef JESPAN_HTTP_ANSWER_H
#define JESPAN_HTTP_ANSWER_H

#include <stdbool.h>

#include "http_series.h"
#include "http_start.h"
#include "http_text.h"
#include "report/service.h"

/* The data that answers are made from. */
struct http_source {
    const struct service_host *host;
    bool local;                  /* no other machine can connect */
    bool is_unix;                /* who connects may open the socket's file */
    pid_t pid;                   /* of the process that it shows */
    const struct program *program; /* of the latest snapshot */
    int64_t began_ns;              /* when that program began, on CLOCK_BOOTTIME */
    struct http_source *next;    /* sources of other processes (http_processes.c) */
    struct snapshot *latest;     /* the next snapshot reuses its memory */
    struct http_series_set *series; /* NULL: no request for /metrics yet */
    struct http_history *history;   /* NULL: no request for a profile yet */
    struct http_timeline *timeline; /* NULL: no sample yet */
};

/* NULL: the request does not have that header or argument. */
struct http_request {
    const char *method, *path;
    const char *host, *authorization, *accept, *change; /* headers; `change`: X-Jespan */
    const char *seconds, *format, *limit, *labels, *pid, *since, *mode; /* of the query */
    bool has_body, has_hosts, has_nul; /* has_hosts: more than one Host header; has_nul: the URL has a NUL */
    const struct http_start *start; /* figures of ?seconds= ago. NULL: the request asks for no difference */
};

#define HTTP_FILE_BYTES 96

struct http_answer {
    unsigned status; /* 0: not known yet */
    const char *type; /* Content-Type */
    char file[HTTP_FILE_BYTES]; /* name under which a browser saves it. "": it shows it */
    bool is_page;     /* HTML, whose script and style have `nonce` */
    bool may_change;  /* with status 405: the route answers POST too */
    char nonce[33];
    struct http_text body;
};

/* A new snapshot, valid until the next. NULL: no memory, and `answer` says so. */
const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer);

/* The same. NULL: no memory. */
const struct snapshot *http_source_look(struct http_source *source);

/* Whether the source shows the program that it showed when the difference began. */
bool http_source_is_of(const struct http_source *source, const struct http_start *start);

/* The name of its process, without directories. */
const char *http_answer_program(const struct snapshot *s);

/* Makes the answer a line of plain text. */
void http_answer_line(struct http_answer *answer, unsigned status, const char *line);

#define HTTP_TYPE_TEXT "text/plain; charset=utf-8"

/* ---- /spans: contexts with their figures, as JSON ---- */

#define HTTP_SPANS_DEFAULT_LIMIT 1000u
#define HTTP_SPANS_MAX_LIMIT 100000u

/* Reads ?limit= and ?format=. Returns false if one of them is wrong, and `answer` says why. */
bool http_spans_limit(const struct http_request *request, uint32_t *limit, struct http_answer *answer);

void http_spans_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Writes at most `limit` contexts, those that hold most with their descendants, and the ancestors of these. `names` says which
 * calls have names; NULL: there are no calls. Returns false if there is no memory. */
bool http_spans_write(struct http_text *to, const struct snapshot *s, uint32_t limit, const struct http_source *source,
                      const char *names);

/* The mode of stacks in the process, as `spans.stacks`. "": unknown. Valid for good. */
const char *http_spans_stacks(const struct http_source *source);

/* Writes the name and labels of a row: members of an object. */
void http_spans_write_context(struct http_json *to, const struct snapshot *s, uint32_t row);

/* ---- /history: samples of the last hour, as JSON ---- */

void http_history_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Takes a sample of the processes that hold most, if it is due. *at_ns is when the next one is due (UINT64_MAX: never), on the
 * monotonic clock. */
void http_history_tend(struct http_source *all, uint64_t now_ns, uint64_t *at_ns);

/* ---- /arenas: the span arenas with their figures, and the same for /metrics ---- */

/* A table for people. With ?format=json, JSON for programs. */
void http_arenas_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* In Prometheus's text format. Writes nothing if there is no arena. */
void http_arenas_write_metrics(struct http_text *to, const struct service_host *host);

/* ---- /limits: the contexts with limits, as JSON ---- */

void http_limits_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* ---- /threads and /rss: as `jespan threads` and `jespan rss`, as JSON ---- */

void http_threads_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_resident_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* ---- /stacks: as /spans, with the calls that allocated below the contexts ---- */

void http_stacks_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* POST with ?mode=: sets which allocations are credited to stacks, as `jespan ctl PID stacks MODE`. */
void http_stacks_switch(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* ---- The rules of `alert`, for /metrics ---- */

/* Writes nothing if there are no rules. */
void http_alerts_write_metrics(struct http_text *to, const struct service_host *host);

/* ---- /metrics, in Prometheus's text format 0.0.4 ---- */

void http_metrics_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Writes the figures by span. */
void http_metrics_write_series(struct http_text *to, const struct http_series_set *set);

/* ---- Below /debug/pprof/, as in programs written in Go ---- */

void http_pprof_heap(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_allocs(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_cpu(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_cmdline(struct http_source *source, const struct http_request *request, struct http_answer *answer);
void http_pprof_symbol(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* Frees what is kept between requests for profiles. Accepts NULL. */
void http_pprof_free(struct http_history *history);

/* ---- The process that a request is about: ?pid=, and /processes. The sidecar serves several ---- */

/* Returns the source of the request's process, which is `all` or follows it. Without ?pid= that is the first process.
 * NULL: `answer` says why there is none. */
struct http_source *http_processes_choose(struct http_source *all, const struct http_request *request,
                                          struct http_answer *answer);

/* Calls `call` for the processes that hold most, at most `most`. Each is chosen meanwhile. */
void http_processes_each(struct http_source *all, size_t most, void (*call)(struct http_source *source));

/* Frees what the sources hold. */
void http_processes_free(struct http_source *all);

/* /processes: the processes that are served, as JSON. */
void http_processes_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer);

/* ---- From a request to its endpoint. To add one, add a row in http_routes.c ---- */

#define HTTP_MAX_SECONDS 3600u

struct http_route {
    const char *path;
    void (*answer)(struct http_source *source, const struct http_request *request, struct http_answer *answer);
    const char *help; /* in the list of endpoints. NULL: not listed */
    bool open;        /* needs no token */
    bool differs;     /* accepts ?seconds=, for the difference over that time */
    unsigned seconds; /* without ?seconds=. 0: no difference */
    void (*change)(struct http_source *source, const struct http_request *request, struct http_answer *answer); /* for POST. NULL: none */
};

#define HTTP_HOST_BYTES 64 /* a longer host is neither an address nor localhost */

/* Splits a path of the form http://HOST/PATH, where HOST replaces the Host header (RFC 9112, section 3.2.2). `host` has
 * room for the host, and stays valid with the request. */
void http_routes_split_target(struct http_request *request, char host[HTTP_HOST_BYTES]);

/* Returns the endpoint for a request. NULL: `answer` says why there is none. */
const struct http_route *http_routes_find(const struct http_source *source, const struct http_request *request,
                                          struct http_answer *answer);

/* Whether the request is a POST that the route answers. */
bool http_routes_is_change(const struct http_route *route, const struct http_request *request);

/* Sets how long the request waits for its answer. 0: not at all. Returns false if the request is wrong, and `answer`
 * says why. */
bool http_routes_seconds(const struct http_route *route, const struct http_request *request, unsigned *seconds,
                         struct http_answer *answer);

/* Whether a Host header (NULL: there is none) is an IP address or localhost. A foreign web page can point its own name
 * at 127.0.0.1 and have a browser read our answers (DNS rebinding). Such requests carry that name. */
bool http_access_host_is_local(const char *host);

/* Whether this service lets its clients change the process. It does where not everybody can be a client: with a token, or at a socket in
 * the file system. */
bool http_access_may_change(const struct http_source *source);

/* Whether an Authorization header (NULL: there is none) has the token. A wrong token takes the same time at any
 * byte. */
bool http_access_has_token(const char *authorization, const char *token);

/* The resident memory of the process; 0: unknown. */
uint64_t http_resident_bytes(const struct snapshot *s);

#endif
