/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates as many bytes as each line of its input says, in `request > cache`, and keeps them. At the end of its input, executes
 * its arguments, or ends. */
#include <jespan/jespan.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *kept[1000];

static void parse(void)
{
    JESPAN("parse", "route", "/doc");
    kept[0] = malloc(100000);
}

static void cache(size_t bytes)
{
    static unsigned n = 1;
    JESPAN("cache");
    kept[n++ % 1000] = malloc(bytes);
}

int main(int argc, char **argv)
{
    char line[64];
    JESPAN("request");
    parse();
    cache(200000);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        cache((size_t)atol(line));
        puts("ready");
        fflush(stdout);
    }
    return argc > 1 ? execvp(argv[1], argv + 1) : 0;
}
