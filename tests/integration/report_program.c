/* SPDX-License-Identifier: BSD-2-Clause */
/* report_program SEED OLD NEW: spans of random nesting and labels allocate and free on some threads; two dumps are written. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define N_THREADS 3
#define N_HELD 400

struct work {
    unsigned seed;
    void *held[N_HELD];
};

static const char *const tenants[] = {"blue", "black", "green", "ümläut \"quoted\", \\ and |"};

static void visit(struct work *work, int depth);

static unsigned pick(struct work *work, unsigned n)
{
    return (unsigned)rand_r(&work->seed) % n;
}

static void allocate(struct work *work, int depth)
{
    for (unsigned n = pick(work, 12); n > 0; n--) {
        void **at = &work->held[pick(work, N_HELD)];
        free(*at);
        *at = pick(work, 3) ? malloc(pick(work, pick(work, 10) ? 500 : 50000) + 1) : NULL;
    }
    for (unsigned n = pick(work, 3); depth < 6 && n > 0; n--)
        visit(work, depth + 1);
}

static void visit(struct work *work, int depth)
{
    switch (pick(work, 6)) {
    case 0: {
        JESPAN("request", "tenant", tenants[pick(work, 4)]);
        allocate(work, depth);
        break;
    }
    case 1: {
        JESPAN("parse");
        allocate(work, depth);
        break;
    }
    case 2: {
        JESPAN("cache");
        allocate(work, depth);
        break;
    }
    case 3: {
        JESPAN_WITH("render", JESPAN_LABEL_INT("shard", pick(work, 5)));
        allocate(work, depth);
        break;
    }
    case 4: {
        JESPAN_WITH("cached", JESPAN_LABEL_INT("shard", pick(work, 2)), JESPAN_LABEL("tenant", tenants[pick(work, 3)]));
        allocate(work, depth);
        break;
    }
    default:
        allocate(work, depth);
    }
}

static void *run(void *argument)
{
    for (int i = 0; i < 60; i++)
        visit(argument, 0);
    return NULL;
}

static void run_all(struct work works[N_THREADS])
{
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, &works[i]) != 0)
            abort();
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static int dump(const char *path)
{
    return mallctl("spans.dump", NULL, NULL, &path, sizeof path);
}

int main(int argc, char **argv)
{
    static struct work works[N_THREADS];
    if (argc != 4)
        return 2;
    for (int i = 0; i < N_THREADS; i++)
        works[i].seed = (unsigned)atoi(argv[1]) * N_THREADS + (unsigned)i;
    run_all(works);
    int error = dump(argv[2]);
    run_all(works);
    return error != 0 || dump(argv[3]) != 0;
}
