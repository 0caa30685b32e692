/* SPDX-License-Identifier: BSD-2-Clause */
/* report_model_program SEED DIRECTORY [once]: threads allocate and free in random spans and functions, also what another thread
 * allocated. They count in a model of their own what each path has. At two moments, when all threads wait, the program writes a dump,
 * the model, and what mallctl says of each context. Then it waits for the end of its input.
 *
 * With "once", a path has each label once, so that the labels of a sample say which contexts are above its own.
 *
 * The model is a line of JSON for each path: ["thread:w0" or names and labels of spans, numbers of frames, figures]. frames.json has the
 * frames by number. Spans that the main thread needs are below "setup". */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"
#define MODEL_LIBRARY "program"
#include "report_model_frames.h"

#define N_THREADS 3
#define N_HELD 700
#define MAX_PATHS 65536 /* a power of two */
#define MAX_FRAMES 100
#define MAX_CONTEXTS 20000
#define PATH_BYTES 400

static struct path {
    char json[PATH_BYTES]; /* the elements of a list */
    struct stack stack;
    unsigned long inuse_bytes, inuse_objects, alloc_bytes, alloc_objects;
} paths[MAX_PATHS];
static unsigned n_paths;
static struct frame *frames[MAX_FRAMES];
static unsigned n_frames;

static struct held {
    void *p;
    struct path *path;
} held[N_HELD];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static bool once;

struct worker {
    struct stack stack, made; /* now; at the last allocation */
    unsigned seed;
    char json[PATH_BYTES];
};

