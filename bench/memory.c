/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the resident memory of an object, and provides the memory that the benchmark itself uses. */
#define _GNU_SOURCE
#include "workload.h"

#include <fcntl.h>
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
