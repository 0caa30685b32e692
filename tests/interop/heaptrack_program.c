/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates the same at each run, from a few hundred stacks. All sizes are sizes of jemalloc's classes, so that bytes in
 * use are bytes that were asked for. */
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
#define NO_TAIL_CALL __asm__ volatile("")
#define DEPTH 8

void *kept[4096];
static unsigned n;

/* Keeps two objects of three. */
NOINLINE void take(unsigned size_class)
{
    void *p = malloc((size_t)16 * (1 + size_class % 8));
    kept[n] = p;
    if (++n % 3 == 0)
        free(p);
}

NOINLINE void right(unsigned path, unsigned depth);

NOINLINE void left(unsigned path, unsigned depth)
{
    if (!depth)
        take(path);
    else if (path & 1)
        left(path >> 1, depth - 1);
    else
        right(path >> 1, depth - 1);
    NO_TAIL_CALL;
}

NOINLINE void right(unsigned path, unsigned depth)
{
    volatile char room[80];
    room[0] = 0;
    take(depth);
    if (depth && path & 1)
        right(path >> 1, depth - 1);
    else if (depth)
        left(path >> 1, depth - 1);
    NO_TAIL_CALL;
}

NOINLINE void large(void)
{
    for (int i = 0; i < 10; i++)
        kept[n++] = malloc(4096);
    NO_TAIL_CALL;
}

int main(void)
{
    for (unsigned i = 0; i < 300; i++)
        left(i * 2654435761u >> 20, DEPTH);
    large();
    return 0;
}
