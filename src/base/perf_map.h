/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf maps: files in which a program names the code that it generates, as /tmp/perf-PID.map, for perf and others. Each line has a
 * start, a size, both hexadecimal, and a name: tools/perf/Documentation/jit-interface.txt of Linux. Without malloc. */
#ifndef JESPAN_PERF_MAP_H
#define JESPAN_PERF_MAP_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#define PERF_MAP_PATH_BYTES 40

/* `pid` is the number of the process in its own PID namespace. */
static inline void perf_map_path(char path[PERF_MAP_PATH_BYTES], pid_t pid)
{
    snprintf(path, PERF_MAP_PATH_BYTES, "/tmp/perf-%d.map", (int)pid);
}

/* Whether the path may be that of a perf map. */
static inline bool perf_map_has_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t digits = strncmp(name, "perf-", 5) ? 0 : strspn(name + 5, "0123456789");
    return digits > 0 && !strcmp(name + 5 + digits, ".map");
}

/* Stands for a build id: it tells the file from one that a later process of the same number made. Returns false where the file
 * cannot be asked. */
#define PERF_MAP_IDENTITY_BYTES 64
static inline bool perf_map_identify(char identity[PERF_MAP_IDENTITY_BYTES], int fd)
{
    struct statx file;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file))
        return false;
    if (file.stx_mask & STATX_BTIME)
        snprintf(identity, PERF_MAP_IDENTITY_BYTES, "(made %lld.%09u)", (long long)file.stx_btime.tv_sec, file.stx_btime.tv_nsec);
    else
        snprintf(identity, PERF_MAP_IDENTITY_BYTES, "(inode %llu)", (unsigned long long)file.stx_ino);
    return true;
}

#endif
