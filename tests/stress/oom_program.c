/* SPDX-License-Identifier: BSD-2-Clause */
/* For oom.sh: spans that hold memory, and one that leaks until something ends the program.
 *
 *   oom_program RATE PIECE [CACHE]    RATE: MB/s that "leak" takes, 0: as fast as it can; PIECE: bytes of each allocation;
 *                                     CACHE: MiB that another span holds, 20 if not given
 *
 * Without memory it says so and ends with status 3.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.h>

static void *take(size_t bytes)
{
    void *p = malloc(bytes);
    if (p == NULL) {
        fputs("no memory\n", stderr);
        _exit(3);
    }
    return memset(p, 1, bytes);
}

static void *held[1000];

static void fill_cache(int megabytes)
{
    JESPAN("cache");
    for (int i = 100; i < 100 + megabytes; i++)
        held[i] = take(1 << 20);
}

static void fill_index(void)
{
    JESPAN("index");
    for (int i = 20; i < 64; i++)
        held[i] = take(100000);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void leak(double rate, size_t piece)
{
    JESPAN("leak", "tenant", "t7");
    double begin = now(), taken = 0;
    for (;;) {
        void *volatile lost = take(piece);
        (void)lost;
        taken += (double)piece;
        double early = rate > 0 ? begin + taken / rate - now() : 0;
        if (early > 0.001)
            usleep((useconds_t)(early * 1e6));
    }
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        return 2;
    JESPAN("serve");
    fill_cache(argc == 4 ? atoi(argv[3]) : 20);
    fill_index();
    usleep(150000); /* quiet: the watcher looks seldom */
    leak(atof(argv[1]) * 1e6, strtoul(argv[2], NULL, 10));
}
