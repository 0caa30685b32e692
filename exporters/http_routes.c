/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of endpoints, and which requests are allowed. */

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/encode.h"
#include "http_answer.h"
#include "http_page.h"
#include "http_series.h"
#include "http_timeline.h"
#include "random.h"

static void answer_health(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    (void)source;
    (void)request;
    http_answer_line(answer, 200, "ok");
}

/* ---- The page ---- */

static bool wants_page(const struct http_request *request)
{
    return request->accept && strstr(request->accept, "text/html") && !request->format;
}

static void make_nonce(char nonce[33])
{
    unsigned char random[16];
    random_fill(random, sizeof random);
    hex_encode(nonce, random, sizeof random);
}

/* Each @NONCE@ of the page becomes the nonce of this answer. So a browser runs no other script. */
static void answer_page(unsigned status, struct http_answer *answer)
{
    static const char mark[] = "@NONCE@";
    const char *from = http_page, *at;
    make_nonce(answer->nonce);
    for (; (at = strstr(from, mark)); from = at + sizeof mark - 1) {
        http_text_bytes(&answer->body, from, (size_t)(at - from));
        http_text_put(&answer->body, answer->nonce);
    }
    http_text_put(&answer->body, from);
    answer->status = status;
    answer->type = "text/html; charset=utf-8";
    answer->is_page = true;
}

/* ---- The table ---- */

static void answer_spans(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    if (wants_page(request))
        answer_page(200, answer);
    else
        http_spans_answer(source, request, answer);
}

static void answer_start(struct http_source *source, const struct http_request *request, struct http_answer *answer);
static void answer_pprof_list(struct http_source *source, const struct http_request *request,
                              struct http_answer *answer);

static const struct http_route routes[] = {
    {"/", answer_start, NULL, false, false, 0},
    {"/spans", answer_spans, "memory and times of each span: a page for browsers, else JSON", false, false, 0},
    {"/processes", http_processes_answer, "the processes that are served; ?pid=N chooses one in all other requests", false, false, 0},
    {"/history", http_history_answer, "samples of the last hour, as JSON; ?since=TIME: those after it", false, false, 0},
    {"/arenas", http_arenas_answer, "span arenas: a table, or ?format=json", false, false, 0},
    {"/limits", http_limits_answer, "contexts with limits, as JSON", false, false, 0},
    {"/threads", http_threads_answer, "what each thread allocated and freed, as JSON, as `jespan threads`", false, false, 0},
    {"/stacks", http_stacks_answer, "as /spans, with the calls that allocated, where stacks are taken, as JSON; POST with ?mode= switches",
     false, false, 0, http_stacks_switch},
    {"/rss", http_resident_answer, "the parts of the resident memory, and who keeps it, as JSON, as `jespan rss`", false, false, 0},
    {"/metrics", http_metrics_answer, "memory and times by name of span, for Prometheus", false, false, 0},
    {"/debug/pprof/", answer_pprof_list, NULL, false, false, 0},
    {"/debug/pprof/heap", http_pprof_heap,
     "memory in use by span; with ?seconds=N, the difference over that time; with ?labels=all, by all labels", false, true, 0},
    {"/debug/pprof/allocs", http_pprof_allocs, "allocated memory by span; with ?seconds=N, in that time", false, true, 0},
    {"/debug/pprof/profile", http_pprof_cpu, "CPU time by span, over 30 s or ?seconds=N", false, true, 30},
    {"/debug/pprof/cmdline", http_pprof_cmdline, "the program's command line", false, false, 0},
    {"/debug/pprof/symbol", http_pprof_symbol, NULL, false, false, 0},
    {"/healthz", answer_health, "answers ok while the service runs", true, false, 0},
};

#define ROUTES_END (routes + sizeof routes / sizeof routes[0])

static void list(struct http_answer *answer, const char *below)
{
    http_text_put(&answer->body, "jespan\n\n");
    for (const struct http_route *r = routes; r < ROUTES_END; r++)
        if (r->help && strncmp(r->path, below, strlen(below)) == 0) {
            http_text_put(&answer->body, r->path);
            http_text_put(&answer->body, ": ");
            http_text_put(&answer->body, r->help);
            http_text_put(&answer->body, "\n");
        }
    answer->status = 200;
    answer->type = HTTP_TYPE_TEXT;
}

