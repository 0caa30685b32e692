/* SPDX-License-Identifier: BSD-2-Clause */
/* The fields of /proc/PID/stat, by their numbers in proc(5). Any thread; without malloc, but where it is said. */
#ifndef JESPAN_PROCESS_STAT_H
#define JESPAN_PROCESS_STAT_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/descriptor.h"

struct process_stat {
    char text[2048]; /* 50 numbers and a name of 16 bytes take less */
};

/* `pid` 0: the calling process. Returns false where it cannot be read; then it has no fields. */
static inline bool process_stat_read(struct process_stat *s, pid_t pid)
{
    char path[40] = "/proc/self/stat"; /* /proc may be of another PID namespace, with other numbers */
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, s->text, sizeof s->text - 1);
    if (fd >= 0)
        close(fd);
    s->text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Returns the text that begins with the field, whose number is 3 or more; NULL if there is none. The name in field 2 may contain
 * anything, so the fields are counted from its last ')'. */
static inline const char *process_stat_text(const struct process_stat *s, int number)
{
    const char *at = strrchr(s->text, ')');
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

/* 0: there is none. */
static inline unsigned long long process_stat_number(const struct process_stat *s, int number)
{
    const char *text = process_stat_text(s, number);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Field 3, such as 'Z' for a zombie; 0: there is none. */
static inline char process_stat_state(const struct process_stat *s)
{
    const char *text = process_stat_text(s, 3);
    return text ? *text : '\0';
}

/* Whether it has memory. A zombie has none, nor has a thread that is about to end. */
static inline bool process_stat_has_memory(const struct process_stat *s)
{
    return process_stat_number(s, 23) != 0; /* vsize */
}

/* A thread of the process by which its memory and its files are seen, as in /proc/TID/maps: the process itself, unless its first thread
 * has ended (pthread_exit(3)) and others go on. Calls malloc then. */
static inline pid_t process_living_thread(pid_t pid)
{
    struct process_stat stat;
    char path[40];
    pid_t found = 0;
    if (!process_stat_read(&stat, pid) || process_stat_has_memory(&stat))
        return pid;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *one; threads && !found && (one = readdir(threads));) {
        pid_t thread = (pid_t)atoi(one->d_name);
        if (thread > 0 && process_stat_read(&stat, thread) && process_stat_has_memory(&stat))
            found = thread;
    }
    if (threads)
        closedir(threads);
    return found ? found : pid;
}

#define PROCESS_PATH_BYTES 48 /* "/proc/", a number, and the longest name of a file there */

/* "/proc/TID/WHAT" for such a thread. `pid` 0: this process, whose first thread may have ended as well. */
static inline const char *process_path(char path[PROCESS_PATH_BYTES], pid_t pid, const char *what)
{
    if (pid)
        snprintf(path, PROCESS_PATH_BYTES, "/proc/%d/%s", (int)process_living_thread(pid), what);
    else
        snprintf(path, PROCESS_PATH_BYTES, "/proc/thread-self/%s", what);
    return path;
}

/* Where the file is that has this name for the process, which may be in a container. `pid` is not 0. */
static inline void process_path_in_root(char *path, size_t bytes, pid_t pid, const char *file)
{
    char root[PROCESS_PATH_BYTES];
    snprintf(path, bytes, "%s%s", process_path(root, pid, "root"), file);
}

/* The second number of /proc/PID/statm in proc(5). 0: unknown. */
static inline uint64_t process_resident_bytes(pid_t pid)
{
    char path[PROCESS_PATH_BYTES], text[128];
    int fd = descriptor_open(process_path(path, pid, "statm"), O_RDONLY, 0);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

#endif
