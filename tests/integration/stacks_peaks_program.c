/* SPDX-License-Identifier: BSD-2-Clause */
/* For stacks_peaks.sh: memory of known stacks that comes and goes. The process has most while both() has 8 MiB, by two
 * stacks. Each byte of standard input is an allocation. With an argument, as many stacks as it says allocate once. With the
 * argument "threads", four threads have these 8 MiB together, and main() frees the first part of them while all wait. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SITE(name)                                                                                                     \
    static __attribute__((noinline)) void *name(size_t bytes)                                                          \
    {                                                                                                                  \
        void *p = malloc(bytes);                                                                                       \
        __asm__ volatile("" : "+r"(p));                                                                                \
        return p;                                                                                                      \
    }

SITE(kept)
SITE(both)
SITE(alone)
SITE(deep)

static __attribute__((noinline)) void *descend(unsigned depth)
{
    void *p = depth ? descend(depth - 1) : deep(64 << 10);
    __asm__ volatile("" : "+r"(p));
    return p;
}

#define THREADS 4
static pthread_barrier_t all_hold, peak_is_over;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static void *held[THREADS];

static void *hold(void *slot)
{
    void **own = slot;
    *own = both(2 * MIB);
    pthread_barrier_wait(&all_hold);
    pthread_barrier_wait(&peak_is_over);
    free(*own);
    pthread_barrier_wait(&all_hold);
    pthread_mutex_lock(&turn);
    free(alone(6 * MIB));
    pthread_mutex_unlock(&turn);
    return NULL;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_hold, NULL, THREADS + 1);
    pthread_barrier_init(&peak_is_over, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, hold, &held[i]) != 0)
            abort();
    pthread_barrier_wait(&all_hold);
    free(held[0]);
    held[0] = NULL;
    pthread_barrier_wait(&peak_is_over);
    pthread_barrier_wait(&all_hold);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    char byte;
    void *stays = kept(3 * MIB);
    if (argc > 1 && !strcmp(argv[1], "threads"))
        in_threads();
    else {
        void *most = both(5 * MIB), *more = both(3 * MIB);
        free(more);
        free(most);
        free(alone(4 * MIB));
        free(alone(6 * MIB));
    }
    for (unsigned i = 0; argc > 1 && i < strtoul(argv[1], NULL, 10); i++)
        free(descend(i));
    if (write(1, "ready\n", 6) < 0)
        return 1;
    while (read(0, &byte, 1) > 0)
        free(alone(MIB));
    free(stays);
    return 0;
}
