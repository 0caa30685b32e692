/* SPDX-License-Identifier: BSD-2-Clause */
/* For alerts.sh: does what its arguments say, one after the other.
 *
 *   work N     allocates N bytes in the spans work > part {tenant=blue}
 *   drop       frees the last of them
 *   keep N     the same in the span "session", and keeps them when it is closed
 *   plain N    allocates N bytes outside spans and keeps them
 *   await F    waits until a file that fits F exists (glob(7)), 600 s at most
 *   exit N     _exit(N)
 *   kill       ends by SIGKILL
 */
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

static char *volatile last;

static void take(size_t n)
{
    last = malloc(n);
    if (!last)
        exit(9);
    memset(last, 1, n);
}

static void work(size_t n)
{
    JESPAN("work");
    JESPAN("part", "tenant", "blue");
    take(n);
}

static void keep(size_t n)
{
    JESPAN("session");
    take(n);
}

static int await(const char *pattern)
{
    glob_t found;
    for (int i = 0; i < 60000; i++, usleep(10000)) {
        int missing = glob(pattern, 0, NULL, &found);
        globfree(&found);
        if (!missing)
            return 0;
    }
    return 8;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "0";
        size_t n = strtoul(next, NULL, 10);
        if (!strcmp(word, "work"))
            work(n), i++;
        else if (!strcmp(word, "keep"))
            keep(n), i++;
        else if (!strcmp(word, "plain"))
            take(n), i++;
        else if (!strcmp(word, "drop"))
            free(last);
        else if (!strcmp(word, "kill"))
            raise(SIGKILL);
        else if (!strcmp(word, "exit"))
            _exit((int)n);
        else if (strcmp(word, "await") || await(argv[++i]))
            return 8;
    }
    return 0;
}
