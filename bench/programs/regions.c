/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of many small objects: each freed, or all released with their region. Prints nanoseconds per object,
 * tab-separated: to allocate, and to free. */
#define JESPAN_TARGET "regions"
#include <jespan/jespan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../workload.h"

#define LEAST_BYTES 16u
#define MOST_BYTES 256u

static uint64_t random_state = BENCH_SEED;

static uint64_t random_below(uint64_t n)
{
    return bench_random(&random_state) % n;
}

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void allocate(void **objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes = LEAST_BYTES + random_below(MOST_BYTES - LEAST_BYTES + 1);

        objects[i] = malloc(bytes);
        if (!objects[i])
            abort();
        memset(objects[i], 1, bytes);
    }
}

static void shuffle(void **objects, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t other = random_below(i);
        void *object = objects[other];

        objects[other] = objects[i - 1];
        objects[i - 1] = object;
    }
}

/* HOW: "free" in the order of allocation, "free-shuffled", "region" */
int main(int argc, char **argv)
{
    JESPAN_SITE(site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
    const char *how = argc > 1 ? argv[1] : "free";
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    int is_region = strcmp(how, "region") == 0, rounds = argc > 3 ? atoi(argv[3]) : 4;
    void **objects = calloc(n, sizeof *objects);
    double best[2] = {1e30, 1e30};

    for (int round = 0; round < rounds; round++) {
        double start = now_ns(), filled;
        jespan_span_t *region = is_region ? jespan_open(&site, JESPAN_ROOT, NULL, 0) : NULL;

        if (is_region && jespan_enter(region))
            return 1;
        allocate(objects, n);
        jespan_exit(region);
        filled = now_ns();
        best[0] = filled - start < best[0] ? filled - start : best[0];
        if (strcmp(how, "free-shuffled") == 0)
            shuffle(objects, n);
        start = now_ns();
        if (is_region)
            jespan_close(region);
        for (size_t i = 0; !is_region && i < n; i++)
            free(objects[i]);
        start = now_ns() - start;
        best[1] = start < best[1] ? start : best[1];
    }
    printf("%.2f\t%.2f\n", best[0] / (double)n, best[1] / (double)n);
    return 0;
}