static void answer_start(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    (void)source;
    if (wants_page(request))
        answer_page(200, answer);
    else
        list(answer, "/");
}

static void answer_pprof_list(struct http_source *source, const struct http_request *request,
                              struct http_answer *answer)
{
    (void)source;
    (void)request;
    list(answer, "/debug/pprof/");
}

/* ---- Which requests are allowed ---- */

/* Copies the host without its port, and an IPv6 address without its brackets. */
static bool copy_host(char name[HTTP_HOST_BYTES], const char *host)
{
    bool bracket = host[0] == '[';
    host += bracket;
    size_t n = strcspn(host, bracket ? "]" : ":");
    const char *port = host + n;
    if (n == 0 || n >= HTTP_HOST_BYTES || (bracket && *port++ != ']'))
        return false;
    if (*port != '\0' && (*port != ':' || port[1 + strspn(port + 1, "0123456789")] != '\0'))
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return true;
}

bool http_access_host_is_local(const char *host)
{
    char name[HTTP_HOST_BYTES];
    struct in6_addr ignored;
    if (!host)
        return true;
    if (!copy_host(name, host))
        return false;
    if (host[0] == '[')
        return inet_pton(AF_INET6, name, &ignored) == 1;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &ignored) == 1;
}

bool http_access_has_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    const size_t n = strlen(token);
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *given = authorization + sizeof scheme - 1;
    size_t given_n = strlen(given);
    unsigned char difference = given_n != n;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned char)(token[i] ^ (i < given_n ? given[i] : 0));
    return difference == 0;
}

/* ---- From a request to its row ---- */

void http_routes_split_target(struct http_request *request, char host[HTTP_HOST_BYTES])
{
    static const char scheme[] = "http://";
    if (strncasecmp(request->path, scheme, sizeof scheme - 1) != 0)
        return;
    const char *begin = request->path + sizeof scheme - 1;
    size_t n = strcspn(begin, "/");
    request->path = begin[n] == '/' ? begin + n : "/";
    request->host = host;
    if (n >= HTTP_HOST_BYTES)
        n = 0; /* no host is as wrong as a long one */
    memcpy(host, begin, n);
    host[n] = '\0';
}

bool http_routes_is_change(const struct http_route *route, const struct http_request *request)
{
    return route->change && strcmp(request->method, "POST") == 0;
}

bool http_access_may_change(const struct http_source *source)
{
    return source->host->conf->http_token[0] != '\0' || source->is_unix;
}

/* A page of another site can have a browser send a POST, but not with this header. */
static void check_change(const struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    if (!http_access_may_change(source))
        http_answer_line(answer, 403, "changes need an http_token, or a socket in the file system");
    else if (!request->change)
        http_answer_line(answer, 403, "a change needs the header X-Jespan, with any value");
}

static const struct http_route *find(const char *path)
{
    for (const struct http_route *r = routes; r < ROUTES_END; r++)
        if (strcmp(r->path, path) == 0)
            return r;
    return NULL;
}

/* A browser gets the page without a token. The page then asks for the token. */
static void refuse(const struct http_request *request, struct http_answer *answer)
{
    const struct http_route *route = find(request->path);
    if (route && (route->answer == answer_start || route->answer == answer_spans) && wants_page(request))
        answer_page(401, answer);
    else
        http_answer_line(answer, 401, "a token is needed (http_token): Authorization: Bearer TOKEN");
}

/* Whether the request is allowed. Otherwise `answer` says why not. */
static bool may_ask(const struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    const char *token = source->host->conf->http_token;
    const struct http_route *route = find(request->path);
    if (request->has_hosts)
        http_answer_line(answer, 400, "a request must have one Host header");
    else if (token[0] == '\0' && source->local && !http_access_host_is_local(request->host))
        http_answer_line(answer, 403, "the Host header must be localhost or an IP address, as there is no http_token");
    else if (token[0] != '\0' && (!route || !route->open)
             && !http_access_has_token(request->authorization, token))
        refuse(request, answer);
    return answer->status == 0;
}

