/* SPDX-License-Identifier: BSD-2-Clause */
/* Leaves holes that one context keeps, memory that was never touched, and a mapping that is no memory of jemalloc's. Writes
 * what `jespan rss` should show: bytes of the objects that are touched, then waits. */
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

static char *volatile objects[N], *volatile kept[N / EACH], *volatile zeroes[N_ZEROES], *volatile mapped;

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
    printf("ready\n");
    fflush(stdout);
    pause();
    return 0;
}
