/* SPDX-License-Identifier: BSD-2-Clause */
/* THREADS CONTEXTS: as many threads at the same time, and each has an object of 64 bytes in each of as many contexts. The first one has
 * a mebibyte besides, in a context of its own. Prints "ready" and waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jespan/jespan.h>

static long n_threads, n_contexts;
static pthread_barrier_t done;
static void *volatile kept;

static void *work(void *number)
{
    char text[16];
    for (long i = 0; i < n_contexts; i++) {
        snprintf(text, sizeof text, "%ld", i);
        JESPAN("many", "n", text);
        kept = malloc(64);
    }
    if (!number) {
        JESPAN("own");
        kept = malloc(1 << 20);
    }
    pthread_barrier_wait(&done);
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    n_threads = argc > 2 ? atol(argv[1]) : 1;
    n_contexts = argc > 2 ? atol(argv[2]) : 1;
    pthread_setname_np(pthread_self(), "worker");
    pthread_barrier_init(&done, NULL, (unsigned)n_threads + 1);
    for (long i = 0; i < n_threads; i++)
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)i))
            return 1;
    pthread_barrier_wait(&done);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
