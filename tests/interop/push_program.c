/* SPDX-License-Identifier: BSD-2-Clause */
/* For scripts that look at what is pushed: threads serve requests over several periods, then the figures of each are
 * printed, "SPAN_ID alloc_objects alloc_space inuse_objects inuse_space cpu wall" a line.
 *
 * Each request is a span with a span_id of its own that is opened anew in each phase, and `parse` within it. What it
 * allocates there it keeps, frees, or gives to another thread, which frees it. Nothing of that goes on in its spans when
 * the figures are read. The request "steady" holds the same from the start to the end, and does nothing else.
 *
 * usage: push_program REQUESTS PHASES MILLISECONDS      requests of each of three threads, phases, the pause behind each
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define THREADS 3
#define MAX_REQUESTS 16
#define MAX_PHASES 64

struct request {
    char span_id[17], trace_id[33], route[16], tenant[16];
    jespan_context_t request, parse;
    void *kept[MAX_PHASES], *given;
};

static struct request requests[THREADS * MAX_REQUESTS + 1], *steady; /* the last one */
static pthread_barrier_t barrier;
static int per_thread, phases, pause_ms;

static void name_requests(void)
{
    for (struct request *r = requests; r <= steady; r++) {
        unsigned i = (unsigned)(r - requests);
        snprintf(r->span_id, sizeof r->span_id, "%08x%08x", i + 1, 0xabcdef00 + i);
        snprintf(r->trace_id, sizeof r->trace_id, "%016x%016x", i % 3 + 1, i + 1);
        snprintf(r->route, sizeof r->route, "%s", r == steady ? "/steady" : i % 2 ? "/b?c=d" : "/a");
        snprintf(r->tenant, sizeof r->tenant, "tenant %u", i % 3);
    }
}

static void work(long ns)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < ns);
}

static void parse(struct request *r, int phase)
{
    JESPAN("parse", "detail", "not on the list");
    r->parse = jespan_current();
    r->kept[phase] = malloc(1001 + 16 * (size_t)phase + 1000 * (size_t)(r - requests));
    free(opaque_pointer(malloc(33333)));
    work(1000000);
}

#define REQUEST(r)                                                                                                     \
    JESPAN("request", "route", (r)->route, "tenant", (r)->tenant, "span_id", (r)->span_id, "trace_id", (r)->trace_id,    \
           "user", "not on the list")

static void serve(struct request *r, int phase)
{
    REQUEST(r);
    r->request = jespan_current();
    parse(r, phase);
    r->given = realloc(malloc(77), 7777);
    if (phase % 2) {
        free(r->kept[phase - 1]);
        r->kept[phase - 1] = NULL;
    }
}

static void hold_steadily(struct request *r)
{
    REQUEST(r);
    r->request = r->parse = jespan_current();
    for (int i = 0; i < 5; i++)
        r->kept[i] = malloc(54321);
}

/* Each thread frees what the next one was given. */
static void *run(void *first)
{
    struct request *mine = first, *others = &requests[(mine - requests + per_thread) % (steady - requests)];
    for (int phase = 0; phase < phases; phase++) {
        for (int i = 0; i < per_thread; i++)
            serve(&mine[i], phase);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < per_thread; i++)
            free(others[i].given);
        pthread_barrier_wait(&barrier);
        nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
    }
    return NULL;
}

static void print_figures(void)
{
    static const char *const leaves[] = {"alloc_objects", "alloc_bytes", "inuse_objects", "inuse_bytes", "cpu_ns", "wall_ns"};
    ctl_refresh();
    for (const struct request *r = requests; r <= steady; r++) {
        printf("%s", r->span_id);
        for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
            printf(" %llu", (unsigned long long)(ctl_span(r->request, leaves[i])
                                                 + (r->parse != r->request ? ctl_span(r->parse, leaves[i]) : 0)));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc != 4)
        return 2;
    per_thread = atoi(argv[1]);
    phases = atoi(argv[2]);
    pause_ms = atoi(argv[3]);
    CHECK(per_thread > 0 && per_thread <= MAX_REQUESTS && phases > 0 && phases <= MAX_PHASES);
    steady = &requests[THREADS * per_thread];
    name_requests();
    hold_steadily(steady);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run, &requests[i * per_thread]), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    print_figures();
    return check_result();
}
