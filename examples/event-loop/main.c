/* SPDX-License-Identifier: BSD-2-Clause */
/* event-loop: many requests in flight on one thread, as an example of spans in an event loop (libuv).
 *
 * A request is a span: opened when the request arrives, entered in each callback that works for it, closed at its end.
 * Between its callbacks others are worked on, and none of their memory or time is credited to it. What it waits for, a
 * database and a slow client, is a timer here.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define JESPAN_TARGET "event-loop"
#include <jespan/jespan.h>

#include "../figures.h"

#define N_ROUTES 2
#define N_TENANTS 3
#define N_KINDS (N_ROUTES * N_TENANTS)

struct request {
    uv_timer_t timer; /* the request waits for it */
    unsigned number, kind;
    jespan_span_t *span, *query;
    char *text, *rows, *reply;
    struct stopwatch opened, entered, asked;
};

static const char *const routes[N_ROUTES] = {"report", "search"};
static const char *const tenants[N_TENANTS] = {"acme", "globex", "initech"};
static unsigned n_requests = 120, max_in_flight = 60, arrived, in_flight;
static char **kept; /* some replies, by the number of their request */

/* The program's own measurements, for the check, and the context whose figures are printed beside them. */
static struct measured requests[N_KINDS], queries[N_KINDS];
static jespan_context_t request_contexts[N_KINDS], query_contexts[N_KINDS];

JESPAN_SITE(request_site, "request");
JESPAN_SITE(query_site, "query");

/* ---- The work ---- */

static char *text_of(size_t bytes, char c, unsigned rounds)
{
    char *text = malloc(bytes);
    if (!text)
        abort();
    memset(text, c, bytes);
    digest(text, bytes, rounds);
    return text;
}

static void request_parse(struct request *r)
{
    JESPAN("parse");
    r->text = text_of(1000 + r->number % 7 * 100, 'q', 800);
}

static void request_render(struct request *r)
{
    JESPAN("render");
    r->reply = text_of(2000 + r->number % 5 * 500, 'r', 400);
}

/* ---- The callbacks ---- */

static void request_enter(struct request *r)
{
    r->entered.around = instant_now();
    jespan_enter(r->span);
    r->entered.within = instant_now();
}

static void request_exit(struct request *r)
{
    struct measured *m = &requests[r->kind];
    worked_within(&r->entered, m);
    jespan_exit(r->span);
    worked_around(&r->entered, m);
}

/* A free needs no span: it is credited to the span that allocated. */
static void request_freed(uv_handle_t *timer)
{
    free(timer->data);
    in_flight--;
}

static void request_sent(uv_timer_t *timer)
{
    struct request *r = timer->data;
    struct measured *m = &requests[r->kind];
    request_enter(r);
    free(r->text);
    free(r->rows);
    if (r->number % 4 == 0) {
        kept[r->number] = r->reply;
        m->kept_bytes += malloc_usable_size(r->reply);
    } else {
        free(r->reply);
    }
    request_exit(r);
    open_within(&r->opened, m);
    jespan_close(r->span);
    open_around(&r->opened, m);
    uv_close((uv_handle_t *)timer, request_freed);
}

/* The query was open while the request waited for it. It is entered while the program works for it now. */
static void query_end(struct request *r)
{
    struct measured *m = &queries[r->kind];
    struct stopwatch entered;
    entered.around = instant_now();
    jespan_enter(r->query);
    entered.within = instant_now();
    query_contexts[r->kind] = jespan_current();
    r->rows = text_of(5000 + r->number % 11 * 1000, 'd', 150);
    worked_within(&entered, m);
    jespan_exit(r->query);
    worked_around(&entered, m);
    open_within(&r->asked, m);
    jespan_close(r->query);
    open_around(&r->asked, m);
}

static void query_answered(uv_timer_t *timer)
{
    struct request *r = timer->data;
    request_enter(r);
    query_end(r);
    request_render(r);
    uv_timer_start(timer, request_sent, 2, 0);
    request_exit(r);
}

/* The query is opened below the request, which is current. */
static void query_begin(struct request *r)
{
    r->asked.around = instant_now();
    r->query = jespan_open(&query_site, JESPAN_CURRENT, NULL, 0);
    r->asked.within = instant_now();
    uv_timer_start(&r->timer, query_answered, 5 + r->number % 7, 0);
}

/* Below JESPAN_ROOT, whatever is current where requests arrive. The first thing that is credited to a request is the
 * memory that it lies in. */
static void request_arrived(uv_loop_t *loop, unsigned number)
{
    struct request request = {.number = number, .kind = number % N_KINDS};
    const struct jespan_label labels[] = {JESPAN_LABEL("route", routes[number % N_ROUTES]),
                                          JESPAN_LABEL("tenant", tenants[number % N_TENANTS])};
    request.opened.around = instant_now();
    request.span = jespan_open(&request_site, JESPAN_ROOT, labels, 2);
    request.opened.within = instant_now();
    request_enter(&request);
    request_contexts[request.kind] = jespan_current();
    struct request *r = malloc(sizeof *r);
    if (!r)
        abort();
    *r = request;
    uv_timer_init(loop, &r->timer);
    r->timer.data = r;
    request_parse(r);
    query_begin(r);
    request_exit(r);
}

/* Runs once a turn of the loop, as a listening socket would. */
static void arrivals(uv_timer_t *timer)
{
    if (arrived < n_requests && in_flight < max_in_flight) {
        in_flight++;
        request_arrived(timer->loop, arrived++);
    }
    if (arrived == n_requests && !in_flight)
        uv_close((uv_handle_t *)timer, NULL);
}

/* ---- The figures ---- */

static void print_figures(void)
{
    char name[80];
    print_head();
    for (unsigned kind = 0; kind < N_KINDS; kind++) {
        const char *route = routes[kind % N_ROUTES], *tenant = tenants[kind % N_TENANTS];
        snprintf(name, sizeof name, "request{%s,%s}", route, tenant);
        print_figures_of(name, request_contexts[kind], &requests[kind]);
        snprintf(name, sizeof name, "request{%s,%s}>query", route, tenant);
        print_figures_of(name, query_contexts[kind], &queries[kind]);
    }
}

int main(int argc, char **argv)
{
    uv_timer_t source;
    uv_loop_t *loop = uv_default_loop();
    if (argc > 1)
        max_in_flight = (unsigned)strtoul(argv[1], NULL, 10);
    kept = calloc(n_requests, sizeof *kept);
    if (argc > 2 || !max_in_flight || !loop || !kept) {
        fputs("usage: event-loop [REQUESTS-IN-FLIGHT]\n", stderr);
        return 2;
    }
    uv_timer_init(loop, &source);
    uv_timer_start(&source, arrivals, 0, 1);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    print_figures();
    for (unsigned i = 0; i < n_requests; i++)
        free(kept[i]);
    free(kept);
    return 0;
}
