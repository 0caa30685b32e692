/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the resident memory of an object, and of a thread that is idle. Provides the memory that the benchmark itself
 * uses. */
#define _GNU_SOURCE
#include "spans.h"
#include "workload.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Touched at once, so that its pages are resident before the measurement. */
void *bench_array(size_t bytes)
{
    void *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (array == MAP_FAILED) {
        bench_fail("out of memory");
    }
    return array;
}

void bench_array_free(void *array, size_t bytes)
{
    munmap(array, bytes);
}

/* The exact number. statm sums per-CPU counters and may be wrong by a few hundred pages. */
size_t bench_resident_bytes(void)
{
    static char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    const char *rss = bytes > 0 ? strstr(text, "\nRss:") : NULL;
    if (!rss) {
        bench_fail("cannot read /proc/self/smaps_rollup");
    }
    close(fd);
    return strtoul(rss + strlen("\nRss:"), NULL, 10) * 1024;
}

static void fill(void **objects, size_t count, size_t object_bytes)
{
    for (size_t i = 0; i < count; i++) {
        objects[i] = bench_touch(malloc(object_bytes));
        memset(objects[i], 1, object_bytes);
    }
}

/* The first objects are left out: they pay for an arena, a thread cache and similar things. */
struct bench_result memory_bytes_per_object(const void *shape)
{
    const struct memory_shape *memory = shape;
    size_t count = memory->total_bytes / memory->object_bytes;
    size_t first = count / 16;
    void **objects = bench_array((first + count) * sizeof *objects);
    fill(objects, first, memory->object_bytes);
    size_t before = bench_resident_bytes();
    fill(objects + first, count, memory->object_bytes);
    return bench_value((double)(bench_resident_bytes() - before) / (double)count);
}

/* Both jespan and jemalloc have it. Without it, memory that threads gave back may still be counted. */
int mallctl(const char *name, void *old_value, size_t *old_bytes, void *new_value, size_t new_bytes) __attribute__((weak));
#define PURGE_ALL_ARENAS "arena.4096.purge"

struct idlers {
    const struct idle_shape *shape;
    pthread_mutex_t turn; /* one thread allocates at a time, so that the number of processors does not matter */
    pthread_barrier_t allocated, measured;
};

static void replace_and_free_all(const struct idle_shape *shape)
{
    struct churn_shape churn = {shape->live, shape->min_bytes, shape->max_bytes};
    void *state = churn_start(&churn);
    churn_round(state, 4 * (size_t)shape->live);
    churn_stop(state);
}

static void *idler(void *argument)
{
    struct idlers *idlers = argument;
    spans_enter_if_wanted();
    pthread_mutex_lock(&idlers->turn);
    replace_and_free_all(idlers->shape);
    pthread_mutex_unlock(&idlers->turn);
    pthread_barrier_wait(&idlers->allocated);
    pthread_barrier_wait(&idlers->measured);
    return NULL;
}

/* Includes the thread's stack, which all allocators have. */
struct bench_result memory_bytes_per_idle_thread(const void *shape)
{
    const struct idle_shape *idle = shape;
    struct idlers idlers = {.shape = idle, .turn = PTHREAD_MUTEX_INITIALIZER};
    pthread_barrier_init(&idlers.allocated, NULL, idle->threads + 1);
    pthread_barrier_init(&idlers.measured, NULL, idle->threads + 1);
    pthread_t *threads = bench_array(idle->threads * sizeof *threads);
    replace_and_free_all(idle);
    size_t before = bench_resident_bytes();
    for (unsigned i = 0; i < idle->threads; i++) {
        if (pthread_create(&threads[i], NULL, idler, &idlers)) {
            bench_fail("cannot start a thread");
        }
    }
    pthread_barrier_wait(&idlers.allocated);
    if (mallctl) {
        mallctl(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
    }
    size_t kept = bench_resident_bytes() - before;
    pthread_barrier_wait(&idlers.measured);
    for (unsigned i = 0; i < idle->threads; i++) {
        pthread_join(threads[i], NULL);
    }
    bench_array_free(threads, idle->threads * sizeof *threads);
    return bench_value((double)kept / idle->threads);
}
