/* SPDX-License-Identifier: BSD-2-Clause */
/* For probes.sh: allocates and frees in all ways, and prints the bytes that it requested. Everything is freed at the end,
 * except for objects of a region, which have no probes. Libraries allocate before stacks are switched on.
 *
 * usage: probes_program MODE [await]        MODE of the stacks; await: a line on stdin first */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jespan/jespan.h>
#include <jespan/mallctl.h>

#define OBJECTS 4000

JESPAN_SITE_ARENA(arena_site, "arena", JESPAN_ARENA);
static void *objects[OBJECTS];
static unsigned long long requested;

static size_t counted(size_t bytes)
{
    requested += bytes;
    return bytes;
}

static void fill(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        size_t bytes = i % 1000 == 0 ? 2000000 : i % 100 == 0 ? 100000 : (size_t)(i % 50) * 40 + 1;
        objects[i] = i % 3 == 0 ? calloc(1, counted(bytes)) : i % 3 == 1 ? aligned_alloc(64, counted(bytes)) : malloc(counted(bytes));
    }
}

static void resize(void)
{
    for (int i = 0; i < OBJECTS; i += 2)
        objects[i] = realloc(objects[i], counted((size_t)(i % 40) * 60 + 1));
}

static void empty(void)
{
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

static void *empty_later(void *barrier)
{
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    empty();
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void pairs(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        void *volatile p = malloc(counted(1000));
        free(p);
    }
}

static void credited(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        void *p = malloc(counted(1000));
        jespan_credit(p, JESPAN_ROOT);
        free(p);
    }
}

static void in_region(void)
{
    JESPAN_REGION("region");
    for (int i = 0; i < OBJECTS; i++)
        if (!malloc(1000))
            abort();
}

static void switch_stacks(const char *mode)
{
    if (mallctl("spans.stacks", NULL, NULL, &mode, sizeof mode))
        abort();
}

/* The tracer begins here. */
__attribute__((noinline)) void traced(const char *mode, pthread_barrier_t *barrier)
{
    switch_stacks(mode);
    fill();
    resize();
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    jespan_span_t *span = jespan_open(&arena_site, JESPAN_ROOT, NULL, 0);
    jespan_enter(span);
    fill();
    empty();
    pairs();
    jespan_exit(span);
    jespan_close(span);
    fill();
    empty();
    pairs();
    credited();
    in_region();
    unsigned long long sampled = requested;
    switch_stacks("all"); /* these are no samples */
    fill();
    empty();
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    switch_stacks("off");
    requested = sampled;
}

int main(int argc, char **argv)
{
    pthread_t other;
    pthread_barrier_t barrier;
    if (argc < 2)
        return 2;
    in_region();
    if (argc > 2)
        getchar();
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, empty_later, &barrier);
    pthread_barrier_wait(&barrier);
    traced(argv[1], &barrier);
    pthread_barrier_wait(&barrier);
    pthread_join(other, NULL);
    fprintf(stderr, "requested %llu\n", requested);
    return 0;
}
