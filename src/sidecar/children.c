/* SPDX-License-Identifier: BSD-2-Clause */
/* Children of a process that the sidecar serves. */
#include "sidecar/children.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process_stat.h"
#include "report/unfollowed.h"

typedef pid_t find_fn(pid_t process, pid_t thread);

/* Asks for the children of each thread until one is found. */
static pid_t find_by_thread(pid_t process, find_fn *find)
{
    char path[32];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *threads = opendir(path);
    for (struct dirent *one; threads && !found && (one = readdir(threads));)
        if (one->d_name[0] != '.')
            found = find(process, (pid_t)atoi(one->d_name));
    if (threads)
        closedir(threads);
    return found;
}

static pid_t find_unfollowed(pid_t process, pid_t thread)
{
    return (pid_t)forked_children_find(process, thread);
}

pid_t children_unfollowed(pid_t process)
{
    return find_by_thread(process, find_unfollowed);
}

/* ---- Namespaces ---- */

/* In how many PID namespaces a process has a number, beginning with that of /proc. 0: it has ended. */
static int count_namespaces(pid_t pid)
{
    static const char field[] = "NSpid:";
    char path[32], *line = NULL;
    size_t bytes = 0;
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && !n && getline(&line, &bytes, status) > 0)
        if (strncmp(line, field, sizeof field - 1) == 0)
            for (char *at = line + sizeof field - 1; (at = strchr(at, '\t')); at++)
                n++;
    if (status)
        fclose(status);
    free(line);
    return n;
}

static pid_t find_outside(pid_t process, pid_t thread)
{
    char path[64];
    int child = 0, n = count_namespaces(process);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)thread);
    FILE *children = n > 0 ? fopen(path, "re") : NULL;
    while (children && fscanf(children, "%d", &child) == 1 && count_namespaces(child) <= n)
        child = 0;
    if (children)
        fclose(children);
    return child;
}

pid_t children_outside(pid_t process)
{
    return find_by_thread(process, find_outside);
}

/* ---- Configurations ---- */

enum environment { ENVIRONMENT_IS_OTHER, ENVIRONMENT_FITS, ENVIRONMENT_IS_EMPTY };

static enum environment read_environment(pid_t process, const char *ending)
{
    static const char variable[] = "JESPAN_CONF=";
    char path[PROCESS_PATH_BYTES], *one = NULL;
    size_t room = 0, n_ending = strlen(ending);
    bool is_empty = true, found = false;
    FILE *all = fopen(process_path(path, process, "environ"), "re");
    if (!all)
        return ENVIRONMENT_IS_OTHER;
    for (ssize_t n; !found && (n = getdelim(&one, &room, '\0', all)) > 0; is_empty = false)
        found = strncmp(one, variable, sizeof variable - 1) == 0 && strlen(one) > n_ending
             && strcmp(one + strlen(one) - n_ending, ending) == 0;
    fclose(all);
    free(one);
    return found ? ENVIRONMENT_FITS : is_empty ? ENVIRONMENT_IS_EMPTY : ENVIRONMENT_IS_OTHER;
}

/* Whether the system is about to start another program in the process: it has memory already (vsize), and no environment yet
 * (env_end). */
static bool is_executing(pid_t process)
{
    struct process_stat stat;
    return process_stat_read(&stat, process) && process_stat_number(&stat, 23) && !process_stat_number(&stat, 51);
}

/* Where the environment is read again, the program has started meanwhile. */
static bool has_conf(pid_t process, const char *ending)
{
    enum environment e = read_environment(process, ending);
    if (e == ENVIRONMENT_IS_EMPTY)
        return is_executing(process) || read_environment(process, ending) == ENVIRONMENT_FITS;
    return e == ENVIRONMENT_FITS;
}

bool children_have_conf(const char *ending)
{
    bool found = false;
    DIR *processes = opendir("/proc");
    for (struct dirent *one; processes && !found && (one = readdir(processes));)
        found = atoi(one->d_name) > 0 && has_conf((pid_t)atoi(one->d_name), ending);
    if (processes)
        closedir(processes);
    return found;
}
