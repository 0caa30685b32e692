/* SPDX-License-Identifier: BSD-2-Clause */
/* report_model_program SEED DIRECTORY [once]: threads allocate and free in random spans, also what another thread allocated. They count in
 * a model of their own what each path has. At two moments, when all threads wait, a dump and the model are written.
 *
 * With "once", a path has each label once, so that the labels of a sample say which contexts are above its own.
 *
 * The model is a line of JSON for each path: ["thread:w0" or names and labels of spans, figures]. Spans that the main thread needs
 * are below "setup". */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define N_THREADS 3
#define N_HELD 700
#define MAX_PATHS 20000
#define PATH_BYTES 400

static struct path {
    char json[PATH_BYTES]; /* the elements of a list */
    unsigned long inuse_bytes, inuse_objects, alloc_bytes, alloc_objects;
} paths[MAX_PATHS];
static unsigned n_paths;

static struct held {
    void *p;
    struct path *path;
} held[N_HELD];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static bool once;

struct worker {
    unsigned seed;
    char json[PATH_BYTES];
};

static unsigned pick(struct worker *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

/* ---- The model: under the mutex, and without malloc ---- */

static struct path *find(const char *json)
{
    unsigned i = 0;
    while (i < n_paths && strcmp(paths[i].json, json) != 0)
        i++;
    if (i == MAX_PATHS)
        exit(3);
    if (i == n_paths)
        strcpy(paths[n_paths++].json, json);
    return &paths[i];
}

static void count(struct path *path, void *p, int sign)
{
    unsigned long bytes = malloc_usable_size(p);
    path->inuse_bytes += sign > 0 ? bytes : -bytes;
    path->inuse_objects += sign > 0 ? 1 : -1UL;
    path->alloc_bytes += sign > 0 ? bytes : 0;
    path->alloc_objects += sign > 0;
}

/* The object of a random place is freed, and another may take its place. */
static void turn(struct worker *w)
{
    struct held *at = &held[pick(w, N_HELD)];
    pthread_mutex_lock(&mutex);
    if (at->p) {
        count(at->path, at->p, -1);
        free(at->p);
    }
    at->p = malloc(pick(w, pick(w, 10) ? 500 : 50000) + 1);
    at->path = find(w->json);
    count(at->path, at->p, 1);
    pthread_mutex_unlock(&mutex);
}

/* ---- Spans ---- */

static void visit(struct worker *w, int depth);

static void work(struct worker *w, int depth, const char *name, const char *key, const char *value)
{
    size_t n = strlen(w->json);
    snprintf(w->json + n, sizeof w->json - n, "%s[\"%s\", \"%s\", \"%s\"]", n ? ", " : "", name, key, value);
    for (unsigned turns = 1 + pick(w, 8); turns > 0; turns--)
        turn(w);
    for (unsigned spans = pick(w, 3); depth < 5 && spans > 0; spans--)
        visit(w, depth + 1);
    w->json[n] = '\0';
}

static void visit(struct worker *w, int depth)
{
    static const char *const tenants[] = {"blue", "black", "green"}, *const shards[] = {"0", "-1"};
    unsigned i = pick(w, 6), what = pick(w, 4);
    if (once && ((what == 0 && strstr(w->json, "request")) || (what == 1 && strstr(w->json, "render"))))
        what += 2;
    switch (what) {
    case 0: {
        JESPAN("request", "tenant", tenants[i % 3]);
        work(w, depth, "request", "tenant", tenants[i % 3]);
        break;
    }
    case 1: {
        JESPAN_WITH("render", JESPAN_LABEL_INT("shard", i % 2 ? -1 : 0));
        work(w, depth, "render", "shard", shards[i % 2]);
        break;
    }
    case 2: {
        JESPAN("parse");
        work(w, depth, "parse", "", "");
        break;
    }
    default: {
        JESPAN("cache");
        work(w, depth, "cache", "", "");
        break;
    }
    }
}

static void *run(void *worker)
{
    struct worker *w = worker;
    char name[16], outside[PATH_BYTES];
    pthread_getname_np(pthread_self(), name, sizeof name);
    snprintf(outside, sizeof outside, "[\"thread:%s\", \"\", \"\"]", name);
    for (int phase = 0; phase < 2; phase++) {
        for (int i = 0; i < 150; i++) {
            strcpy(w->json, outside);
            turn(w);
            w->json[0] = '\0';
            visit(w, 0);
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* ---- Dumps ---- */

static void write_both(const char *directory, const char *name)
{
    char path[4096];
    const char *dump = path;
    snprintf(path, sizeof path, "%s/%s.pb.gz", directory, name);
    if (mallctl("spans.dump", NULL, NULL, &dump, sizeof dump))
        exit(4);
    snprintf(path, sizeof path, "%s/%s.json", directory, name);
    FILE *file = fopen(path, "w");
    for (unsigned i = 0; file && i < n_paths; i++)
        fprintf(file, "[[%s], [%lu, %lu, %lu, %lu]]\n", paths[i].json, paths[i].inuse_bytes, paths[i].inuse_objects, paths[i].alloc_bytes,
                paths[i].alloc_objects);
    if (!file || fclose(file))
        exit(5);
}

/* A thread begins with the name of the thread that makes it. Two have the same name. */
int main(int argc, char **argv)
{
    static struct worker workers[N_THREADS];
    pthread_t threads[N_THREADS];
    if (argc < 3)
        return 2;
    once = argc > 3;
    JESPAN("setup");
    pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i].seed = (unsigned)atoi(argv[1]) * 100 + i;
        pthread_setname_np(pthread_self(), i % 2 ? "w1" : "w0");
        if (pthread_create(&threads[i], NULL, run, &workers[i]))
            return 6;
    }
    for (int phase = 0; phase < 2; phase++) {
        pthread_barrier_wait(&barrier);
        write_both(argv[2], phase ? "new" : "old");
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
