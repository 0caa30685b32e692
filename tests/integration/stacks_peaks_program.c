/* SPDX-License-Identifier: BSD-2-Clause */
/* For stacks_peaks.sh: memory of known stacks that comes and goes. The process has most while both() has 8 MiB, by two
 * stacks. Each byte of standard input is an allocation. With an argument, as many stacks as it says allocate once. */
#include <stdlib.h>
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

int main(int argc, char **argv)
{
    char byte;
    void *stays = kept(3 * MIB), *most = both(5 * MIB), *more = both(3 * MIB);
    free(more);
    free(most);
    free(alone(4 * MIB));
    free(alone(6 * MIB));
    for (unsigned i = 0; argc > 1 && i < strtoul(argv[1], NULL, 10); i++)
        free(descend(i));
    if (write(1, "ready\n", 6) < 0)
        return 1;
    while (read(0, &byte, 1) > 0)
        free(alone(MIB));
    free(stays);
    return 0;
}
