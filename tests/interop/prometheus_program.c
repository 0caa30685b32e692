/* SPDX-License-Identifier: BSD-2-Clause */
/* For prometheus.sh: holds known bytes in all that /metrics tells apart, and in all that it must not. Prints a line
 * "QUERY VALUE" for each sum that Prometheus must know, then "ready", and stays until its input ends. All sizes are size
 * classes. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define THREADS 4

int mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);

static void *held[200];
static size_t n_held;

static void hold(size_t kib)
{
    for (; kib > 0; kib--)
        held[n_held++] = malloc(1024);
}

/* ---- Spans that are one series ---- */

static void hold_same_name(void)
{
    {
        JESPAN("twice");
        hold(3);
    }
    {
        JESPAN("twice"); /* another line */
        hold(4);
        JESPAN("twice"); /* below itself */
        hold(5);
    }
}

static void hold_same_labels(void)
{
    {
        JESPAN("order", "tenant", "blue", "route", "/a");
        hold(1);
    }
    {
        JESPAN("order", "route", "/a", "tenant", "blue");
        hold(2);
    }
    {
        JESPAN("outer", "tenant", "blue");
        JESPAN("order", "route", "/a");
        hold(4);
    }
    {
        JESPAN("order", "tenant", "blue", "route", "/a", "request", "not listed");
        hold(8);
    }
}

/* A span that has the name of what others count in, and names that become equal once they are UTF-8. */
static void hold_taken_names(void)
{
    JESPAN("(other)");
    hold(1);
    {
        JESPAN("(root)");
        hold(2);
    }
    {
        JESPAN("bad\xff");
        hold(3);
    }
    {
        JESPAN("bad\xfe");
        hold(4);
    }
    {
        JESPAN("\"}\\\n# {", "tenant", "a\"b\\c\nd\xfe", "a-b", "1", "a.b", "2", "a_b", "3", "span", "4", "job", "5");
        hold(5);
    }
}

static void hold_limited(void)
{
    JESPAN("limited", "tenant", "green");
    hold(6);
}

/* ---- Arenas of the same name ---- */

static pthread_barrier_t all_allocated, may_end;

/* arena:tenant=by:tenant */
static void hold_by_tenant(const char *tenant)
{
    JESPAN("tenant", "tenant", tenant);
    hold(10);
}

/* Each thread has a region at once, so there is an arena for each. */
static void *hold_region(void *unused)
{
    (void)unused;
    {
        JESPAN_REGION("region");
        char *p = malloc(2048);
        pthread_barrier_wait(&all_allocated);
        pthread_barrier_wait(&may_end);
        free(p);
    }
    return NULL;
}

static void expect_arenas(const char *name)
{
    uint64_t count = 0, alloc = 0, inuse = 0, n = 0;
    size_t bytes = sizeof count;
    mallctl("spans.arenas.count", &count, &bytes, NULL, 0);
    for (uint64_t i = 1; i <= count; i++) {
        char ctl[64];
        const char *its = "";
        uint64_t value = 0;
        bytes = sizeof its;
        snprintf(ctl, sizeof ctl, "spans.arenas.%" PRIu64 ".name", i);
        if (mallctl(ctl, &its, &bytes, NULL, 0) != 0 || strcmp(its, name) != 0)
            continue;
        bytes = sizeof value;
        snprintf(ctl, sizeof ctl, "spans.arenas.%" PRIu64 ".alloc_bytes", i);
        mallctl(ctl, &value, &bytes, NULL, 0);
        alloc += value;
        snprintf(ctl, sizeof ctl, "spans.arenas.%" PRIu64 ".inuse_bytes", i);
        mallctl(ctl, &value, &bytes, NULL, 0);
        inuse += value;
        n++;
    }
    printf("count(jespan_arena_alloc_bytes_total{arena=\"%s\"}) %" PRIu64 "\n", name, n);
    printf("sum(jespan_arena_alloc_bytes_total{arena=\"%s\"}) %" PRIu64 "\n", name, alloc);
    printf("sum(jespan_arena_inuse_bytes{arena=\"%s\"}) %" PRIu64 "\n", name, inuse);
}

/* ---- Threads of the same name ---- */

static void *hold_in_thread(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    void *p = malloc(1024);
    pthread_barrier_wait(&all_allocated);
    pthread_barrier_wait(&may_end);
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t threads[2 * THREADS];
    hold_same_name();
    hold_same_labels();
    hold_taken_names();
    hold_limited();
    hold_by_tenant("blue");
    hold_by_tenant("green");
    hold_by_tenant("blue");
    pthread_barrier_init(&all_allocated, NULL, 2 * THREADS + 1);
    pthread_barrier_init(&may_end, NULL, 2 * THREADS + 1);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS ? hold_region : hold_in_thread, NULL);
    pthread_barrier_wait(&all_allocated);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("sum(jespan_span_inuse_bytes{span=\"twice\"}) 12288");
    puts("count(jespan_span_inuse_bytes{span=\"twice\"}) 1");
    puts("sum(jespan_span_inuse_bytes{span=\"order\",tenant=\"blue\",route=\"/a\"}) 15360");
    puts("count(jespan_span_inuse_bytes{span=\"order\"}) 1");
    puts("jespan_span_inuse_bytes{span=\"(other)\"} 1024");
    puts("jespan_span_inuse_bytes{span=~\"bad.\"} 7168"); /* its U+FFFD cannot be written in a query */
    puts("jespan_span_inuse_bytes{a_b=\"1\",a_b_=\"2\",a_b__=\"3\",span_=\"4\",exported_job=\"5\"} 5120");
    puts("jespan_span_inuse_bytes{span=\"limited\",tenant=\"green\"} 6144");
    puts("sum(jespan_span_inuse_bytes{span=\"tenant\"}) 30720");
    puts("sum(jespan_span_inuse_bytes{span=\"region\"}) 8192");
    puts("sum(jespan_span_inuse_bytes{span=~\".*worker.*\"}) >= bool 4096 1");
    puts("sum(jespan_span_inuse_bytes) == bool scalar(jespan_inuse_bytes) 1");
    puts("sum(jespan_span_inuse_objects) == bool scalar(jespan_inuse_objects) 1");
    puts("sum(jespan_span_alloc_bytes_total) == bool scalar(jespan_alloc_bytes_total) 1");
    expect_arenas("tenant");
    expect_arenas("region");
    puts("ready");
    while (getchar() != EOF)
        ;
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
