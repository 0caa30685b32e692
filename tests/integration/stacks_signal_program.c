/* SPDX-License-Identifier: BSD-2-Clause */
/* For stacks_signal.sh: does what its arguments say, one after another:
 *
 *   signal N    sends itself a signal             mode       prints spans.stacks
 *   handler N   handles it itself                 take       allocates in the span "request", and frees that
 *   fork        goes on in a child; the parent ends as it does
 *   big         allocates 100,000 bytes, and frees them
 *   stacks      prints how many stacks there are: none, or some
 *   threads     prints how many threads there are
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

static void take(size_t bytes)
{
    JESPAN("request");
    errno = 123;
    char *volatile p = malloc(bytes);
    if (errno != 123)
        printf("errno %d\n", errno);
    free(p);
}

static void print_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(tasks));)
        n += e->d_name[0] != '.';
    closedir(tasks);
    printf("%d\n", n);
}

static void handle(int number)
{
    (void)number;
    (void)!write(1, "handled\n", 8);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    take(100);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "signal"))
            raise(atoi(argv[++i]));
        else if (!strcmp(argv[i], "handler"))
            signal(atoi(argv[++i]), handle);
        else if (!strcmp(argv[i], "mode"))
            puts(ctl_text("spans.stacks"));
        else if (!strcmp(argv[i], "take"))
            take(100);
        else if (!strcmp(argv[i], "big"))
            take(100000);
        else if (!strcmp(argv[i], "stacks"))
            puts(ctl_u64("spans.stats.stacks.stacks") ? "some" : "none");
        else if (!strcmp(argv[i], "threads"))
            print_threads();
        else if (!strcmp(argv[i], "fork")) {
            int status = 0;
            pid_t child = fork();
            if (child)
                return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
        } else
            return 98;
    }
    return 0;
}
