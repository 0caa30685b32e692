/* SPDX-License-Identifier: BSD-2-Clause */
/* For peaks_reported.sh: memory that comes and goes at once, so no reading sees it. `wait` as an argument waits for its input's end
 * before it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define MIB ((size_t)1 << 20)

static void request(const char *tenant, size_t mib)
{
    JESPAN("request", "tenant", tenant);
    char *own = malloc(MIB);
    {
        JESPAN("parse");
        char *p = malloc(mib * MIB);
        memset(p, 1, 10);
        free(p);
    }
    free(own);
}

int main(int argc, char **argv)
{
    static char *volatile kept;
    {
        JESPAN("cache");
        kept = malloc(3 * MIB);
    }
    request("blue", 8);
    request("green", 4);
    for (char c; argc > 1 && !strcmp(argv[1], "wait") && read(STDIN_FILENO, &c, 1) > 0;)
        request("red", 2);
    return kept == NULL;
}
