/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints its number of threads in a constructor, when main() begins, and after the first allocation there; and the error of
 * unshare(CLONE_NEWUSER) before that allocation. Then it waits for a file. Only one allocation is made in main(). */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int in_constructor;
static void *volatile kept;

static int threads(void)
{
    struct stat task;
    return stat("/proc/self/task", &task) ? -1 : (int)task.st_nlink - 2;
}

/* Sizes of all kinds, so that main() takes objects that are there. */
static __attribute__((constructor)) void allocate(void)
{
    for (size_t bytes = 1; bytes < 100000; bytes += bytes / 8 + 1) {
        kept = malloc(bytes);
        free(kept);
    }
    in_constructor = threads();
}

static void wait_for(const char *path)
{
    for (int i = 0; i < 60000 && access(path, F_OK); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* In a child of its own, since it makes another user of the process. */
static int error_of_unshare(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER) ? errno : 0);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    int at_begin = threads(), error = error_of_unshare() == EINVAL;
    if (argc > 1)
        kept = malloc(100);
    dprintf(STDOUT_FILENO, "constructor %d, main %d, allocation %d, unshare %d\n", in_constructor, at_begin, threads(), error);
    if (argc > 1)
        wait_for(argv[1]);
    return 0;
}