static unsigned pick(struct worker *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

/* ---- The model: under the mutex, and without malloc ---- */

static unsigned hash_path(const char *json, const struct stack *stack)
{
    unsigned hash = 0;
    for (; *json; json++)
        hash = hash * 31 + (unsigned char)*json;
    for (unsigned i = 0; i < stack->n; i++)
        hash = (hash ^ (unsigned)(uintptr_t)stack->frames[i]) * 2654435761u;
    return hash ^ hash >> 16;
}

static bool is_path(const struct path *path, const char *json, const struct stack *stack)
{
    return !strcmp(path->json, json) && path->stack.n == stack->n &&
           !memcmp(path->stack.frames, stack->frames, stack->n * sizeof stack->frames[0]);
}

static void number_frames(const struct stack *stack)
{
    for (unsigned i = 0; i < stack->n; i++)
        if (!stack->frames[i]->number) {
            if (n_frames == MAX_FRAMES)
                exit(7);
            frames[n_frames++] = stack->frames[i];
            stack->frames[i]->number = n_frames;
        }
}

static struct path *find(const char *json, const struct stack *stack)
{
    unsigned i = hash_path(json, stack) % MAX_PATHS;
    while (paths[i].json[0] && !is_path(&paths[i], json, stack))
        i = (i + 1) % MAX_PATHS;
    if (!paths[i].json[0]) {
        if (++n_paths > MAX_PATHS / 2)
            exit(3);
        strcpy(paths[i].json, json);
        paths[i].stack = *stack;
        number_frames(stack);
    }
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

/* ---- Functions that allocate: each call is a line ---- */

static void *make(struct worker *w, size_t bytes, void *old, unsigned depth);

static void *make_of_stack(struct stack *stack, size_t bytes, void *old, unsigned depth)
{
    void *p;
    struct worker *w = (struct worker *)stack;
    FRAME(stack, p = make(w, bytes, old, depth));
    return p;
}

static inline __attribute__((always_inline)) void *make_inlined(struct worker *w, size_t bytes, void *old)
{
    void *p;
    FRAME(&w->stack, (w->made = w->stack, p = realloc(old, bytes)));
    return p;
}

static __attribute__((noinline)) void *make_cleared(struct worker *w, size_t bytes, void *old)
{
    void *p;
    if (old)
        FRAME(&w->stack, p = make_inlined(w, bytes, old));
    else
        FRAME(&w->stack, (w->made = w->stack, p = calloc(1, bytes)));
    return p;
}

/* Also a function of the library */
static __attribute__((noinline)) void *grow(struct worker *w, size_t bytes, void *old, unsigned depth)
{
    void *p;
    FRAME(&w->stack, p = make(w, bytes, old, depth));
    return p;
}

static __attribute__((noinline)) void *make(struct worker *w, size_t bytes, void *old, unsigned depth)
{
    void *p;
    unsigned what = pick(w, depth ? 6 : 3);
    if (what == 0)
        FRAME(&w->stack, p = make_inlined(w, bytes, old));
    else if (what == 1)
        FRAME(&w->stack, p = make_cleared(w, bytes, old));
    else if (what == 2)
        FRAME(&w->stack, p = model_make(&w->stack, &w->made, bytes, old));
    else if (what == 3)
        FRAME(&w->stack, p = grow(w, bytes, old, depth - 1));
    else
        FRAME(&w->stack, p = model_call(make_of_stack, &w->stack, bytes, old, depth - 1));
    return p;
}

/* An allocation may get no stack if another thread holds a lock for long. */
static uint64_t without_stacks(void)
{
    return ctl_u64("spans.stats.stacks.missed") + ctl_u64("spans.stats.stacks.overflow");
}

/* The object of a random place is freed, or takes another size, and another may take its place. */
static __attribute__((noinline)) void turn(struct worker *w)
{
    struct held *at = &held[pick(w, N_HELD)];
    size_t bytes = pick(w, pick(w, 10) ? 500 : 50000) + 1;
    pthread_mutex_lock(&mutex);
    if (at->p)
        count(at->path, at->p, -1);
    if (at->p && pick(w, 5)) {
        free(at->p);
        at->p = NULL;
    }
    uint64_t before = without_stacks();
    FRAME(&w->stack, at->p = make(w, bytes, at->p, pick(w, 5)));
    if (without_stacks() > before)
        w->made.n = 0;
    at->path = find(w->json, &w->made);
    count(at->path, at->p, 1);
    pthread_mutex_unlock(&mutex);
}

/* ---- Spans ---- */

static __attribute__((noinline)) void visit(struct worker *w, int depth);

static __attribute__((noinline)) void work(struct worker *w, int depth, const char *name, const char *key, const char *value)
{
    size_t n = strlen(w->json);
    snprintf(w->json + n, sizeof w->json - n, "%s[\"%s\", \"%s\", \"%s\"]", n ? ", " : "", name, key, value);
    for (unsigned turns = 1 + pick(w, 8); turns > 0; turns--)
        FRAME(&w->stack, turn(w));
    for (unsigned spans = pick(w, 3); depth < 5 && spans > 0; spans--)
        FRAME(&w->stack, visit(w, depth + 1));
    w->json[n] = '\0';
}

static __attribute__((noinline)) void visit(struct worker *w, int depth)
{
    static const char *const tenants[] = {"blue", "black", "green"}, *const shards[] = {"0", "-1"};
    unsigned i = pick(w, 6), what = pick(w, 4);
    if (once && ((what == 0 && strstr(w->json, "request")) || (what == 1 && strstr(w->json, "render"))))
        what += 2;
    switch (what) {
    case 0: {
        JESPAN("request", "tenant", tenants[i % 3]);
        FRAME(&w->stack, work(w, depth, "request", "tenant", tenants[i % 3]));
        break;
    }
    case 1: {
        JESPAN_WITH("render", JESPAN_LABEL_INT("shard", i % 2 ? -1 : 0));
        FRAME(&w->stack, work(w, depth, "render", "shard", shards[i % 2]));
        break;
    }
    case 2: {
        JESPAN("parse");
        FRAME(&w->stack, work(w, depth, "parse", "", ""));
        break;
    }
    default: {
        JESPAN("cache");
        FRAME(&w->stack, work(w, depth, "cache", "", ""));
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
        for (int i = 0; i < 60; i++) {
            strcpy(w->json, outside);
            FRAME(&w->stack, turn(w));
            w->json[0] = '\0';
            FRAME(&w->stack, visit(w, 0));
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* ---- Dumps ---- */

static FILE *file;

/* Opens DIRECTORY/NAME.ENDING. */
static void begin_file(const char *directory, const char *name, const char *ending)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", directory, name, ending);
    file = fopen(path, "w");
    if (!file)
        exit(5);
}

static void end_file(void)
{
    if (fclose(file))
        exit(5);
}

static void write_paths(void)
{
    for (unsigned i = 0; i < MAX_PATHS; i++) {
        const struct path *path = &paths[i];
        if (!path->json[0])
            continue;
        fprintf(file, "[[%s], [", path->json);
        for (unsigned k = 0; k < path->stack.n; k++)
            fprintf(file, "%s%u", k ? ", " : "", path->stack.frames[k]->number - 1);
        fprintf(file, "], [%lu, %lu, %lu, %lu]]\n", path->inuse_bytes, path->inuse_objects, path->alloc_bytes, path->alloc_objects);
    }
}

static void write_frames(void)
{
    for (unsigned i = 0; i < n_frames; i++)
        fprintf(file, "%s[\"%s\", \"%s\", %d, \"%s\"]", i ? ", " : "[", frames[i]->function, frames[i]->file, frames[i]->line,
                frames[i]->library);
    fprintf(file, "]\n");
}

static const char *const figures[] = {"inuse_bytes", "inuse_objects", "alloc_bytes", "alloc_objects", "free_bytes", "free_objects"};

static void write_figures(const char *of)
{
    char name[100];
    fputs(", [", file);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        snprintf(name, sizeof name, "spans.%s.%s", of, figures[i]);
        fprintf(file, "%s%lu", i ? ", " : "", (unsigned long)ctl_u64(name));
    }
    fputs("]", file);
}

/* A line for each context: [number, parent, name, key, value, figures], and for some also figures with all below it, each of which
 * takes a snapshot. */
static void write_contexts(void)
{
    static uint32_t ids[MAX_CONTEXTS];
    size_t bytes = sizeof ids;
    char of[40];
    ctl_refresh();
    if (mallctl("spans.ids", ids, &bytes, NULL, 0))
        exit(8);
    for (size_t i = 0; i < bytes / sizeof ids[0]; i++) {
        char name[100], labels[200] = "";
        size_t n = sizeof labels - 2;
        if (mallctl(ctl_span_name(name, sizeof name, ids[i], "labels"), labels, &n, NULL, 0))
            exit(9);
        labels[n] = '\0';
        fprintf(file, "[%u, %u, \"%s\", \"%s\", \"%s\"", ids[i], ids[i] == JESPAN_ROOT ? 0 : (unsigned)ctl_span(ids[i], "parent"),
                ctl_span_text(ids[i], "name"), labels, n ? labels + strlen(labels) + 1 : "");
        snprintf(of, sizeof of, "%u", ids[i]);
        write_figures(of);
        snprintf(of, sizeof of, "%u.total", ids[i]);
        if (i % 100 == 20)
            write_figures(of);
        fputs("]\n", file);
    }
}

static void write_all(const char *directory, const char *name)
{
    char path[4096];
    const char *dump = path;
    snprintf(path, sizeof path, "%s/%s.pb.gz", directory, name);
    if (mallctl("spans.dump", NULL, NULL, &dump, sizeof dump))
        exit(4);
    begin_file(directory, name, "json");
    write_paths();
    end_file();
    begin_file(directory, name, "contexts");
    write_contexts();
    end_file();
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
        write_all(argv[2], phase ? "new" : "old");
        if (phase) {
            begin_file(argv[2], "frames", "json");
            write_frames();
            end_file();
            puts("ready");
            fflush(stdout);
            getchar();
        }
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
