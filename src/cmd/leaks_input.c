/* SPDX-License-Identifier: BSD-2-Clause */
/* What `jespan leaks` reads: a file, the newest heap dump of a directory, or a process. */
#include "leaks_input.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "outside.h"

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Replaces `name`, the directory's, by that of its newest dump. */
static const char *find_newest(char *name, size_t name_bytes)
{
    char found[NAME_MAX + 1] = "";
    struct timespec newest = {0};
    struct stat status;
    DIR *directory = opendir(name);
    if (!directory)
        return strerror(errno);
    for (struct dirent *entry; (entry = readdir(directory));) {
        bool is_dump = fnmatch("heap.*.pb.gz", entry->d_name, 0) == 0;
        if (is_dump && fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && is_newer(&status.st_mtim, &newest)) {
            newest = status.st_mtim;
            snprintf(found, sizeof found, "%s", entry->d_name);
        }
    }
    closedir(directory);
    size_t n = strlen(name);
    if (found[0] == '\0')
        return "there is no heap dump (heap.*.pb.gz) in this directory";
    if (snprintf(name + n, name_bytes - n, "/%s", found) >= (int)(name_bytes - n))
        return strerror(ENAMETOOLONG);
    return NULL;
}

/* The dump never comes to a disk. */
static const char *read_process(struct profile *profile, pid_t pid)
{
    char path[32];
    struct outside process;
    const char *reason = outside_read(&process, pid);
    if (reason)
        return reason;
    int fd = memfd_create("jespan-leaks", MFD_CLOEXEC), error = fd < 0 ? -errno : outside_write(&process, EXPORTER_HEAP, fd);
    outside_close(&process);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    reason = error ? strerror(-error) : profile_read(profile, path);
    if (fd >= 0)
        close(fd);
    return reason;
}

const char *leaks_input_read(struct profile *profile, const char *word, char *name, size_t name_bytes)
{
    struct stat status;
    bool exists = stat(word, &status) == 0;
    pid_t pid = exists ? 0 : cmd_pid(word);
    memset(profile, 0, sizeof *profile);
    snprintf(name, name_bytes, "%s", word);
    if (pid != 0)
        return read_process(profile, pid);
    const char *reason = exists && S_ISDIR(status.st_mode) ? find_newest(name, name_bytes) : NULL;
    return reason ? reason : profile_read(profile, name);
}
