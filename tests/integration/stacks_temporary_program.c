/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates and frees at random, in two threads, and knows which allocations are temporary. Prints "SITE N" for each function
 * that allocates and the sum that mallctl and a snapshot have, and waits for the end of standard input. The argument is how
 * many other allocations may come before the free. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jespan/snapshot.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

#define OPERATIONS 60000
#define LIVE 64
#define SITE(name, call)                                                                                               \
    static __attribute__((noinline)) void *name(void *p, size_t size)                                                  \
    {                                                                                                                  \
        void *q = call;                                                                                                \
        (void)p;                                                                                                       \
        __asm__ volatile("" : "+r"(q));                                                                                \
        return q;                                                                                                      \
    }

SITE(site_small, malloc(1 + size % 1000))
SITE(site_large, malloc(4096 + size))
SITE(site_zeroed, calloc(1 + size % 7, 1 + size % 99))
SITE(site_aligned, aligned_alloc(64, 64 + size % 6400 / 64 * 64))
SITE(site_resized, realloc(p, 1 + size % (size & 1 ? 500 : 30000)))

static void *(*const sites[])(void *, size_t) = {site_small, site_large, site_zeroed, site_aligned, site_resized};
static const char *const names[] = {"site_small", "site_large", "site_zeroed", "site_aligned", "site_resized"};
enum { RESIZED = 4, SITES };

struct object {
    void *p;
    unsigned maker, site;
    unsigned long number; /* of its maker's allocations */
};

struct worker {
    unsigned id;
    unsigned long random, made, temporary[SITES];
    struct object live[LIVE];
};

static unsigned long within;
static struct worker workers[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, first_operations = PTHREAD_MUTEX_INITIALIZER;
static struct object handed[16]; /* by the first worker to the second */

static unsigned long draw(struct worker *w, unsigned long n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

static void note_free(struct worker *w, const struct object *o)
{
    if (o->p && o->maker == w->id && w->made - o->number <= within)
        w->temporary[o->site]++;
}

static void make(struct worker *w, struct object *o, unsigned site)
{
    if (site == RESIZED)
        note_free(w, o);
    *o = (struct object){sites[site](site == RESIZED ? o->p : NULL, draw(w, 20000)), w->id, site, ++w->made};
}

static void release(struct worker *w, struct object *o)
{
    note_free(w, o);
    free(o->p);
    o->p = NULL;
}

/* The first worker leaves an object, and the second takes it. */
static void hand_over(struct worker *w, struct object *mine)
{
    pthread_mutex_lock(&mutex);
    struct object *between = &handed[draw(w, 16)];
    struct object *from = w->id ? between : mine, *to = w->id ? mine : between;
    if (from->p && !to->p) {
        *to = *from;
        from->p = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned at = 0;
    /* All stacks are new in the first operations. If another thread holds jespan's lock for long, an allocation with a new stack is
     * credited without one. */
    pthread_mutex_lock(&first_operations);
    for (unsigned i = 0; i < OPERATIONS; i++) {
        if (i == OPERATIONS / 10)
            pthread_mutex_unlock(&first_operations);
        at = draw(w, 3) ? at : (unsigned)draw(w, LIVE); /* often the object that was made last */
        struct object *o = &w->live[at];
        if (!draw(w, 20))
            hand_over(w, o);
        else if (!o->p)
            make(w, o, (unsigned)draw(w, SITES));
        else if (!draw(w, 4))
            make(w, o, RESIZED);
        else
            release(w, o);
    }
    make(w, &(struct object){0}, 0); /* counts what was freed before */
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    within = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    workers[0].random = 1;
    workers[1] = (struct worker){.id = 1, .random = 2};
    if (pthread_create(&thread, NULL, work, &workers[1]) != 0)
        return 1;
    work(&workers[0]);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < SITES; i++)
        printf("%s %lu\n", names[i], workers[0].temporary[i] + workers[1].temporary[i]);
    unsigned long all = 0;
    size_t bytes = sizeof all;
    mallctl("spans.all.temporary_objects", &all, &bytes, NULL, 0);
    jespan_snapshot_t *snapshot = jespan_snapshot_take();
    unsigned long sum = 0;
    for (const jespan_row_t *row = jespan_snapshot_next(snapshot, NULL); row; row = jespan_snapshot_next(snapshot, row))
        sum += jespan_row_figure(row, JESPAN_TEMPORARY_OBJECTS);
    printf("snapshot %lu %lu\n", sum, (unsigned long)jespan_snapshot_figure(snapshot, JESPAN_TEMPORARY_OBJECTS));
    printf("total %lu\n", all);
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
