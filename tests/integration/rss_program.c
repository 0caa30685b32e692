/* SPDX-License-Identifier: BSD-2-Clause */
/* Leaves holes that one context keeps, memory that was never touched, and a mapping that is no memory of jemalloc's. Writes
 * "ready" and waits; with a blank behind it if the object "behind" lies directly behind a mapping of code. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define N 400000
#define EACH 100 /* one of so many is kept */
#define N_ZEROES 64
#define N_BUFFERS 2000
#define N_TOUCHED 300

static char *volatile objects[N], *volatile kept[N / EACH], *volatile zeroes[N_ZEROES], *volatile buffers[N_BUFFERS];
static char *volatile touched[N_TOUCHED];
static char *volatile mapped, *volatile behind, *volatile marked, *volatile looked_at, *volatile looked_at_huge;

static uintptr_t start_of_mapping(uintptr_t of)
{
    uintptr_t start = 0, end = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps) && sscanf(line, "%lx-%lx", &start, &end) == 2 && end <= of)
        ;
    if (maps)
        fclose(maps);
    return start;
}

/* A library is loaded where there is room, which is often directly before the heap. */
static int map_code_before(uintptr_t start)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *at = (void *)(start - 4096);
    return mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) == at;
}

/* The kernel cuts the mapping of an object in which pages are marked: at its start, of which nothing is in memory, and in its middle.
 * numpy marks its arrays so, for huge pages. */
static void cut(char *object, size_t bytes)
{
    uintptr_t page = ((uintptr_t)object + 4095) / 4096 * 4096;
    memset(object + (1 << 20), 1, bytes - (1 << 20));
    if (madvise((void *)(page + 4096), 512 << 10, MADV_DONTFORK) != 0 || madvise((void *)(page + (4 << 20)), 1 << 20, MADV_DONTFORK) != 0)
        perror("madvise");
}

/* Memory that is read and never written has the zero page of the kernel, which does not count as resident. Returns a sum of it. */
static int look_at(const char *object, size_t bytes)
{
    int sum = 0;
    for (size_t i = 0; i < bytes; i += 4096)
        sum += object[i];
    return sum;
}

/* One page in 32 is written to, and so is resident. Where the system has huge pages, the other object has the huge zero page. */
static void look(void)
{
    JESPAN("looked at");
    looked_at = calloc(1, 64 << 20);
    for (size_t i = 4096; i < 64 << 20; i += 32 * 4096)
        looked_at[i] = 1;
    looked_at_huge = calloc(1, 32 << 20);
    void *pages = (void *)(((uintptr_t)looked_at_huge + 4095) & ~(uintptr_t)4095);
    if (prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) != 0 || madvise(pages, 31 << 20, MADV_HUGEPAGE) != 0)
        perror("no huge pages");
    if (look_at(looked_at, 64 << 20) + look_at(looked_at_huge, 32 << 20) != 64 << 20 >> 17)
        puts("the memory is not zero");
}

/* Objects that begin in the page in which the one before ends. */
static void buffer(void)
{
    JESPAN("buffers");
    for (int i = 0; i < N_BUFFERS; i++)
        memset(buffers[i] = malloc(5000), 1, 5000);
}

/* Small objects of which only some were touched: some begin in a resident page and end in one that is not. */
static void touch_some(void)
{
    JESPAN("touched");
    for (int i = 0; i < N_TOUCHED; i++) {
        touched[i] = malloc(1000 + (size_t)i * 9);
        if (i % 3 == 0)
            touched[i][0] = 1;
    }
}

/* Huge pages would make memory resident that nobody touched. */
int main(void)
{
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
        perror("prctl");
    {
        JESPAN("filler");
        for (int i = 0; i < N; i++)
            if (i % EACH)
                memset(objects[i] = malloc(96), 1, 96);
            else {
                JESPAN("keeper", "colour", "blue");
                memset(kept[i / EACH] = malloc(96), 1, 96);
            }
    }
    for (int i = 0; i < N; i++)
        free(objects[i]);
    {
        JESPAN("zeroes");
        for (int i = 0; i < N_ZEROES; i++) {
            zeroes[i] = calloc(1, 1 << 20);
            for (int at = 0; at < 1 << 18; at += 4096)
                zeroes[i][at] = 1;
        }
    }
    mapped = mmap(NULL, 50 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 50 << 20);
    {
        JESPAN("behind");
        memset(behind = malloc(8 << 20), 1, 8 << 20);
    }
    {
        JESPAN("marked");
        cut(marked = malloc(12 << 20), 12 << 20);
    }
    for (int i = 0; i < 4; i++) {
        JESPAN("passing"); /* what is freed waits in the thread's buffer */
        kept[0] = malloc(8000), kept[1] = malloc(100);
        memset(kept[0], 1, 8000);
        free(kept[0]), free(kept[1]);
    }
    look();
    buffer();
    touch_some();
    printf(map_code_before(start_of_mapping((uintptr_t)behind)) ? "ready \n" : "ready\n");
    fflush(stdout);
    pause();
    return 0;
}
