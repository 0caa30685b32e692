/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates and frees at random in the span "model", in two threads, and reads the clock before and after each call. Writes a
 * dump, and then prints for each function that allocates how many objects it made and between which bounds the sum of their
 * lifetimes in ns must be in the dump. Then frees all, prints the same with the word "freed" before it, and waits for the end of
 * standard input.
 *
 *     lifetimes_program DUMP [fork] [switch]
 *
 * With "fork", the objects are made before a fork, and all that follows is done by the child. With "switch", stacks are switched
 * on and off meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

#define OPERATIONS 2500
#define LIVE 64
#define UNIT_NS 17000.0 /* to which times are rounded, at most */
#define SITE(name, call)                                                                                               \
    static __attribute__((noinline)) void *name(void *p, size_t size)                                                  \
    {                                                                                                                  \
        void *q = call;                                                                                                \
        (void)p;                                                                                                       \
        __asm__ volatile("" : "+r"(q));                                                                                \
        return q;                                                                                                      \
    }

SITE(site_small, malloc(1 + size % 1000))
SITE(site_middle, malloc(4097 + size % 9000))
SITE(site_large, malloc(40000 + size))
SITE(site_zeroed, calloc(1 + size % 7, 1 + size % 99))
SITE(site_aligned, aligned_alloc(64, 64 + size % 6400 / 64 * 64))
SITE(site_resized, realloc(p, 1 + size % (size & 1 ? 500 : 300000)))

static void *(*const sites[])(void *, size_t) = {site_small, site_middle, site_large, site_zeroed, site_aligned, site_resized};
static const char *const names[] = {"site_small", "site_middle", "site_large", "site_zeroed", "site_aligned", "site_resized"};
enum { RESIZED = 5, SITES };

struct moment {
    double before, after; /* the clock, before and after a call */
};

struct object {
    void *p;
    unsigned site;
    struct moment made;
};

struct worker {
    unsigned id;
    unsigned long random, made[SITES];
    double least[SITES], most[SITES]; /* lifetimes of what is freed, added up */
    struct object live[LIVE];
};

static struct worker workers[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct object handed[16]; /* by each to the other */
static int switches;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static unsigned long draw(struct worker *w, unsigned long n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

static void add_life(double least[SITES], double most[SITES], const struct object *o, struct moment end)
{
    double shortest = end.before - o->made.after - UNIT_NS;
    if (!o->p)
        return;
    least[o->site] += shortest > 0 ? shortest : 0;
    most[o->site] += end.after - o->made.before + UNIT_NS;
}

static void make(struct worker *w, struct object *o, unsigned site)
{
    struct object new = {.site = site, .made.before = now()};
    new.p = sites[site](site == RESIZED ? o->p : NULL, draw(w, 20000));
    new.made.after = now();
    if (site == RESIZED)
        add_life(w->least, w->most, o, new.made);
    w->made[site]++;
    *o = new;
}

static void release(struct worker *w, struct object *o)
{
    struct moment end = {.before = now()};
    free(o->p);
    end.after = now();
    add_life(w->least, w->most, o, end);
    o->p = NULL;
}

static void hand_over(struct worker *w, struct object *mine)
{
    pthread_mutex_lock(&mutex);
    struct object *between = &handed[draw(w, 16)], was = *between;
    *between = *mine;
    *mine = was;
    pthread_mutex_unlock(&mutex);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    void *volatile first = malloc(1); /* has no stack in a new thread; never freed */
    (void)first;
    JESPAN("model");
    for (unsigned i = 0; i < OPERATIONS; i++) {
        struct object *o = &w->live[draw(w, LIVE)];
        const char *mode = i & 1 ? "off" : "all";
        if (switches && w->id)
            mallctl("spans.stacks", NULL, NULL, &mode, sizeof mode);
        if (!draw(w, 20))
            hand_over(w, o);
        else if (!o->p)
            make(w, o, (unsigned)draw(w, SITES));
        else if (!draw(w, 4))
            make(w, o, RESIZED);
        else
            release(w, o);
        const struct timespec pause = {0, (long)draw(w, 400000)};
        if (!draw(w, 3))
            nanosleep(&pause, NULL);
    }
    return NULL;
}

static void add_living(double least[SITES], double most[SITES], struct moment end)
{
    for (unsigned k = 0; k < 2 * LIVE; k++)
        add_life(least, most, &workers[k / LIVE].live[k % LIVE], end);
    for (unsigned k = 0; k < 16; k++)
        add_life(least, most, &handed[k], end);
}

static void print(const char *word, struct moment end)
{
    double least[SITES], most[SITES];
    for (unsigned i = 0; i < SITES; i++) {
        least[i] = workers[0].least[i] + workers[1].least[i];
        most[i] = workers[0].most[i] + workers[1].most[i];
    }
    add_living(least, most, end);
    for (unsigned i = 0; i < SITES; i++)
        printf("%s%s %lu %.0f %.0f\n", word, names[i], workers[0].made[i] + workers[1].made[i], least[i], most[i]);
    fflush(stdout);
}

static void free_all(void)
{
    for (unsigned k = 0; k < 2 * LIVE; k++)
        release(&workers[0], &workers[k / LIVE].live[k % LIVE]);
    for (unsigned k = 0; k < 16; k++)
        release(&workers[0], &handed[k]);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int forks = 0, status;
    for (int i = 2; i < argc; i++) {
        forks |= !strcmp(argv[i], "fork");
        switches |= !strcmp(argv[i], "switch");
    }
    workers[0].random = 1;
    workers[1] = (struct worker){.id = 1, .random = 2};
    if (argc < 2 || pthread_create(&thread, NULL, work, &workers[1]) != 0)
        return 1;
    work(&workers[0]);
    pthread_join(thread, NULL);
    if (forks && fork() != 0)
        return wait(&status) < 0 || status;
    struct moment dumped = {.before = now()};
    const char *path = argv[1];
    if (mallctl("spans.dump", NULL, NULL, &path, sizeof path) != 0)
        return 1;
    dumped.after = now();
    print("", dumped);
    free_all();
    print("freed ", dumped);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
