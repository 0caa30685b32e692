/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates and frees 4 MiB of large objects again and again, so that nothing of them is in use. Writes "ready" and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 8
#define BYTES 500000

int main(void)
{
    static char *volatile objects[N];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < N; i++)
            memset(objects[i] = malloc(BYTES), 1, BYTES);
        for (int i = 0; i < N; i++)
            free(objects[i]);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
