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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

static void take(size_t bytes)
{
    JESPAN("request");
    errno = 123;
    char *volatile p = malloc(bytes);
    if (errno != 123)
        printf("errno %d\n", errno);
    free(p);
}

static void print_mode(void)
{
    const char *mode = NULL;
    size_t bytes = sizeof mode;
    mallctl("spans.stacks", &mode, &bytes, NULL, 0);
    printf("%s\n", mode);
}

static void print_stacks(void)
{
    uint64_t n = 0;
    size_t bytes = sizeof n;
    mallctl("spans.stats.stacks.stacks", &n, &bytes, NULL, 0);
    puts(n ? "some" : "none");
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
            print_mode();
        else if (!strcmp(argv[i], "take"))
            take(100);
        else if (!strcmp(argv[i], "big"))
            take(100000);
        else if (!strcmp(argv[i], "stacks"))
            print_stacks();
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