const struct http_route *http_routes_find(const struct http_source *source, const struct http_request *request,
                                          struct http_answer *answer)
{
    const struct http_route *route = find(request->path);
    if (!may_ask(source, request, answer))
        return NULL;
    if (request->has_nul)
        http_answer_line(answer, 400, "a URL must have no NUL (%00)");
    else if (!route)
        http_answer_line(answer, 404, "there is no such page; / has a list");
    else if (http_routes_is_change(route, request))
        check_change(source, request, answer);
    else if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        http_answer_line(answer, 405, route->change ? "only GET, HEAD and POST are answered" : "only GET and HEAD are answered");
    if (answer->status == 0 && request->has_body)
        http_answer_line(answer, 413, "a request must have no body");
    answer->may_change = route && route->change;
    return answer->status == 0 ? route : NULL;
}

/* A HEAD request is answered at once. */
bool http_routes_seconds(const struct http_route *route, const struct http_request *request, unsigned *seconds,
                         struct http_answer *answer)
{
    char *end;
    *seconds = route->seconds;
    if (route->differs && request->seconds) {
        unsigned long n = strtoul(request->seconds, &end, 10);
        if (request->seconds[0] < '0' || request->seconds[0] > '9' || *end != '\0' || n < 1 || n > HTTP_MAX_SECONDS) {
            http_answer_line(answer, 400, "seconds must be a number from 1 to 3600");
            return false;
        }
        *seconds = (unsigned)n;
    }
    if (strcmp(request->method, "HEAD") == 0)
        *seconds = 0;
    return true;
}

/* ---- Answers ---- */

void http_answer_line(struct http_answer *answer, unsigned status, const char *line)
{
    http_text_free(&answer->body);
    answer->status = status;
    answer->type = HTTP_TYPE_TEXT;
    answer->file[0] = '\0';
    http_text_put(&answer->body, line);
    http_text_put(&answer->body, "\n");
}

const char *http_answer_program(const struct snapshot *s)
{
    const char *slash = s->program ? strrchr(s->program->file, '/') : NULL;
    if (s->program && s->program->name[0])
        return s->program->name;
    return slash ? slash + 1 : s->program ? s->program->file : program_invocation_short_name;
}

/* The process has executed another program. Its counters began anew. */
static void forget_program(struct http_source *source)
{
    http_series_free(source->series);
    http_pprof_free(source->history);
    source->series = NULL;
    source->history = NULL;
    http_timeline_restart(source->timeline);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The memory of the program before may be that of the next one, so the time tells them apart too. It is known to the time between
 * two readings of clocks. */
#define SAME_BEGIN_NS 100000000

static int64_t find_begin(const struct snapshot *s)
{
    return (int64_t)s->start_unix_ns - clock_ns(CLOCK_REALTIME) + clock_ns(CLOCK_BOOTTIME);
}

static bool is_same_begin(int64_t a, int64_t b)
{
    return llabs(a - b) <= SAME_BEGIN_NS;
}

bool http_source_is_of(const struct http_source *source, const struct http_start *start)
{
    return source->pid == start->pid && is_same_begin(source->began_ns, start->began_ns);
}

const struct snapshot *http_source_look(struct http_source *source)
{
    struct snapshot *s = source->host->snapshot(source->latest);
    if (!s)
        return NULL;
    int64_t began_ns = find_begin(s);
    if (source->program != s->program || (s->program && !is_same_begin(began_ns, source->began_ns)))
        forget_program(source);
    source->program = s->program;
    source->began_ns = began_ns;
    return source->latest = s;
}

const struct snapshot *http_answer_look(struct http_source *source, struct http_answer *answer)
{
    const struct snapshot *s = http_source_look(source);
    if (!s)
        http_answer_line(answer, 503, "there is no memory for a snapshot");
    return s;
}
