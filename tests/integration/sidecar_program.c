/* SPDX-License-Identifier: BSD-2-Clause */
/* For sidecar.sh and tree.sh: does what its arguments say, one after the other.
 *
 *   hold N      keeps N pieces of 4096 bytes in the span "held"
 *   label N     keeps N such pieces in the spans "request" and "cache", with labels
 *   churn       allocates and frees in the span "churn" for ever, with 1 to 100 pieces of 1000 bytes in use
 *   say         prints its number
 *   wait        waits for the end of its standard input
 *   close       closes all descriptors from 3 on
 *   daemon      goes into the background as a daemon does: the first process exits with 0
 *   fork N      N forked children go on with the words that follow; waits for them, and fails if one does
 *   exec        executes this program anew with the words that follow
 *   children    fails if it has a child, or one to wait for
 *   status N    exits with N
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

static char *volatile kept;

static void hold(int n)
{
    JESPAN("held");
    while (n-- > 0) {
        kept = malloc(4096);
        if (!kept)
            exit(4);
        memset(kept, 1, 4096);
    }
}

static void hold_with_labels(int n)
{
    JESPAN("request", "tenant", "blue", "route", "/doc");
    JESPAN("cache", "shard", "7", "tenant", "blue");
    while (n-- > 0) {
        kept = malloc(4096);
        if (!kept)
            exit(4);
        memset(kept, 1, 4096);
    }
}

static void churn(void)
{
    JESPAN("churn");
    static char *pieces[100];
    for (unsigned i = 0;; i = (i * 17 + 1) % 100) {
        free(pieces[i]);
        pieces[i] = malloc(1000);
    }
}

static void check_children(void)
{
    errno = 0;
    if (waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD)
        exit(5);
}

/* Returns in the children. */
static void fork_children(int n)
{
    int status, failed = 0;
    fflush(stdout);
    for (int i = 0; i < n; i++)
        if (fork() == 0)
            return;
    while (wait(&status) > 0)
        failed |= status != 0;
    exit(failed ? 8 : 0);
}

int main(int argc, char **argv)
{
    char byte;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int n = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        if (!strcmp(word, "hold"))
            hold(n), i++;
        else if (!strcmp(word, "label"))
            hold_with_labels(n), i++;
        else if (!strcmp(word, "churn"))
            churn();
        else if (!strcmp(word, "say"))
            printf("%d\n", (int)getpid()), fflush(stdout);
        else if (!strcmp(word, "fork"))
            fork_children(n), i++;
        else if (!strcmp(word, "close"))
            closefrom(3);
        else if (!strcmp(word, "exec")) {
            argv[i] = argv[0];
            execv("/proc/self/exe", argv + i);
            return 7;
        } else if (!strcmp(word, "children"))
            check_children();
        else if (!strcmp(word, "status"))
            return n;
        else if (!strcmp(word, "wait"))
            while (read(0, &byte, 1) > 0)
                ;
        else if (!strcmp(word, "daemon")) {
            if (daemon(1, 1))
                return 6;
        } else
            return 3;
    }
    return 0;
}
